"""Check 14: what a tool's answer says about its effect.

Guaranteed: EXECUTED and FAILED_NO_EFFECT are said only where they are certain; everything else is UNKNOWN,
which is the absence of an outcome record, and is settled by a fence. A guarded method's status alone proves
nothing:
only its guard's word counts. Not guaranteed: that an unguarded tool tells the truth with its status.
"""

from enum import StrEnum
from typing import Final

from licet.catalog import Method
from sidecar.exchange import OK, ToolAnswer


class Outcome(StrEnum):
    """How a forwarded call ended, as events and spans name it."""

    EXECUTED = "EXECUTED"
    FAILED_NO_EFFECT = "FAILED_NO_EFFECT"
    UNKNOWN = "UNKNOWN"


MADE_HERE: Final = frozenset({1, 2, 4, 8, 13, 14})
"""CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE: so our own end of the
connection ends a call too, one whose reply is too large or whose connection was lost. They prove nothing.
"""

EFFECT_OUTCOMES: Final = {
    "executed": Outcome.EXECUTED,
    "stored": Outcome.EXECUTED,
    "none": Outcome.FAILED_NO_EFFECT,
}
"""The guard's words. `stored` is the answer to a repeated try: the effect happened before, exactly once."""


def outcome_of(method: Method, answer: ToolAnswer) -> Outcome:
    """Return what `answer` proves about the effect of a call of `method`."""
    if not answer.sent:
        return Outcome.FAILED_NO_EFFECT
    if method.guarded:
        return EFFECT_OUTCOMES.get(answer.effect, Outcome.UNKNOWN)
    if answer.code == OK:
        return Outcome.EXECUTED
    if answer.code in method.no_effect_codes - MADE_HERE:
        return Outcome.FAILED_NO_EFFECT
    return Outcome.UNKNOWN
