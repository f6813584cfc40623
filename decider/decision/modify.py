"""A call as rules narrow it: fields clamped, masked, cleared or set, the rest as it was asked. Pure.

Guarantees of `narrowed`: tool, method, resource, tenant and currency are those of the call that was asked,
the amount is not larger, and no value outside the changed fields differs. What cannot be narrowed so is
POLICY_DENIED. The result is an envelope of its own, which is decided again in full; nothing here permits.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import EncodeError, Message

from decider.decision.envelope import Change, Envelope, House, content_of
from decider.in_force.in_force import InForce
from decider.policy.cedar import Narrowable
from decider.policy.terms import Terms
from licet.call import Arguments, EnumNumber, Plan
from licet.catalog.method import ABSENT, MASK
from licet.refusal import Reason, Refusal
from licet.v1.bundle_pb2 import FieldChange
from licet.v1.statement_pb2 import Scalar

EDIT_RULE: Final = "approver-edit"
"""The rule id under which an approver's own changes stand."""


@dataclass(frozen=True, slots=True)
class Edited:
    """A person narrows the call instead of approving it, and is an author of it from now on."""

    editor: str
    changes: tuple[FieldChange, ...]


class _Unfit(ValueError):  # noqa: N818 - what the refusal says of the change
    """A change does not fit the field it is for; `str()` says why."""


_ABSENT: Final = object()


def changes_of(rule_ids: Iterable[str], terms: Terms, method: str) -> tuple[FieldChange, ...]:
    """Return what all `rule_ids` change of a method's calls."""
    return tuple(change for rule in rule_ids for change in terms.changes.get((rule, method), ()))


def narrowed(envelope: Envelope, changes: Sequence[FieldChange], house: House) -> Envelope | Refusal:
    """Return the call as `changes` leave it, or why it cannot be narrowed."""
    method = envelope.method
    if not changes:
        return _unsafe("no change is given for this method")
    try:
        body = _rewritten(method.plan, envelope.arguments, changes)
    except (_Unfit, TypeError, ValueError, EncodeError) as error:
        return _unsafe(str(error) if isinstance(error, _Unfit) else "a change does not fit its field")
    content = content_of(body, envelope.catalog, method, house)
    if isinstance(content, Refusal):
        return _unsafe(f"what is left cannot be read: {content.reason}")
    arguments, resource, money, digest = content
    effective = replace(
        envelope,
        arguments=arguments,
        resource=resource,
        money=money,
        call_digest=digest,
        risk_flags=(),
        flagged=frozenset(),
        changes=(*envelope.changes, *_seen_changes(envelope, arguments, changes)),
    )
    refusal = _check(envelope, effective, frozenset(change.path for change in changes))
    return effective if refusal is None else refusal


def _seen_changes(asked: Envelope, now: Arguments, changes: Iterable[FieldChange]) -> Iterator[Change]:
    """Yield what approvers see of what was changed: a rule that masks a text must not show it to them."""
    hides = asked.method.sensitive | asked.flagged
    for change in changes:
        path = change.path
        before, after = (
            (MASK, MASK) if path in hides else (_seen(one, path) for one in (asked.arguments, now))
        )
        yield Change(path, before, after)


def _seen(arguments: Arguments, path: str) -> str:
    value = arguments.leaf(path)
    if value is None:
        steps = tuple(path.split("."))
        inner = sum(1 for leaf, _ in arguments.leaves() if leaf[: len(steps)] == steps)
        return f"({inner} values)" if inner else ABSENT
    if isinstance(value, str | bytes):
        return f"({len(value)} {'characters' if isinstance(value, str) else 'bytes'})"
    return value.name if isinstance(value, EnumNumber) else str(value)


def _check(asked: Envelope, effective: Envelope, paths: frozenset[str]) -> Refusal | None:
    if effective.resource != asked.resource:
        return _unsafe("it would be another resource")
    if effective.method.tenant_of(effective.arguments) != asked.method.tenant_of(asked.arguments):
        return _unsafe("it would be another tenant")
    if asked.money is not None and effective.money is not None:
        if effective.money[1] != asked.money[1]:
            return _unsafe("it would be another currency")
        if effective.money[0] > asked.money[0]:
            return _unsafe("it would be a larger amount")
    if effective.call_digest == asked.call_digest:
        return _unsafe("nothing would change")
    if _others(asked.arguments, paths) != _others(effective.arguments, paths):
        return _unsafe("another field would change")
    return None


def _others(arguments: Arguments, paths: frozenset[str]) -> list[tuple[tuple[str, ...], object]]:
    """Every value that no changed path leads to, with its type: True is not 1."""
    return [
        (path, (type(value).__name__, value))
        for path, value in arguments.leaves()
        if not any(".".join(path[:depth]) in paths for depth in range(1, len(path) + 1))
    ]


def _unsafe(why: str) -> Refusal:
    return Refusal(Reason.POLICY_DENIED, f"the call cannot be narrowed: {why}")


def _rewritten(plan: object, arguments: Arguments, changes: Iterable[FieldChange]) -> bytes:
    if isinstance(plan, Plan):
        message = plan.root.message_class.FromString(arguments.canonical)
        for change in changes:
            _change_message(message, change)
        return message.SerializeToString(deterministic=True)
    values: dict[str, Any] = json.loads(arguments.canonical)
    for change in changes:
        _change_object(values, change)
    return json.dumps(values, ensure_ascii=False).encode()


def _change_message(message: Message, change: FieldChange) -> None:
    *above, name = change.path.split(".")
    for step in above:
        field = message.DESCRIPTOR.fields_by_name.get(step)
        if field is None or field.message_type is None or field.is_repeated:
            raise _Unfit(f"`{change.path}` leads through no single message")
        if not message.HasField(step):
            if change.WhichOneof("change") == "set":
                raise _Unfit(f"`{change.path}` is not there to be set")
            return
        message = getattr(message, step)
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None or (field.is_repeated and change.WhichOneof("change") != "clear"):
        raise _Unfit(f"`{change.path}` is no single value")
    absent = field.is_repeated or (field.has_presence and not message.HasField(name))
    wanted = _wanted(_ABSENT if absent else getattr(message, name), change)
    if wanted is None:
        message.ClearField(name)
    elif wanted is not _ABSENT:
        setattr(message, name, _enumerated(field, wanted))


def _enumerated(field: Any, wanted: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_ENUM and isinstance(wanted, str):
        known = field.enum_type.values_by_name.get(wanted)
        if known is None:
            raise _Unfit(f"`{field.name}` has no value `{wanted}`")
        return known.number
    return wanted


def _change_object(values: dict[str, Any], change: FieldChange) -> None:
    *above, name = change.path.split(".")
    for step in above:
        inner = values.get(step)
        if not isinstance(inner, Mapping):
            if change.WhichOneof("change") == "set" or inner is not None:
                raise _Unfit(f"`{change.path}` leads through no object")
            return
        values = inner  # type: ignore[assignment] # json.loads makes dicts
    wanted = _wanted(values.get(name, _ABSENT), change)
    if wanted is None:
        values.pop(name, None)
    elif wanted is not _ABSENT:
        values[name] = wanted


def _wanted(value: Any, change: FieldChange) -> Any:
    """Return what a field shall hold: `_ABSENT` to leave it as it is, None to take it out."""
    match change.WhichOneof("change"):
        case "at_most":
            if value is _ABSENT or value is None:
                return _ABSENT
            if isinstance(value, bool) or not isinstance(value, int):
                raise _Unfit(f"`{change.path}` is no integer")
            return min(value, change.at_most)
        case "mask":
            if value is _ABSENT or value is None or value == "":
                return _ABSENT
            if not isinstance(value, str):
                raise _Unfit(f"`{change.path}` is no text")
            return MASK
        case "clear":
            return None
        case "set":
            return _set(change.set)
        case _:
            raise _Unfit("a change that changes nothing")


def _set(scalar: Scalar) -> int | str | bool | bytes:
    kind = scalar.WhichOneof("value")
    if kind is None:
        raise _Unfit("a value that is none")
    value: int | str | bool | bytes = getattr(scalar, kind)
    return value


def changes_by(
    why: Narrowable | Edited, in_force: InForce, asked: Envelope
) -> tuple[tuple[FieldChange, ...], tuple[str, ...]]:
    """Return what is to be changed, and the rule ids under which that stands."""
    if isinstance(why, Edited):
        return why.changes, (EDIT_RULE,)
    return changes_of(why.rule_ids, in_force.bundle.terms, asked.method.path), why.rule_ids
