"""The store against JetStream: rows compared, byte for byte, with the messages that they came from.

A ledger's rows are signed by nobody: what JetStream still holds is their one other copy. Guarantees: each
message that a stream still holds and the store should have is compared by subject, bytes and time of
storing; one that is missing, differs, or never was in the stream is named. Whoever cannot read a message
cannot compare it: then StoreUnavailable, and never a sound report. Proves nothing of messages that JetStream
no longer holds, nor against whoever can write both.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from audit.proof.asking_again import AskingAgain
from audit.proof.chain import Problem, ProblemKind
from audit.store.stored import Stored
from audit.writing.tail import Tail
from audit.writing.writer import streams
from licet.streams import StoreUnavailable, stream_info

if TYPE_CHECKING:
    from licet.streams import Connection

BATCH: Final = 5_000
_ROWS: Final = """
SELECT js_seq, js_subject, lower(hex(SHA256(event))), js_time_us FROM events
WHERE js_stream = {stream:String} AND js_seq BETWEEN {first:UInt64} AND {last:UInt64}
"""
_RANGE: Final = "SELECT min(js_seq), max(js_seq) FROM events WHERE js_stream = {stream:String}"


async def origin_problems(
    origin: AskingAgain, client: Any, environment: str, settings: dict[str, Any], notes: list[str]
) -> AsyncIterator[Problem]:
    """Compare each stream's messages with their rows; `notes` gets what was compared and what was not.

    Raises StreamsError, and what the client raises.
    """
    for stream in streams(environment):
        given = {"stream": stream}
        oldest, newest = client.query(_RANGE, parameters=given, settings=settings).result_rows[0]
        reader = _Reader(origin, stream)
        kept = await reader.kept()
        if kept is None:
            yield Problem(ProblemKind.ORIGIN, stream, "", "JetStream has no such stream")
            continue
        first, last = kept
        if int(newest) > last:
            detail = f"the store has sequence {newest}, the stream ends at {last}"
            yield Problem(ProblemKind.ORIGIN, stream, "", detail)
        compared = 0
        async for problem, count in _compare(reader, client, max(first, 1), min(last, int(newest)), settings):
            compared += count
            if problem is not None:
                yield problem
        notes.append(f"{stream}: {compared} messages compared with JetStream")
        if int(oldest) and int(oldest) < first:
            notes.append(
                f"{stream}: rows {oldest} to {first - 1} are no longer in JetStream, not compared: "
                "nothing proves when they were stored"
            )
        if last > int(newest):
            notes.append(f"{stream}: {last - int(newest)} messages are not in the store yet, not verified")


@dataclass(frozen=True, slots=True)
class _Part:
    """What a stream has from `first` to `last`; `gone`: below it, retention has taken what there was."""

    first: int
    last: int
    messages: Sequence[Stored]
    gone: int


class _Reader:
    """Reads a stream in order, over whatever connection there is; raises what AskingAgain raises."""

    def __init__(self, origin: AskingAgain, stream: str) -> None:
        self._origin = origin
        self.stream = stream
        self._tail: tuple[Connection, Tail] | None = None

    async def kept(self) -> tuple[int, int] | None:
        """Return the first and the last sequence that the stream has; None where there is no stream."""
        info = await self._origin.ask(f"stream `{self.stream}`", lambda nc: stream_info(nc, self.stream))
        return None if info is None else (int(info["state"]["first_seq"]), int(info["state"]["last_seq"]))

    async def read(self, first: int, last: int) -> _Part:
        """Return the next part of what is between `first` and `last`, both of which the stream had."""

        async def step(nc: "Connection") -> _Part:
            found = [one for one in await self._on(nc).read(first, BATCH) if one.seq <= last]
            end = found[-1].seq if found else last
            if len(found) == end - first + 1:
                return _Part(first, end, found, 0)
            info = await stream_info(nc, self.stream)
            gone = int(info["state"]["first_seq"]) if info else 0
            if not found and gone <= last:
                raise StoreUnavailable(f"no message came, though the stream should have {first} to {last}")
            return _Part(first, end, found, gone)

        return await self._origin.ask(f"messages of `{self.stream}` from {first} on", step)

    def _on(self, nc: "Connection") -> Tail:
        if self._tail is None or self._tail[0] is not nc:
            self._tail = (nc, Tail(nc, self.stream))
        return self._tail[1]

    async def close(self) -> None:
        if self._tail is not None:
            await self._tail[1].close()


async def _compare(
    reader: _Reader, client: Any, first: int, last: int, settings: dict[str, Any]
) -> AsyncIterator[tuple[Problem | None, int]]:
    following = first
    try:
        while following <= last:
            part = await reader.read(following, last)
            given = {"stream": reader.stream, "first": part.first, "last": part.last}
            rows = client.query(_ROWS, parameters=given, settings=settings).result_rows
            kept = {int(seq): (str(subject), str(digest), int(at)) for seq, subject, digest, at in rows}
            yield None, len(part.messages)
            for seq, detail in _differences(part, kept):
                yield Problem(ProblemKind.ORIGIN, f"{reader.stream} {seq}", "", detail), 0
            following = part.last + 1
    finally:
        await reader.close()


def _differences(part: _Part, kept: Mapping[int, tuple[str, str, int]]) -> list[tuple[int, str]]:
    found = []
    for message in part.messages:
        row = kept.get(message.seq)
        if row is None:
            found.append((message.seq, "JetStream has the message, the store has no row"))
        elif row[1] != sha256(message.data).hexdigest():
            found.append((message.seq, "the row's bytes are not the message's"))
        elif row[0] != message.subject:
            shown = f"the row is under `{row[0][:200]}`, the message under `{message.subject[:200]}`"
            found.append((message.seq, shown))
        elif row[2] != message.time_us:
            shown = f"the row was stored at {row[2]} µs, the message at {message.time_us} µs"
            found.append((message.seq, shown))
    there = {message.seq for message in part.messages}
    lost = sorted(seq for seq in kept if seq not in there and seq >= part.gone)
    return found + [(seq, "the store has the row, JetStream has no such message") for seq in lost]
