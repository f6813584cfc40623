"""Evaluates a call against the rules: what is not a clean answer is `Failed`, and nothing failed passes.

Cedar's parsed handles are made once for a bundle. The rules are sliced by action: a rule that names another
action by `==` cannot match and is left out (a test compares every slice with the full set). Entities and
requests are validated against the schema at every call. A diagnostics error, `NoDecision`, an answer of
unknown form and any exception are `Failed`: in Cedar alone, a forbid that errors is skipped and its call
allowed.

A forbid with `@hold("role:n")` holds: denied, every determining forbid a hold, and allowed without the
holds. Which holds were lifted by approvals comes in as an argument; approvals are never in rule text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cedarpy
import orjson
from cedarpy import pst

from decider.entities.known import KnownEntities
from decider.policy.rules import Rule, RulesError, one_line, parse_rules
from licet.hold import Requirement

Value = str | int | bool | tuple["Value", ...] | Mapping[str, "Value"]
"""What an attribute can be. There is no float: floats never decide."""

PRINCIPAL_TYPE: Final = "Agent"
PLAIN_RESOURCE_TYPE: Final = "Resource"

SAMPLE_CONTEXT: Final[Mapping[str, str | int | tuple[str, ...]]] = {
    "environment": "",
    "tenant": "",
    "principal": "",
    "task": "",
    "tool": "",
    "method": "",
    "class": "",
    "tier": 0,
    "amount_minor": 0,
    "currency": "",
    "risk_flags": (),
    "data_classes": (),
    "results": (),
    "relations": (),
    "session_calls": 0,
    "session_amount_minor": 0,
}
"""Everything a rule may know beside the facts, with its type; a schema declares what it uses."""

_ACTION: Final = re.compile(
    r'^action "([^"\\]+)"[^{;]* appliesTo \{\s*principal: [^\n]*\s*resource: \[([^\]]*)\]', re.MULTILINE
)
_ERROR_OF: Final = re.compile(r"error while evaluating policy `([^`]+)`")
_NAMESPACE: Final = re.compile(r"^namespace ", re.MULTILINE)
NO_ENTITIES: Final = cedarpy.Entities.from_json_str("[]")


@dataclass(frozen=True, slots=True)
class RuleCall:
    """A call as rules see it: `Agent::"agent"` does `Action::"operation"` to a resource with its facts."""

    agent: str
    operation: str
    resource_type: str
    resource: str
    attributes: Mapping[str, Value]
    context: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Allowed:
    """Some rule allows it and none forbids it; `lifted` are the holds that approvals lifted."""

    rule_ids: tuple[str, ...]
    lifted: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A rule forbids it; without any, none allows it."""

    rule_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """It would be allowed were it not for these."""

    requirements: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """No usable answer: the call is neither allowed nor rightly denied.

    `detail` is the engine's own text, which spells values: for who tests rules with values of their own.
    `recorded` is what may go on record: which rules failed, and nothing of the call.
    """

    detail: str
    recorded: str = "the rules could not be evaluated"


@dataclass(frozen=True, slots=True)
class Narrowable:
    """It would be allowed or held were it not for these, whose changes may narrow it to what is."""

    rule_ids: tuple[str, ...]


Settled = Allowed | Forbidden | Held | Failed
"""What can be decided on."""

Evaluation = Settled | Narrowable


@dataclass(frozen=True, slots=True)
class Slice:
    """The rules of one operation: all, those that do not hold, those that neither hold nor modify."""

    full: cedarpy.PolicySet
    without_holds: cedarpy.PolicySet
    bare: cedarpy.PolicySet


class RuleSet:
    """A bundle's rules, parsed once. Raises `RulesError` where rules, schema and entities do not fit.

    `entities_json`: what `decider.entities.known` reads; empty: the call's own resource is all there is.
    """

    def __init__(self, rules: str, schema: str, entities_json: str = "") -> None:
        self.rules = parse_rules(rules)
        try:
            self._schema = cedarpy.Schema.from_str(schema)
        except ValueError as error:
            raise RulesError((f"the schema is no Cedar schema: {one_line(error)}",)) from error
        self._validate(rules)
        self.entities = KnownEntities(entities_json, self._schema)
        self._waiting = {
            rule.rule_id: rule.requirement for rule in self.rules if rule.requirement is not None
        }
        self._modifying = frozenset(rule.rule_id for rule in self.rules if rule.modifies)
        self._slices: dict[str, Slice] = {}
        self._declared: dict[tuple[str, str, str], dict[str, bool]] = {}
        self.asks_relations = "relations" in str(self._schema)
        """Whether the schema speaks of relations anywhere: one that does not need not be told any."""
        self._try_actions()

    def _validate(self, rules: str) -> None:
        if _NAMESPACE.search(str(self._schema)):
            raise RulesError(("the schema has a namespace: declare entities and actions without one",))
        result = cedarpy.validate_policies(rules, self._schema)
        if not result.validation_passed:
            names = result.id_annotations_by_policy_id
            raise RulesError(
                tuple(
                    f"rule `{names.get(error.policy_id, error.policy_id)}`: {one_line(error.error)}"
                    for error in result.errors
                )
                or ("the rules do not fit the schema",)
            )

    def _try_actions(self) -> None:
        """Ask for every action once, without rules: a context that we never fill would fail every call."""
        faults = []
        nothing = policy_set(())
        for operation, resources in _ACTION.findall(str(self._schema)):
            for resource_type in (name.strip() for name in resources.split(",")):
                call = RuleCall("agent", operation, resource_type, "resource", {}, SAMPLE_CONTEXT)
                context = orjson.dumps(self._known(call, "context", call.context)).decode()
                request = {**_request(call), "context": context}
                answer = self._ask(request, nothing, NO_ENTITIES)
                if isinstance(answer, Failed):
                    faults.append(f"action `{operation}` on `{resource_type}`: {answer.detail}")
        if faults:
            raise RulesError(tuple(faults))

    def evaluate(self, call: RuleCall, *, lifted: frozenset[str] = frozenset()) -> Settled:
        """Evaluate one call. `lifted` are the ids of hold rules that enough people approved. Never raises.

        A rule with `@modify` is a forbid like any other here.
        """
        evaluation = self.narrow(call, lifted=lifted, modify=False)
        return Forbidden(evaluation.rule_ids) if isinstance(evaluation, Narrowable) else evaluation

    def narrow(
        self, call: RuleCall, *, lifted: frozenset[str] = frozenset(), modify: bool = True
    ) -> Evaluation:
        """Evaluate one call that may still be narrowed by rules with `@modify`. Never raises."""
        try:
            return self._evaluate(call, lifted, modify=modify)
        except Exception as error:  # noqa: BLE001 - the boundary: nothing an engine throws may become an allow
            name = type(error).__name__
            return Failed(f"{name}: {one_line(error)}", f"the engine raised {name}")

    def _evaluate(self, call: RuleCall, lifted: frozenset[str], *, modify: bool) -> Evaluation:
        slice_ = self._slice(call.operation)
        attributes = self._known(call, "resource", call.attributes)
        entities = self.entities.with_resource((call.resource_type, call.resource), attributes)
        context = orjson.dumps(self._known(call, "context", call.context)).decode()
        request = {**_request(call), "context": context}
        answer = self._ask(request, slice_.full, entities)
        if not isinstance(answer, Forbidden) or not answer.rule_ids:
            return answer
        changing = tuple(rule for rule in answer.rule_ids if modify and rule in self._modifying)
        requirements = tuple(self._waiting[rule] for rule in answer.rule_ids if rule in self._waiting)
        if len(requirements) + len(changing) != len(answer.rule_ids):
            mild = {*changing, *(need.rule_id for need in requirements)}
            return Forbidden(tuple(rule for rule in answer.rule_ids if rule not in mild))
        beneath = self._ask(request, slice_.bare if changing else slice_.without_holds, entities)
        if not isinstance(beneath, Allowed):
            return beneath
        if changing:
            return Narrowable(changing)
        if all(requirement.rule_id in lifted for requirement in requirements):
            return Allowed(beneath.rule_ids, requirements)
        return Held(requirements)

    def _ask(
        self, request: Mapping[str, Any], policies: cedarpy.PolicySet, entities: cedarpy.Entities
    ) -> Allowed | Forbidden | Failed:
        result = cedarpy.is_authorized(dict(request), policies, entities, self._schema)
        diagnostics = result.diagnostics
        if diagnostics.errors:
            return Failed("; ".join(one_line(error) for error in diagnostics.errors), self._rules_in(result))
        names = diagnostics.id_annotations_by_reason
        rule_ids = tuple(sorted(names[reason] for reason in diagnostics.reasons))
        if result.decision is cedarpy.Decision.Allow and rule_ids:
            return Allowed(rule_ids)
        if result.decision is cedarpy.Decision.Deny:
            return Forbidden(rule_ids)
        return Failed(f"the engine answered `{result.decision.value}`")

    def _rules_in(self, result: cedarpy.AuthzResult) -> str:
        """Name the rules that errors are of; the rest of an error spells values of the call."""
        names = {str(rule.node.id): rule.rule_id for rule in self.rules}
        found = (_ERROR_OF.match(error) for error in result.diagnostics.errors)
        failed = sorted({names[match[1]] for match in found if match and match[1] in names})
        return "rules failed: " + (", ".join(f"`{rule_id}`" for rule_id in failed) or "not known which")

    def _slice(self, operation: str) -> "Slice":
        found = self._slices.get(operation)
        if found is None:
            rules = [rule for rule in self.rules if rule.actions is None or operation in rule.actions]
            found = self._slices[operation] = slice_of(rules)
        return found

    def _known(self, call: RuleCall, variable: str, values: Mapping[str, Value]) -> dict[str, Value]:
        """Keep what the schema declares: a field that a tool adds to its answer must not stop every call."""
        asked = self._declared.setdefault((variable, call.operation, call.resource_type), {})
        unasked = values.keys() - asked.keys()
        if unasked:
            declared = self.declared(variable, call.operation, call.resource_type, unasked)
            asked.update({name: name in declared for name in unasked})
        return {name: value for name, value in values.items() if asked[name]}

    def declared(
        self, variable: str, operation: str, resource_type: str, names: Iterable[str]
    ) -> frozenset[str]:
        """Return which of `names` the schema declares on `context` or `resource` for an operation.

        Asked of Cedar's own validator: behind a `has` that can never be true it checks nothing, behind any
        other it finds the type error.
        """
        wanted = tuple(names)
        scope = f"principal, action == Action::{quoted(operation)}, resource is {resource_type}"
        text = "\n".join(
            f"@id({quoted(name)}) permit({scope}) when {{ {variable} has {quoted(name)} && (1 < true) }};"
            for name in wanted
        )
        result = cedarpy.validate_policies(text, self._schema)
        named = result.id_annotations_by_policy_id
        return frozenset(named[error.policy_id] for error in result.errors if error.policy_id in named)


def _request(call: RuleCall) -> dict[str, Any]:
    return {
        "principal": {"type": PRINCIPAL_TYPE, "id": call.agent},
        "action": {"type": "Action", "id": call.operation},
        "resource": {"type": call.resource_type, "id": call.resource},
    }


def quoted(text: str) -> str:
    """Return `text` as a Cedar string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def slice_of(rules: Sequence[Rule]) -> Slice:
    """Return the parsed handles of some rules."""
    unheld = [rule for rule in rules if rule.requirement is None]
    bare = [rule for rule in unheld if not rule.modifies]
    return Slice(policy_set(rules), policy_set(unheld), policy_set(bare))


def policy_set(rules: Iterable[Rule]) -> cedarpy.PolicySet:
    """Return the parsed handle of some rules."""
    nodes = {rule.node.id: rule.node for rule in rules}
    return cedarpy.PolicySet.from_pst(pst.PolicySet(templates={}, static_policies=nodes, template_links=()))
