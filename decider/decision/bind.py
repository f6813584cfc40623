"""What a permit binds beside who and what: ceilings instead of exact arguments, and obligations. Pure.

A permit is bound by ceilings where the catalog allows it for the method and every rule that allowed the call
has some: then all of them hold at once, and each value that none of them speaks of is bound to what was
asked. The call that was asked must be within them, and the door's own check says whether it is. Where
somebody else than the rules has judged the arguments (people, the task's contract, a link of its delegation),
those are what was judged, and the permit is for them alone: ceilings are the rules' and widen nobody's word.
Obligations of all allowing rules are united; one that neither door nor tool can do denies, as it would at the
door.
"""

from collections.abc import Iterator, Mapping

from decider.decision.envelope import Envelope
from decider.policy.terms import Terms
from licet.call.tree import ListValue, MapValue, Value
from licet.ceilings import check_ceilings
from licet.obligation import DOOR_OBLIGATIONS, MASK_REPLY, check_masked
from licet.refusal import Reason, Refusal
from licet.v1.decision_pb2 import Constraint, ConstraintOp, Decision, DecisionType, Obligation
from licet.v1.statement_pb2 import Scalar

Path = tuple[str, ...]


def bind(decision: Decision, envelope: Envelope, terms: Terms, *, approved: bool = False) -> Refusal | None:
    """Bind an ALLOW to the terms of its rules; why it cannot be, else.

    `approved`: people lifted a hold of this very call.
    """
    refusal = _oblige(decision, envelope, terms)
    if refusal is not None:
        return refusal
    method = envelope.method
    found = [terms.ceilings.get((rule_id, method.path)) for rule_id in decision.rule_ids]
    exact = decision.decision != DecisionType.DECISION_TYPE_ALLOW or not method.ceilings
    if exact or not found or None in found or approved or _judged_by_others(envelope):
        return None
    listed = [constraint for constraints in found if constraints is not None for constraint in constraints]
    spoken = frozenset(tuple(constraint.path) for constraint in listed)
    listed.extend(_as_asked((), envelope.arguments.values, spoken))
    outside = check_ceilings(listed, envelope.arguments, method.money)
    if outside is None:
        decision.ceilings.extend(listed)
        decision.ClearField("call_digest")
    return outside


def _judged_by_others(envelope: Envelope) -> bool:
    """Tell whether contract or delegation say something of the arguments, which no ceiling repeats."""
    contract, method = envelope.task.contract, envelope.method
    if contract is not None and (contract.addresses is not None or contract.values.get(method.operation)):
        return True
    return any(link.constraints.get(method.path) for link in envelope.links)


def _oblige(decision: Decision, envelope: Envelope, terms: Terms) -> Refusal | None:
    method, paths = envelope.method, dict[str, set[str]]()
    for rule_id in decision.rule_ids:
        for obligation in terms.obligations.get((rule_id, method.path), ()):
            paths.setdefault(obligation.id, set()).update(obligation.paths)
    for name, named in sorted(paths.items()):
        if name not in DOOR_OBLIGATIONS | method.obligations:
            return Refusal(Reason.OBLIGATION_UNKNOWN, f"neither door nor tool knows `{name}`")
        if name in DOOR_OBLIGATIONS and method.server_streaming:
            return Refusal(Reason.OBLIGATION_UNKNOWN, f"`{name}` at a stream")
        masked = check_masked(method.output, tuple(named)) if name == MASK_REPLY else None
        if masked is not None:
            return masked
        decision.obligations.append(Obligation(id=name, paths=sorted(named)))
    return None


def _as_asked(
    path: Path, value: Value | Mapping[str, Value], spoken: frozenset[Path]
) -> Iterator[Constraint]:
    """Yield what binds every value that no limit speaks of to what it is; what cannot be bound stays open."""
    if isinstance(value, ListValue):
        if path in spoken:
            return
        single = [item for item in value.items if not isinstance(item, Mapping | ListValue)]
        yield _constraint(path, ConstraintOp.CONSTRAINT_OP_MAX_ITEMS, len(value.items))
        yield _constraint(path, ConstraintOp.CONSTRAINT_OP_IN, *single)
    elif isinstance(value, Mapping) and not isinstance(value, MapValue):
        for name, part in value.items():
            yield from _as_asked((*path, str(name)), part, spoken)
    elif path not in spoken and not isinstance(value, Mapping):
        yield _constraint(path, ConstraintOp.CONSTRAINT_OP_EQ, value)


def _constraint(path: Path, operator: ConstraintOp.ValueType, *values: object) -> Constraint:
    return Constraint(path=path, op=operator, values=[_scalar(value) for value in values])


def _scalar(value: object) -> Scalar:
    match value:
        case bool():
            return Scalar(flag=value)
        case int():
            return Scalar(integer=int(value)) if value < 1 << 63 else Scalar(unsigned=int(value))
        case str():
            return Scalar(text=value)
        case bytes():
            return Scalar(data=value)
        case _:
            return Scalar()  # null and floating point cannot be bound: the check says so
