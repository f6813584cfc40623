"""Bundles: rules, schema and texts, from a directory to signable bytes, and back to what decides.

What is built was checked in every way that loading checks, and loading checks again: a bundle is a
`LoadedBundle` only when its rules parse, fit the schema strictly, carry unique ids and known annotations,
and its notes name rules that exist. Anything else raises, and whoever holds an older bundle keeps it. Pure
but for `read_bundle_source`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from decider.budgets.budget import DELEGATION_RULES, RULE_PREFIX, Budget
from decider.budgets.source import load_budgets, read_budgets
from decider.egress import Allowed, is_flag
from decider.entities.source import read_entities
from decider.loop.loop_source import load_loops, read_loops
from decider.loop.loops import LoopLimits
from decider.policy.cedar import RuleSet
from decider.policy.rules import RulesError
from decider.policy.terms import Terms, faults_of, load_terms, read_terms
from decider.policy.waiver import Waiver, load_waiver, read_waiver, shadow_warning, shadowed_until_ms
from decider.source import Fault, Faults, Section, SourceError, read, read_text
from decider.task.task_template import Templates, load_templates, read_templates
from licet.refusal import Refusal
from licet.statement import canonical, strict_parse
from licet.tier import CallClass
from licet.v1 import bundle_pb2

FORMAT_VERSION: Final = 1
MANIFEST: Final = "bundle.yaml"
RULES: Final = "rules.cedar"
SCHEMA: Final = "schema.cedarschema"
MAX_TEXT_BYTES: Final = 300
"""The longest safe reason or way to a person, in bytes: it travels in gRPC trailers."""

STAGES: Final[Mapping[str, bundle_pb2.RolloutStage.ValueType]] = MappingProxyType(
    {
        "shadow": bundle_pb2.ROLLOUT_STAGE_SHADOW,
        "enforce": bundle_pb2.ROLLOUT_STAGE_ENFORCE,
    }
)


@dataclass(frozen=True, slots=True)
class Note:
    """What may safely be said when a rule denies, and who can be asked."""

    safe_reason: str
    escalate_to: str


class BundleError(ValueError):
    """A bundle cannot be used; `str()` says why."""


@dataclass(frozen=True, slots=True)
class LoadedBundle:
    """A bundle that may decide."""

    version: int
    environment: str
    shadow: bool
    rules: RuleSet
    notes: Mapping[str, Note]
    escalate_to: str
    egress: Mapping[str, Allowed] = field(default_factory=dict)
    """What the egress check need not report, by method."""
    terms: Terms = field(default_factory=Terms)
    """What rules change, bind and oblige to."""
    budgets: tuple[Budget, ...] = ()
    """What calls may use up together."""
    templates: Templates = field(default_factory=dict)
    """What tasks may be registered, by name."""
    loops: LoopLimits | None = None
    """When repeated calls are a loop; None: never."""
    waiver: Waiver | None = None

    def shadowed_until_ms(self, call_class: CallClass, now_ms: int) -> int | None:
        """Return until when a stopped call of this class goes on in shadow, Unix ms; None: it is stopped."""
        return shadowed_until_ms(self.waiver, call_class, now_ms) if self.shadow else None


def read_bundle_source(directory: Path, *, environment: str) -> bytes:
    """Return the serialised `Bundle` of a directory. Raises `SourceError` with every fault.

    Reads `bundle.yaml`, `rules.cedar`, `schema.cedarschema` and, where there is one, `entities.yaml`; other
    files are none of its business.
    """
    top, faults = read(directory / MANIFEST)
    bundle = bundle_pb2.Bundle(
        version=FORMAT_VERSION,
        bundle_version=top.integer("version", low=1, high=(1 << 63) - 1),
        environment=environment,
        rules=read_text(directory / RULES),
        schema=read_text(directory / SCHEMA),
        stage=_stage(top),
        escalate_to=top.text("escalate_to", max_length=MAX_TEXT_BYTES),
    )
    notes = top.section("notes")
    if notes is not None:
        bundle.notes.extend(_notes(notes))
    bundle.egress.extend(_egress(top))
    read_terms(top, bundle)
    _read_limits(top, bundle)
    read_waiver(top, bundle)
    top.close()
    entities = read_entities(directory)
    entities.check(bundle.schema)
    if entities.faults is not None:
        entities.faults.raise_any()
    bundle.entities_json = entities.text
    _check_rules(bundle, directory, notes, faults)
    faults.raise_any()
    return canonical(bundle)


def _read_limits(top: Section, bundle: bundle_pb2.Bundle) -> None:
    bundle.budgets.extend(read_budgets(top.section("budgets")))
    bundle.templates.extend(read_templates(top.section("templates")))
    loops = top.section("loops")
    if loops is not None:
        bundle.loops.CopyFrom(read_loops(loops))


def _stage(top: Section) -> bundle_pb2.RolloutStage.ValueType:
    stage = top.text("stage", "enforce")
    if stage not in STAGES:
        top.refuse("stage", f"`{stage}` must be one of {', '.join(STAGES)}")
    return STAGES.get(stage, bundle_pb2.ROLLOUT_STAGE_UNSPECIFIED)


def _notes(section: Section) -> Iterator[bundle_pb2.RuleNote]:
    for rule_id in sorted(section.names()):
        inner = section.section(rule_id)
        if inner is None:
            continue
        yield bundle_pb2.RuleNote(
            rule_id=rule_id,
            safe_reason=inner.text("safe_reason", "", max_length=MAX_TEXT_BYTES),
            escalate_to=inner.text("escalate_to", "", max_length=MAX_TEXT_BYTES),
        )
        inner.close()


def _egress(top: Section) -> Iterator[bundle_pb2.EgressAllowance]:
    """Yield what `egress: {method: {field: [flags]}}` expects, each flag known to the egress check."""
    methods = top.section("egress")
    for method in sorted(methods.names()) if methods is not None else ():
        fields = methods.section(method) if methods is not None else None
        for path in sorted(fields.names()) if fields is not None else ():
            flags = tuple(fields.texts(path)) if fields is not None else ()
            for flag in flags:
                if fields is not None and not is_flag(flag):
                    fields.refuse(path, f"`{flag}` is no flag of the egress check")
            yield bundle_pb2.EgressAllowance(
                method=method if method.startswith("/") else f"/{method}", path=path, flags=sorted(set(flags))
            )


def _expected(bundle: bundle_pb2.Bundle) -> Mapping[str, Allowed]:
    egress: dict[str, dict[str, frozenset[str]]] = {}
    for allowance in bundle.egress:
        if not allowance.method or not allowance.path or not all(map(is_flag, allowance.flags)):
            raise BundleError(
                "an egress allowance names no method, no field or a flag that is not known here"
            )
        egress.setdefault(allowance.method, {})[allowance.path] = frozenset(allowance.flags)
    return MappingProxyType(egress)


def _check_rules(bundle: bundle_pb2.Bundle, directory: Path, notes: Section | None, faults: Faults) -> None:
    try:
        rules = RuleSet(bundle.rules, bundle.schema, bundle.entities_json)
    except RulesError as error:
        name = str(directory / RULES)
        raise SourceError((*faults.found, *(Fault(name, 0, "", fault) for fault in error.faults))) from error
    known = _notable(bundle, rules)
    for note in bundle.notes:
        if note.rule_id not in known and notes is not None:
            names = ", ".join(sorted(known)) or "none"
            notes.refuse(note.rule_id, f"no rule has this `@id`, and no budget this name; known: {names}")
    for fault in faults_of(bundle, rules.rules):
        faults.add(0, "", fault)
    if not faults.found:
        try:
            _check_names(load_budgets(bundle.budgets), load_templates(bundle.templates))
        except ValueError as error:
            faults.add(0, "", str(error))


def _notable(bundle: bundle_pb2.Bundle, rules: RuleSet) -> frozenset[str]:
    """Return what a note may be about: a rule, a budget, or a delegation that is used up."""
    budgets = (*bundle.budgets, *(one for template in bundle.templates for one in template.budgets))
    named = {rule.rule_id for rule in rules.rules} | {f"{RULE_PREFIX}{one.name}" for one in budgets}
    return DELEGATION_RULES | named


def _check_names(budgets: tuple[Budget, ...], templates: Templates) -> None:
    """Refuse a template whose budget is named like one of the bundle: a denial must say which it was."""
    names = {budget.name for budget in budgets}
    for template in templates.values():
        for budget in template.budgets:
            if budget.name in names:
                raise ValueError(f"template `{template.name}`: the bundle has a budget `{budget.name}`, too")


def lint_bundle(payload: bytes) -> tuple[str, ...]:
    """Return what is unwise in a bundle that is well formed, one sentence each."""
    loaded = load_bundle(payload)
    found = [
        f"rule `{rule.rule_id}`: allows everything to everyone: name the action, the principal or a condition"
        for rule in loaded.rules.rules
        if rule.unconstrained
    ]
    if not loaded.rules.rules:
        found.append("there are no rules: every call will be denied")
    elif all(rule.forbids for rule in loaded.rules.rules):
        found.append("no rule allows anything: every call will be denied")
    found.extend(
        f"rule `{rule.rule_id}`: denies without a note: the agent will hear the default sentence"
        for rule in loaded.rules.rules
        if rule.forbids and rule.requirement is None and rule.rule_id not in loaded.notes
    )
    if loaded.shadow:
        found.append(shadow_warning(loaded.waiver))
    return tuple(found)


def load_bundle(payload: bytes) -> LoadedBundle:
    """Return the bundle that `payload` (verified before) spells. Raises `BundleError`."""
    bundle = strict_parse(bundle_pb2.Bundle, payload)
    if isinstance(bundle, Refusal):
        raise BundleError(f"the bundle cannot be read: {bundle.detail}")
    if bundle.version != FORMAT_VERSION or bundle.bundle_version < 1:
        raise BundleError(f"format {bundle.version}, version {bundle.bundle_version}: not known here")
    if bundle.stage not in STAGES.values():
        raise BundleError(f"the rollout stage {bundle.stage} is not known here")
    waiver = load_waiver(bundle)
    if isinstance(waiver, str):
        raise BundleError(waiver)
    try:
        rules = RuleSet(bundle.rules, bundle.schema, bundle.entities_json)
    except RulesError as error:
        raise BundleError(str(error)) from error
    known = _notable(bundle, rules)
    notes = {note.rule_id: Note(note.safe_reason, note.escalate_to) for note in bundle.notes}
    if len(notes) != len(bundle.notes) or not notes.keys() <= known:
        raise BundleError("a note is given twice or names no rule or budget")
    for fault in faults_of(bundle, rules.rules):
        raise BundleError(fault)
    try:
        budgets, templates = load_budgets(bundle.budgets), load_templates(bundle.templates)
        loops = load_loops(bundle)
        _check_names(budgets, templates)
    except ValueError as error:
        raise BundleError(str(error)) from error
    return LoadedBundle(
        version=bundle.bundle_version,
        environment=bundle.environment,
        shadow=bundle.stage == bundle_pb2.ROLLOUT_STAGE_SHADOW,
        rules=rules,
        notes=MappingProxyType(notes),
        escalate_to=bundle.escalate_to,
        egress=_expected(bundle),
        terms=load_terms(bundle),
        budgets=budgets,
        templates=templates,
        loops=loops,
        waiver=waiver,
    )
