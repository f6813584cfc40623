"""Ceilings: a permit for a range of calls, checked in a closed world. Check 10 of the door.

A ceiling-bound permit carries constraints instead of a call digest ("refund O1, at most 50.00 USD"). The
constraints pass only arguments of which nothing is left to chance:

1. There is at least one constraint, and each is well formed: a known operator, as many operands as it takes,
   of the type of the value it meets. What cannot be compared is refused, never skipped.
2. Every constraint meets a value, in every element of every list on its path; `ABSENT` meets none.
3. Every present single value is covered by a constraint that compares it; every list by `MAX_ITEMS` too.
4. Maps, empty messages, JSON null and floating point numbers cannot be covered, so they are refused.
5. Where the catalog says that money stands in the arguments, its currency has an `EQ`, its amount a `GE` of
   at least 1 and an `LE`.

Numbers are exact: 2^53 + 1 is past 2^53. Text and bytes compare byte by byte; nothing is normalised. Not
checked: that a prefix ends where a name ends (`order:1` begins `order:10`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeGuard

from licet.call.arguments import Arguments
from licet.call.tree import EnumNumber, ListValue, MapValue, Value
from licet.refusal import Reason, Refusal
from licet.v1 import decision_pb2
from licet.v1.decision_pb2 import Constraint
from licet.v1.statement_pb2 import Scalar

Path = tuple[str, ...]
Operand = int | str | bool | bytes


class Money(Protocol):
    """Where money stands in the arguments: paths with dots between names."""

    @property
    def amount(self) -> str:
        """Path of the integer amount in minor units."""

    @property
    def currency(self) -> str:
        """Path of the ISO 4217 code."""


def check_ceilings(
    constraints: Iterable[Constraint], arguments: Arguments, money: Money | None
) -> Refusal | None:
    """Check `arguments` against all `constraints`; None when all five rules of the module's text hold.

    `money` is the catalog's word on where amount and currency stand; None when the method moves none.

    Returns:
        CEILING_UNMET for a constraint that is malformed or meets no value of its type, CEILING_EXCEEDED for a
        value outside its constraint, CEILING_UNCOVERED for a value, or the method's money, that no constraint
        speaks of.
    """
    listed = tuple(constraints)
    if not listed:  # all of nothing is no permission
        return Refusal(Reason.CEILING_UNCOVERED, "no constraint at all")
    for constraint in listed:
        refusal = check_constraint(constraint, arguments)
        if refusal is not None:
            return refusal
    uncovered = _check_covered(listed, arguments)
    return _check_money(listed, money) if uncovered is None else uncovered


def check_constraint(constraint: Constraint, arguments: Arguments) -> Refusal | None:
    """Check one constraint alone; rules 1 and 2."""
    path = tuple(constraint.path)
    operator = _OPERATORS.get(constraint.op)
    operands = tuple(_operand(scalar) for scalar in constraint.values)
    if not path or operator is None or None in operands or not operator.takes(len(operands)):
        return _refusal(Reason.CEILING_UNMET, path, "a malformed constraint")
    known = tuple(operand for operand in operands if operand is not None)
    for value in _targets(arguments.values, path, whole_lists=operator.whole_lists):
        fits = operator.compare(value, known)
        if fits is None:
            return _refusal(Reason.CEILING_UNMET, path, "no value that it can be compared with")
        if not fits:
            return _refusal(Reason.CEILING_EXCEEDED, path, "outside its ceiling")
    return None


def _refusal(reason: Reason, path: Path, what: str) -> Refusal:
    return Refusal(reason, f"`{'.'.join(path)}`: {what}")


def _operand(scalar: Scalar) -> Operand | None:
    """Return the operand; None when none of the oneof is set."""
    kind = scalar.WhichOneof("value")
    return None if kind is None else getattr(scalar, kind)


class _Missing:
    """Stands where a path leads nowhere."""


_MISSING: Final = _Missing()
_Target = Value | Mapping[str, Value] | _Missing
_Compare = Callable[[_Target, Sequence[Operand]], bool | None]
"""Whether a value fits the operands; None when they cannot be compared."""


def _targets(value: _Target, path: Path, *, whole_lists: bool) -> Iterator[_Target]:
    """Yield what stands at `path`, once for each element of each list on the way; `_MISSING` for nothing.

    An empty list yields `_MISSING`: a constraint on its elements would otherwise hold of nothing at all.
    """
    if isinstance(value, ListValue) and not (whole_lists and not path):
        for item in value.items or (_MISSING,):
            yield from _targets(item, path, whole_lists=whole_lists)
    elif not path:
        yield value
        if isinstance(value, ListValue):  # lists in a list: the bound holds for each of them
            for item in value.items:
                if isinstance(item, ListValue):
                    yield from _targets(item, path, whole_lists=whole_lists)
    elif isinstance(value, Mapping) and not isinstance(value, MapValue) and path[0] in value:
        yield from _targets(value[path[0]], path[1:], whole_lists=whole_lists)
    else:
        yield _MISSING


def _comparable(value: _Target, operand: Operand) -> bool:
    """Whether both are of one type; True and 1 are not, though Python finds them equal."""
    if isinstance(value, bool) or isinstance(operand, bool):
        return isinstance(value, bool) and isinstance(operand, bool)
    return any(isinstance(value, kind) and isinstance(operand, kind) for kind in (int, str, bytes))


def _equal(value: _Target, operands: Sequence[Operand]) -> bool | None:
    if not all(_comparable(value, operand) for operand in operands):
        return None
    return any(value == operand for operand in operands)


def _is_number(value: object) -> TypeGuard[int]:
    """Whether it has an order and a size; enum numbers name things."""
    return isinstance(value, int) and not isinstance(value, bool | EnumNumber)


def _at_most(value: _Target, operands: Sequence[Operand]) -> bool | None:
    limit = operands[0]
    if _is_number(value) and _is_number(limit):
        return value <= limit
    return None


def _at_least(value: _Target, operands: Sequence[Operand]) -> bool | None:
    limit = operands[0]
    if _is_number(value) and _is_number(limit):
        return value >= limit
    return None


def _begins(value: _Target, operands: Sequence[Operand]) -> bool | None:
    """An empty prefix would cover any text and say nothing: it cannot be compared."""
    prefix = operands[0]
    if isinstance(value, str) and isinstance(prefix, str) and prefix:
        return value.startswith(prefix)
    return None


def _absent(value: _Target, _: Sequence[Operand]) -> bool | None:
    return isinstance(value, _Missing)


def _short(value: _Target, operands: Sequence[Operand]) -> bool | None:
    limit = operands[0]
    data = value.encode() if isinstance(value, str) else value
    if isinstance(data, bytes) and _is_number(limit):
        return len(data) <= limit
    return None


def _few(value: _Target, operands: Sequence[Operand]) -> bool | None:
    limit = operands[0]
    if isinstance(value, ListValue) and _is_number(limit):
        return len(value.items) <= limit
    return None


@dataclass(frozen=True, slots=True)
class _Operator:
    """How a constraint compares."""

    compare: _Compare
    operands: int | None = 1
    """How many it takes; None for one or more."""
    whole_lists: bool = False
    """Whether it speaks of a list as a whole instead of its elements."""
    covers: bool = True
    """Whether a value that it passed is covered by it."""

    def takes(self, count: int) -> bool:
        """Whether so many operands are right."""
        return count >= 1 if self.operands is None else count == self.operands


_OPERATORS: Final[Mapping[int, _Operator]] = {
    decision_pb2.CONSTRAINT_OP_EQ: _Operator(_equal),
    decision_pb2.CONSTRAINT_OP_IN: _Operator(_equal, operands=None),
    decision_pb2.CONSTRAINT_OP_LE: _Operator(_at_most),
    decision_pb2.CONSTRAINT_OP_GE: _Operator(_at_least),
    decision_pb2.CONSTRAINT_OP_PREFIX: _Operator(_begins),
    decision_pb2.CONSTRAINT_OP_ABSENT: _Operator(_absent, operands=0, whole_lists=True, covers=False),
    decision_pb2.CONSTRAINT_OP_MAX_LENGTH: _Operator(_short),
    decision_pb2.CONSTRAINT_OP_MAX_ITEMS: _Operator(_few, whole_lists=True, covers=False),
}
"""The closed list of operators; UNSPECIFIED and numbers from the future are not in it, so they refuse."""


def _check_covered(constraints: Sequence[Constraint], arguments: Arguments) -> Refusal | None:
    """Rules 3 and 4."""
    compared = {tuple(c.path) for c in constraints if _OPERATORS[c.op].covers}
    bounded = {tuple(c.path) for c in constraints if c.op == decision_pb2.CONSTRAINT_OP_MAX_ITEMS}
    for name, value in arguments.values.items():
        uncovered = next(_uncovered((name,), value, compared, bounded), None)
        if uncovered is not None:
            return _refusal(Reason.CEILING_UNCOVERED, uncovered, "no constraint covers it")
    return None


def _uncovered(path: Path, value: Value, compared: set[Path], bounded: set[Path]) -> Iterator[Path]:
    """Yield the paths of what no constraint covers."""
    if isinstance(value, ListValue):
        if path not in bounded:
            yield path
        for item in value.items:
            yield from _uncovered(path, item, compared, bounded)
    elif isinstance(value, Mapping) and not isinstance(value, MapValue) and value:
        for name, part in value.items():
            yield from _uncovered((*path, name), part, compared, bounded)
    elif isinstance(value, Mapping) or path not in compared:
        yield path


def _check_money(constraints: Sequence[Constraint], money: Money | None) -> Refusal | None:
    """Rule 5. The floor keeps a negative amount, which pays the other way, outside every ceiling."""
    if money is None:
        return None
    amount, currency = tuple(money.amount.split(".")), tuple(money.currency.split("."))
    floors = [_number(c) for c in constraints if _is(c, amount, decision_pb2.CONSTRAINT_OP_GE)]
    if max(floors, default=0) < 1:
        return _refusal(Reason.CEILING_UNCOVERED, amount, "an amount needs a floor of at least 1")
    if not any(_is(c, amount, decision_pb2.CONSTRAINT_OP_LE) for c in constraints):
        return _refusal(Reason.CEILING_UNCOVERED, amount, "an amount needs a ceiling")
    if not any(_is(c, currency, decision_pb2.CONSTRAINT_OP_EQ) for c in constraints):
        return _refusal(Reason.CEILING_UNCOVERED, currency, "an amount needs one currency")
    return None


def _is(constraint: Constraint, path: Path, op: int) -> bool:
    return constraint.op == op and tuple(constraint.path) == path


def _number(constraint: Constraint) -> int:
    """Return the one operand of a constraint that has compared numbers."""
    (scalar,) = constraint.values
    return scalar.integer if scalar.HasField("integer") else scalar.unsigned
