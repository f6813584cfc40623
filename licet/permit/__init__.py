"""Permits: the checks at the door that turn a presented call into one that may be forwarded, once."""

from licet.permit.case import DoorState, Permit, Presented
from licet.permit.checks import (
    CHECKS,
    MAX_LIFE_MS,
    check_current,
    check_time,
    examine,
    step_of,
    still_holds,
)
from licet.permit.decision import MAX_PERMIT_BYTES, is_identifier, read_decision, verify_permit

__all__ = [
    "CHECKS",
    "MAX_LIFE_MS",
    "MAX_PERMIT_BYTES",
    "DoorState",
    "Permit",
    "Presented",
    "check_current",
    "check_time",
    "examine",
    "is_identifier",
    "read_decision",
    "step_of",
    "still_holds",
    "verify_permit",
]
