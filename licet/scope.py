"""Scopes: what a delegation covers, and when one scope lies within another.

A set of names is covered by itself and by `*`. A resource covers all that lies below it, and ends where a
segment ends: `order:O1` covers `order:O1/items`, `/a` does not cover `/ab`. Segments are parted by `/` and
`:`. A name that a path could be tricked with (`..`, an empty segment, a backslash, a percent sign, a control
character) is covered by nothing, not even by `*`.

A constraint lies within another when it lets through nothing that the other stops. What cannot be compared
does not lie within: a wrong *no* costs a new grant, a wrong *yes* would be authority from nowhere.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from licet.call import Arguments
from licet.ceilings import check_constraint
from licet.refusal import Reason, Refusal
from licet.v1 import decision_pb2
from licet.v1.decision_pb2 import Constraint
from licet.v1.statement_pb2 import Scalar

ANY: Final = "*"
"""Covers every name of its kind."""
_SEGMENT: Final = re.compile(r"[/:]")
_TRICKS: Final = re.compile(r"[\\%*?#\x00-\x1f\x7f]")
_LISTED: Final = frozenset({decision_pb2.CONSTRAINT_OP_EQ, decision_pb2.CONSTRAINT_OP_IN})


def plain_name(name: str) -> bool:
    """Say whether a resource is one that no path could be tricked with."""
    if not name or _TRICKS.search(name):
        return False
    segments = _SEGMENT.split(name.removeprefix("/"))
    return all(segment and segment.strip(".") for segment in segments)


def covers(scope: str, resource: str) -> bool:
    """Say whether a resource is `scope` itself or lies below it."""
    if not plain_name(resource):
        return False
    if scope == ANY:
        return True
    if not plain_name(scope) or not resource.startswith(scope):
        return False
    return len(resource) == len(scope) or resource[len(scope)] in "/:"


def within_names(narrow: Iterable[str], wide: frozenset[str]) -> bool:
    """Say whether every name of `narrow` is one of `wide`."""
    return ANY in wide or all(name in wide for name in narrow)


def within_resources(narrow: Iterable[str], wide: frozenset[str]) -> bool:
    """Say whether everything that `narrow` covers is covered by `wide`."""
    return all(
        ANY in wide if scope == ANY else any(covers(above, scope) for above in wide) for scope in narrow
    )


def check_arguments(constraints: Iterable[Constraint], arguments: Arguments) -> Refusal | None:
    """Check arguments against all constraints, PREFIX on segments; None when all hold.

    Unlike ceilings this is an open world: a field without a constraint is free. A constraint whose field is
    absent, or of another type, refuses.
    """
    for constraint in constraints:
        refusal = check_constraint(constraint, arguments)
        if refusal is not None:
            return Refusal(Reason.DELEGATION_EXCEEDED, refusal.detail)
        if constraint.op == decision_pb2.CONSTRAINT_OP_PREFIX and not _below(constraint, arguments):
            return Refusal(Reason.DELEGATION_EXCEEDED, f"`{'.'.join(constraint.path)}`: not below its prefix")
    return None


def _below(constraint: Constraint, arguments: Arguments) -> bool:
    path, prefix = tuple(constraint.path), constraint.values[0].text
    return all(
        isinstance(value, str) and covers(prefix, value) for at, value in arguments.leaves() if at == path
    )


def implied(wide: Constraint, narrow: Sequence[Constraint]) -> bool:
    """Say whether what `narrow` lets through is let through by `wide` too."""
    return any(tuple(one.path) == tuple(wide.path) and _within(one, wide) for one in narrow)


def _within(narrow: Constraint, wide: Constraint) -> bool:
    low = [_operand(scalar) for scalar in narrow.values]
    high = [_operand(scalar) for scalar in wide.values]
    if narrow.op in _LISTED and wide.op in _LISTED:
        return bool(low) and all(value in high for value in low)
    if narrow.op in _LISTED:
        return bool(low) and len(high) == 1 and all(_meets(wide.op, value, high[0]) for value in low)
    if narrow.op != wide.op:
        return False
    if wide.op == decision_pb2.CONSTRAINT_OP_ABSENT:
        return True
    return len(low) == len(high) == 1 and _tighter(wide.op, low[0], high[0])


_Operand = tuple[str, int | str | bool | bytes]
"""A value with its kind: True is not 1, and text not bytes."""


def _operand(scalar: Scalar) -> _Operand:
    kind = scalar.WhichOneof("value") or ""
    value = getattr(scalar, kind) if kind else b""
    return ("number" if kind in {"integer", "unsigned"} else kind, value)


def _meets(op: int, value: _Operand, bound: _Operand) -> bool:
    """Say whether a single value passes a constraint with one bound."""
    if op == decision_pb2.CONSTRAINT_OP_MAX_LENGTH:
        size = len(value[1].encode()) if isinstance(value[1], str) else -1
        return isinstance(bound[1], int) and 0 <= size <= bound[1]
    return op != decision_pb2.CONSTRAINT_OP_MAX_ITEMS and _tighter(op, value, bound)


def _tighter(op: int, low: _Operand, high: _Operand) -> bool:
    """Say whether the bound `low` is at least as tight as `high`."""
    if low[0] != high[0]:
        return False
    narrow, wide = low[1], high[1]
    if isinstance(narrow, str) and isinstance(wide, str):
        return op == decision_pb2.CONSTRAINT_OP_PREFIX and covers(wide, narrow)
    if low[0] != "number" or not isinstance(narrow, int) or not isinstance(wide, int):
        return False
    return narrow >= wide if op == decision_pb2.CONSTRAINT_OP_GE else narrow <= wide
