"""Answers that did not count, on record: who tries to approve their own request is to be seen.

Told as `approval.refused`, of one peer 1,000 at once and 5 a second, past it by their number. Nothing that an
approver wrote is in it: the reason, the key where it is a registered one, and sentences of our own.
"""

from typing import Any, Final

from decider.approval.votes import EXCLUDED, UNNAMED_METHOD
from decider.decision.record import hold_fields
from licet.event import EventKind
from licet.flood import Count, FloodRecord
from licet.keys import KeySet
from licet.refusal import Refusal
from licet.v1.hold_pb2 import Hold

ANSWERED: Final = "the approver has answered already"
_OWN_WORDS: Final = frozenset({ANSWERED, EXCLUDED, UNNAMED_METHOD})


def counted(count: Count) -> tuple[EventKind, dict[str, Any]]:
    """Return kind and fields of the event that tells by their number of answers that did not count."""
    fields = {"caller": count.bucket, "reason": str(count.reason), "detail": count.detail}
    return EventKind.APPROVAL_REFUSED, fields


def refused_fields(hold: Hold, key_id: str, keys: KeySet, refusal: Refusal, peer: str) -> dict[str, Any]:
    """Return the event fields of an answer to `hold` that does not count. `key_id` is whatever it named."""
    by = f"key `{key_id}`" if key_id in keys.keys else "no registered key"
    why = f": {refusal.detail}" if refusal.detail in _OWN_WORDS else ""
    return hold_fields(hold) | {"caller": peer, "reason": str(refusal.reason), "detail": f"{by}{why}"}


async def tell_refused(flood: FloodRecord, append: Any, fields: dict[str, Any], refusal: Refusal) -> None:
    """Put an answer that did not count on record. Raises what `append` raises."""
    peer = fields["caller"]
    if flood.alone(peer):
        await append(EventKind.APPROVAL_REFUSED, **fields)
    else:
        await flood.refused(peer, refusal.reason, fields)
