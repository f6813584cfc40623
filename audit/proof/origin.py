"""The store against JetStream: rows compared, byte for byte, with the messages that they came from.

A ledger's rows are signed by nobody: what JetStream still holds is their one other copy. Guarantees: each
message that a stream still holds and the store should have is compared by subject and bytes; one that is
missing, differs, or never was in the stream is named. Proves nothing of messages that JetStream no longer
holds, nor against whoever can write both.
"""

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from audit.proof.chain import Problem, ProblemKind
from audit.writing.tail import Tail
from audit.writing.writer import streams
from licet.streams import stream_info

if TYPE_CHECKING:
    from nats.aio.client import Client

BATCH: Final = 5_000
_ROWS: Final = """
SELECT js_seq, js_subject, lower(hex(SHA256(event))) FROM events
WHERE js_stream = {stream:String} AND js_seq BETWEEN {first:UInt64} AND {last:UInt64}
"""
_RANGE: Final = "SELECT min(js_seq), max(js_seq) FROM events WHERE js_stream = {stream:String}"


async def origin_problems(
    nc: "Client", client: Any, environment: str, settings: dict[str, Any], notes: list[str]
) -> AsyncIterator[Problem]:
    """Compare each stream's messages with their rows; `notes` gets what was compared and what was not.

    Raises StreamsError, and what the client raises.
    """
    for stream in streams(environment):
        given = {"stream": stream}
        oldest, newest = client.query(_RANGE, parameters=given, settings=settings).result_rows[0]
        info = await stream_info(nc, stream)
        if info is None:
            yield Problem(ProblemKind.ORIGIN, stream, "", "JetStream has no such stream")
            continue
        first, last = int(info["state"]["first_seq"]), int(info["state"]["last_seq"])
        if int(newest) > last:
            detail = f"the store has sequence {newest}, the stream ends at {last}"
            yield Problem(ProblemKind.ORIGIN, stream, "", detail)
        compared = 0
        async for problem, count in _compare(
            Tail(nc, stream), client, max(first, 1), min(last, int(newest)), settings
        ):
            compared += count
            if problem is not None:
                yield problem
        notes.append(f"{stream}: {compared} messages compared with JetStream")
        if int(oldest) and int(oldest) < first:
            notes.append(f"{stream}: rows {oldest} to {first - 1} are no longer in JetStream, not compared")


async def _compare(
    tail: Tail, client: Any, first: int, last: int, settings: dict[str, Any]
) -> AsyncIterator[tuple[Problem | None, int]]:
    stream, following = tail.stream, first
    try:
        while following <= last:
            messages = [one for one in await tail.read(following, BATCH) if one.seq <= last]
            if not messages:
                return
            given = {"stream": stream, "first": messages[0].seq, "last": messages[-1].seq}
            rows = client.query(_ROWS, parameters=given, settings=settings).result_rows
            kept = {int(seq): (str(subject), str(digest)) for seq, subject, digest in rows}
            yield None, len(messages)
            for message in messages:
                row = kept.get(message.seq)
                if row is None:
                    detail = "JetStream has the message, the store has no row"
                elif row[1] != sha256(message.data).hexdigest():
                    detail = "the row's bytes are not the message's"
                elif row[0] != message.subject:
                    detail = f"the row is under `{row[0][:200]}`, the message under `{message.subject[:200]}`"
                else:
                    continue
                yield Problem(ProblemKind.ORIGIN, f"{stream} {message.seq}", "", detail), 0
            following = messages[-1].seq + 1
    finally:
        await tail.close()
