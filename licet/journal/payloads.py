"""Sealed payloads on their way, beside the events that name them and never before them.

They have a spool and a sending task of their own: a payload stream that is full, slow or gone holds up no
event and no decision. What waits may take `ROOM_BYTES`; each caller may fill as much as it leaves free, so
one that floods leaves room for everybody else, and n of them leave at least one part of n + 1.

Guarantees: `carry` waits for nothing, and a payload that it took survives a kill of this process. Whatever
it does not take it says why, and the event is to say so. Not guaranteed: that a payload is stored before its
event, or at all where the disk is lost or power fails within the first 50 ms.
"""

from collections import Counter, deque
from enum import StrEnum
from typing import Final

from licet.journal.queue import MSG_ID_BYTES, DurableQueue, Letter
from licet.journal.spool import SpoolError, SpoolFull
from licet.sealed import payload_ref

ROOM_BYTES: Final = 64 << 20
"""How much of payloads may wait on disk for their stream."""

PAYLOADS_AT_ONCE: Final = 32
"""On their way at once: what a full stream refuses is sent again and again, on the events' own connection."""


class LeftOut(StrEnum):
    """Why an event has no payload though its tenant has a key: a closed list."""

    ROOM = "room"
    """too much waits for the payload stream"""
    SHARE = "share"
    """too much of what waits is the same caller's"""
    DISK = "disk"
    """the disk refused"""


class Payloads:
    """One process's payloads. Use from one event loop."""

    def __init__(self, queue: DurableQueue, subject: str, room_bytes: int = ROOM_BYTES) -> None:
        self._queue = queue
        self._subject = subject
        self._room = room_bytes
        self._waiting: deque[tuple[int, str, int]] = deque()
        self._of: Counter[str] = Counter()

    @property
    def queue(self) -> DurableQueue:
        """Where they wait."""
        return self._queue

    def carry(self, sealed: bytes, caller: str) -> str | LeftOut:
        """Take a payload of a call by `caller`; return what its event calls it, or why it is left out."""
        waiting = self._queue.depth_bytes
        self._forget(waiting)
        free = self._room - waiting
        if len(sealed) > free:
            return LeftOut.ROOM
        if self._of[caller] and self._of[caller] + len(sealed) > free:
            return LeftOut.SHARE
        ref = payload_ref(sealed)
        try:
            position = self._queue.put(Letter(self._subject, ref[:MSG_ID_BYTES], sealed))
        except SpoolFull:
            return LeftOut.ROOM
        except SpoolError:
            return LeftOut.DISK
        self._waiting.append((position, caller, len(sealed)))
        self._of[caller] += len(sealed)
        return ref

    def _forget(self, waiting: int) -> None:
        while self._waiting and self._waiting[0][0] <= self._waiting[-1][0] - waiting:
            _, caller, size = self._waiting.popleft()
            self._of[caller] -= size
            if not self._of[caller]:
                del self._of[caller]
