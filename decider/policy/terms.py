"""What a bundle says of calls beside its rules, by rule and method: changes, ceilings, obligations.

`modify` names what a forbid with `@modify` changes; `ceilings` what the permits of an allowing rule bind
instead of the exact arguments; `obligations` what must be done with a call that a rule allows. Guarantees: a
term names a rule of the right kind that exists, and every rule with `@modify` changes something. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from decider.policy.rules import Rule
from decider.source import Section
from licet.obligation import MASK_REPLY
from licet.v1 import bundle_pb2
from licet.v1.bundle_pb2 import FieldChange, RuleCeilings, RuleObligation
from licet.v1.decision_pb2 import Constraint, ConstraintOp, Obligation
from licet.v1.statement_pb2 import Scalar

MAX_INTEGER: Final = (1 << 63) - 1
CHANGES: Final = ("at_most", "mask", "clear", "set")
Term = tuple[str, str]
"""A rule's id and a method's full path."""


class _Of(Protocol):
    @property
    def rule_id(self) -> str: ...
    @property
    def method(self) -> str: ...


_OfRule = TypeVar("_OfRule", bound=_Of)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one bundle."""

    changes: Mapping[Term, tuple[FieldChange, ...]] = field(default_factory=dict)
    ceilings: Mapping[Term, tuple[Constraint, ...]] = field(default_factory=dict)
    obligations: Mapping[Term, tuple[Obligation, ...]] = field(default_factory=dict)


def read_terms(top: Section, bundle: bundle_pb2.Bundle) -> None:
    """Take `modify`, `ceilings` and `obligations` of a manifest into `bundle`; faults are noted."""
    bundle.changes.extend(_listed(top, "modify", _changes))
    bundle.ceilings.extend(_listed(top, "ceilings", _ceilings))
    bundle.obligations.extend(_listed(top, "obligations", _obligations))


_Read = Callable[[str, str, Section], Iterator[_OfRule]]


def _listed(top: Section, key: str, read: "_Read[_OfRule]") -> Iterator[_OfRule]:
    rules = top.section(key)
    for rule_id in sorted(rules.names()) if rules is not None else ():
        methods = rules.section(rule_id) if rules is not None else None
        for method in sorted(methods.names()) if methods is not None else ():
            section = methods.section(method) if methods is not None else None
            if section is not None:
                yield from read(rule_id, method if method.startswith("/") else f"/{method}", section)


def _changes(rule_id: str, method: str, section: Section) -> Iterator[FieldChange]:
    for path in sorted(section.names()):
        inner = section.section(path)
        if inner is None:
            continue
        change = FieldChange(rule_id=rule_id, method=method, path=path)
        if len(inner.names()) != 1:
            section.refuse(path, f"must have exactly one of {', '.join(CHANGES)}")
        if inner.has("at_most"):
            change.at_most = inner.integer("at_most", low=-MAX_INTEGER, high=MAX_INTEGER)
        elif inner.has("mask"):
            change.mask = _true(inner, "mask")
        elif inner.has("clear"):
            change.clear = _true(inner, "clear")
        elif inner.has("set"):
            change.set.CopyFrom(_scalar(inner, "set", inner.plain("set")))
        inner.close()
        yield change


def _true(section: Section, key: str) -> bool:
    if not section.flag(key, default=False):
        section.refuse(key, "can only be true; leave it out otherwise")
    return True


def _scalar(section: Section, key: str, value: object) -> Scalar:
    if isinstance(value, bool):
        return Scalar(flag=value)
    if isinstance(value, int) and -MAX_INTEGER <= value <= MAX_INTEGER:
        return Scalar(integer=value)
    if isinstance(value, str):
        return Scalar(text=value)
    section.refuse(key, "must be one text, integer of 64 bits or truth value")
    return Scalar(text="")


_SINGLE: Final = {
    "equals": ConstraintOp.CONSTRAINT_OP_EQ,
    "at_most": ConstraintOp.CONSTRAINT_OP_LE,
    "at_least": ConstraintOp.CONSTRAINT_OP_GE,
    "prefix": ConstraintOp.CONSTRAINT_OP_PREFIX,
    "max_length": ConstraintOp.CONSTRAINT_OP_MAX_LENGTH,
    "max_items": ConstraintOp.CONSTRAINT_OP_MAX_ITEMS,
}


def _ceilings(rule_id: str, method: str, section: Section) -> Iterator[RuleCeilings]:
    found = RuleCeilings(rule_id=rule_id, method=method)
    for path in sorted(section.names()):
        inner = section.section(path)
        if inner is None:
            continue
        names = tuple(path.split("."))
        if not inner.names():
            section.refuse(path, "says nothing; name at least one limit")
        for key, operator in _SINGLE.items():
            if inner.has(key):
                value = _scalar(inner, key, inner.plain(key))
                found.constraints.append(Constraint(path=names, op=operator, values=[value]))
        if inner.has("one_of"):
            values = [Scalar(text=text) for text in inner.texts("one_of")]
            found.constraints.append(Constraint(path=names, op=ConstraintOp.CONSTRAINT_OP_IN, values=values))
        if inner.has("absent") and _true(inner, "absent"):
            found.constraints.append(Constraint(path=names, op=ConstraintOp.CONSTRAINT_OP_ABSENT))
        inner.close()
    yield found


def _obligations(rule_id: str, method: str, section: Section) -> Iterator[RuleObligation]:
    for name in sorted(section.names()):
        paths = section.texts(name)
        if name == MASK_REPLY and not paths:
            section.refuse(name, "must name at least one field of the reply")
        obligation = Obligation(id=name, paths=sorted(set(paths)))
        yield RuleObligation(rule_id=rule_id, method=method, obligation=obligation)


def faults_of(bundle: bundle_pb2.Bundle, rules: tuple[Rule, ...]) -> Iterator[str]:
    """Yield what is wrong with a bundle's terms, one sentence each."""
    known = {rule.rule_id: rule for rule in rules}
    changed = {change.rule_id for change in bundle.changes}
    for rule in rules:
        if rule.modifies and rule.rule_id not in changed:
            yield f"rule `{rule.rule_id}` has `@modify`, and `modify` names no change for it"
    for rule_id in sorted(changed):
        if rule_id not in known or not known[rule_id].modifies:
            yield f"`modify.{rule_id}`: no forbid with `@modify` has this `@id`"
    if any(not change.path or change.WhichOneof("change") is None for change in bundle.changes):
        yield "a change that names no field or changes nothing"
    for name, terms in (("ceilings", bundle.ceilings), ("obligations", bundle.obligations)):
        for rule_id in sorted({term.rule_id for term in terms}):
            if rule_id not in known or known[rule_id].forbids:
                yield f"`{name}.{rule_id}`: no allowing rule has this `@id`"
    if any(not ceiling.constraints for ceiling in bundle.ceilings):
        yield "ceilings without a limit"


def load_terms(bundle: bundle_pb2.Bundle) -> Terms:
    """Return the terms of a bundle without faults."""
    obligations = _grouped(bundle.obligations)
    return Terms(
        changes=_grouped(bundle.changes),
        ceilings={(one.rule_id, one.method): tuple(one.constraints) for one in bundle.ceilings},
        obligations={key: tuple(one.obligation for one in ones) for key, ones in obligations.items()},
    )


def _grouped(terms: Iterable[_OfRule]) -> dict[Term, tuple[_OfRule, ...]]:
    grouped: dict[Term, tuple[_OfRule, ...]] = {}
    for term in terms:
        key = term.rule_id, term.method
        grouped[key] = (*grouped.get(key, ()), term)
    return grouped
