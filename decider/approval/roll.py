"""The roll of holds: the newest records of a stream, each read once, in order of their sequence.

Records are written once and nothing goes away, so a look reads on from where the last one ended: what was
asked before costs nothing again. Guaranteed: what the leader has stored when a look begins is in it; of two
records in one place the newer counts; a stream that was put back to before the last look is read anew. What
is kept of it in memory is bounded, in number and in bytes.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nats.aio.client import Client

from licet.streams import (
    StoredMessage,
    StoreUnavailable,
    list_subjects,
    read_last,
    read_seq,
    stream_info,
)
from licet.streams.api import read_from

MAX_LISTED: Final = 1_000
"""The newest records that a look returns."""

MAX_KEPT_BYTES: Final = 8 << 20
"""What is kept of them; the rest is read again at each look."""

AT_ONCE: Final = 64
"""How many records the first look asks for at once."""


@dataclass(slots=True)
class _Entry:
    seq: int
    stored_ms: int
    record: bytes | None
    """None where it is not kept."""


class Roll:
    """The newest records under `pattern`, a subject with wildcards."""

    def __init__(self, nc: Client, stream: str, pattern: str) -> None:
        self._nc, self._stream, self._pattern = nc, stream, pattern
        self._looking: Final = asyncio.Lock()
        self._entries: dict[str, _Entry] = {}
        """By subject, oldest first."""
        self._read_to = 0

    async def newest(self) -> tuple[tuple[int, bytes], ...]:
        """Return each record with when the store took it, Unix ms, newest first. Raises `StreamsError`."""
        async with self._looking:
            await self._read_on()
            entries = tuple(reversed(self._entries.values()))
        return tuple([(entry.stored_ms, await self._record(entry)) for entry in entries])

    async def _record(self, entry: _Entry) -> bytes:
        if entry.record is not None:
            return entry.record
        stored = await read_seq(self._nc, self._stream, entry.seq)
        if stored is None:
            raise StoreUnavailable(
                f"the record at {entry.seq} of `{self._stream}` is gone", maybe_stored=False
            )
        return stored.data

    async def _read_on(self) -> None:
        info = await stream_info(self._nc, self._stream)
        if info is None:
            raise StoreUnavailable(f"there is no stream `{self._stream}`", maybe_stored=False)
        last = int(info["state"]["last_seq"])
        if last < self._read_to:  # put back to an older state
            self._entries.clear()
            self._read_to = 0
        if not self._read_to:
            await self._read_all()
            self._read_to = last
        while self._read_to < last:
            stored = await read_from(self._nc, self._stream, self._pattern, self._read_to + 1)
            self._read_to = last if stored is None else stored.seq
            if stored is not None:
                self._take(stored)

    async def _read_all(self) -> None:
        """Read what has been there before the first look: in any order, so many at once."""
        subjects = await list_subjects(self._nc, self._stream, self._pattern)
        for first in range(0, len(subjects), AT_ONCE):
            asked = (read_last(self._nc, self._stream, one) for one in subjects[first : first + AT_ONCE])
            self._take(*(stored for stored in await asyncio.gather(*asked) if stored is not None))

    def _take(self, *found: StoredMessage) -> None:
        """Add records, and let go of what is too much."""
        for stored in found:
            entry = _Entry(stored.seq, unix_ms(stored.time), stored.data)
            self._entries[stored.subject] = entry
        newest = sorted(self._entries.items(), key=lambda item: item[1].seq)[-MAX_LISTED:]
        self._entries = dict(newest)
        kept = 0
        for entry in reversed(self._entries.values()):
            kept += len(entry.record or b"")
            if kept > MAX_KEPT_BYTES:
                entry.record = None


def unix_ms(text: str) -> int:
    """Return when the store took a message, Unix ms, as it says so."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
