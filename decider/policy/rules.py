"""Cedar rules as people write them: what they must be before they may decide anything.

Cedar skips a policy whose condition errors, so a `forbid` that errors would let its call through. Hence,
beside Cedar's own strict validation: no `has`, `hasTag` or `getTag` in a forbid (a guard that is silently
off), no templates, an `@id` on every rule, unique, and no annotation that this module does not know. A rule
set that breaks any of this is refused as a whole. Pure: text in, rules or faults out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final
from unicodedata import is_normalized

import cedarpy
from cedarpy import pst

from decider.identifiers import unseen
from licet.hold import Requirement

MAX_RULES: Final = 2_000
"""The most rules in one bundle."""

MAX_RULES_BYTES: Final = 1 << 20
"""The longest rule text, in bytes."""

MAX_QUORUM: Final = 9
"""The most people that one rule may ask for."""

ANNOTATIONS: Final = frozenset({"id", "hold", "modify"})
"""Every annotation that means something; any other is refused, for a misspelt `@hold` would be a plain
forbid.
"""

RULE_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
_HOLD: Final = re.compile(r"([a-z0-9_-]{1,64}):([1-9])\Z")
_UNGUARDABLE: Final = frozenset({"has_tag", "get_tag"})


class RulesError(ValueError):
    """A rule text cannot be used. `faults` says why, one sentence each."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `actions` are the actions it names by `==`; None where it may apply to any."""

    rule_id: str
    forbids: bool
    actions: frozenset[str] | None
    requirement: Requirement | None
    modifies: bool
    unconstrained: bool
    node: pst.Template


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of a text, in its order. Raises `RulesError` with everything that is wrong.

    An empty text is no fault: it has no rules, and what no rule allows is denied.
    """
    if len(text.encode()) > MAX_RULES_BYTES:
        raise RulesError((f"the rules are longer than {MAX_RULES_BYTES} bytes",))
    hidden = unseen(text, lines=True)
    if hidden or not is_normalized("NFC", text):
        raise RulesError(
            (f"the rules hold {hidden or 'text that is not in composed form'}: write what is seen",)
        )
    try:
        parsed = cedarpy.policies_to_pst(text)
    except ValueError as error:
        raise RulesError((f"the rules are no Cedar: {one_line(error)}",)) from error
    faults: list[str] = []
    if parsed.templates or parsed.template_links:
        faults.append("templates (`?principal`, `?resource`) are not supported: write a rule for each case")
    nodes = sorted(parsed.static_policies.values(), key=_position)
    if len(nodes) > MAX_RULES:
        faults.append(f"more than {MAX_RULES} rules")
    rules = tuple(_rule(node, position, faults) for position, node in enumerate(nodes, start=1))
    seen: set[str] = set()
    for rule in rules:
        if rule.rule_id in seen:
            faults.append(f'`@id("{rule.rule_id}")` is given twice')
        seen.add(rule.rule_id)
    if faults:
        raise RulesError(tuple(faults))
    return rules


def one_line(error: object) -> str:
    """Return an error's text in one line of at most 300 characters, for people."""
    return " ".join(str(error).split())[:300]


def _position(node: pst.Template) -> int:
    return int(node.id.removeprefix("policy")) if node.id.removeprefix("policy").isdigit() else 0


def _rule(node: pst.Template, position: int, faults: list[str]) -> Rule:
    rule_id = node.annotations.get("id", "")
    name = f"rule `{rule_id}`" if rule_id else f"rule {position}"
    if not rule_id:
        faults.append(f"{name}: has no `@id`, so no decision could name it")
    elif not RULE_ID.match(rule_id):
        faults.append(f"{name}: an id is 1 to 64 of a-z, 0-9, `-`, `_`")
    known = ", ".join(f"@{key}" for key in sorted(ANNOTATIONS))
    unknown = sorted(node.annotations.keys() - ANNOTATIONS)
    faults.extend(f"{name}: unknown annotation `@{key}`; known: {known}" for key in unknown)
    forbids = node.effect == "forbid"
    requirement = _requirement(node, rule_id, name, faults)
    if forbids and any(_unsafe(clause.expr) for clause in node.clauses):
        faults.append(
            f"{name}: a forbid must not use `has`, `hasTag` or `getTag`: where the attribute is missing it"
            " would be silently off; make the attribute mandatory in the schema"
        )
    named = node.action.entity if isinstance(node.action, pst.ActionEq) else None
    actions = frozenset({named.id}) if named is not None else None
    open_scope = isinstance(node.principal, pst.ScopeAny) and isinstance(node.action, pst.ScopeAny)
    return Rule(
        rule_id=rule_id,
        forbids=forbids,
        actions=actions,
        requirement=requirement,
        modifies=_modifies(node, name, faults),
        unconstrained=open_scope and not node.clauses and not forbids,
        node=node,
    )


def _modifies(node: pst.Template, name: str, faults: list[str]) -> bool:
    if "modify" not in node.annotations:
        return False
    if node.effect != "forbid":
        faults.append(f"{name}: `@modify` stands on a forbid only: on a permit it would change nothing")
    if node.annotations["modify"]:
        faults.append(f"{name}: `@modify` takes no value: what is changed stands in bundle.yaml")
    if "hold" in node.annotations:
        faults.append(f"{name}: a rule either holds or modifies")
    return True


def _requirement(node: pst.Template, rule_id: str, name: str, faults: list[str]) -> Requirement | None:
    text = node.annotations.get("hold")
    if text is None:
        return None
    if node.effect != "forbid":
        faults.append(f"{name}: `@hold` stands on a forbid only; on a permit it would hold nothing")
    found = _HOLD.match(text)
    if found is None:
        faults.append(f'{name}: `@hold("{text}")` must be `role:n` with n from 1 to {MAX_QUORUM}')
        return None
    return Requirement(rule_id, found.group(1), int(found.group(2)))


def _unsafe(expression: Any) -> bool:
    return any(
        isinstance(node, pst.HasAttr) or (isinstance(node, pst.BinaryOp) and node.op in _UNGUARDABLE)
        for node in _walk(expression)
    )


def _walk(root: Any) -> Iterator[Any]:
    pending: list[Any] = [root]
    while pending:
        value = pending.pop()
        if isinstance(value, tuple):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(value.values())
        elif is_dataclass(value) and not isinstance(value, type):
            yield value
            pending.extend(getattr(value, field.name) for field in fields(value))
