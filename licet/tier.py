"""Tiers and classes: how dangerous a method is, in the catalog's six words and in the door's three."""

from enum import IntEnum

from licet.v1.decision_pb2 import CallClass as WireClass

MAX_TIER = 5
"""The highest tier: destructive or privileged."""

GUARDED_TIER = 4
"""From this tier on the tool's own transaction must prove the effect."""

FACTS_TIER = 1
"""The highest tier of a method that facts are read from."""


class CallClass(IntEnum):
    """What the door knows of a tier; the numbers are those of licet.v1.CallClass."""

    READ = WireClass.CALL_CLASS_READ
    WRITE = WireClass.CALL_CLASS_WRITE
    PRIVILEGED = WireClass.CALL_CLASS_PRIVILEGED


def class_of(tier: int) -> CallClass:
    """Return the class of a tier: read (0, 1), write (2 to 4), privileged (5).

    Raises ValueError on what is no tier.
    """
    if not 0 <= tier <= MAX_TIER:
        raise ValueError(f"`{tier}` is no tier: use 0 to {MAX_TIER}")
    if tier <= FACTS_TIER:
        return CallClass.READ
    return CallClass.PRIVILEGED if tier == MAX_TIER else CallClass.WRITE
