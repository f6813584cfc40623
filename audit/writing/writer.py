"""JetStream to ClickHouse: every stored message becomes exactly one row, in order, over any crash.

How it is exact. The next message to read is max(js_seq) + 1 of the stream, as the store itself has it, so
there is no offset to lose. A batch is one insert into one partition, all or nothing, under the
deduplication token `stream:first`. Batches tile the stream: whoever read the same maximum makes a batch
with the same first sequence, and of all inserts with one token the server keeps one. So a batch sent twice,
a writer killed anywhere, an answer that never came, a paused writer that wakes up late, two writers at
once: each message is stored once.

What it rests on: the store remembers tokens for 10,000 inserts, and streams are never written anew under an
old name. Gaps (messages JetStream no longer had) and a stream that went back are reported and never papered
over.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import lz4.frame  # type: ignore[import-untyped] # ships none
from clickhouse_connect.driver.exceptions import Error as ClickHouseError
from opentelemetry.trace import SpanKind

from audit.store.row import read_heads
from audit.store.sheet import sheet_of
from audit.store.stored import House, Stored
from audit.writing.lease import RENEW_S, Lease
from audit.writing.repeats import Repeats
from audit.writing.tail import Tail
from licet import telemetry
from licet.log import log
from licet.metrics import Metrics
from licet.streams import (
    StreamsError,
    stream_audit,
    stream_info,
    stream_ledger,
    stream_payload,
    stream_spend_log,
)
from licet.tracing import Tracing

if TYPE_CHECKING:
    from licet.streams import Connection

LOG: Final = logging.getLogger(__name__)
RETRY_S: Final = (0.2, 0.5, 1.0, 2.0)
"""Seconds between tries while NATS or ClickHouse is away; the last one repeats."""
UNEXPECTED_S: Final = 1.0
LONGEST_S: Final = 30.0
"""Seconds after the first failure that nobody foresaw, and at most; they double."""
JOURNALS: Final = "LICET_AUDIT_"
"""Streams in which an event may come again; the others are write-once by subject."""
STANDBY_S: Final = 2.0
EVENTS: Final = "events"
CHECK_S: Final = 5.0
"""How often the lag is looked at while messages keep coming."""
DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Position:
    """How far the store is with a stream: the first sequence of its last batch and its last; 0 for none."""

    batch: int
    last: int


def streams(environment: str) -> tuple[str, str, str]:
    """Return the streams that `events` keeps, by name."""
    return stream_audit(environment), stream_spend_log(environment), stream_ledger(environment)


def kept_streams(environment: str) -> tuple[str, ...]:
    """Return the streams that the store keeps, by name: those of `events`, and that of sealed payloads."""
    return (*streams(environment), stream_payload(environment))


def batches(messages: Sequence[Stored]) -> Iterator[Sequence[Stored]]:
    """Split what was read at day borders of JetStream's clock: one insert, one partition."""
    start = 0
    for index in range(1, len(messages) + 1):
        if index == len(messages) or _day(messages[index]) != _day(messages[start]):
            yield messages[start:index]
            start = index


def _day(message: Stored) -> int:
    return message.time_us // DAY_US


class StreamWriter:
    """Writes one stream until cancelled. `client` is its own clickhouse-connect client."""

    def __init__(
        self,
        nc: "Connection",
        client: Any,
        stream: str,
        holder: str,
        rows: int,
        *,
        metrics: Metrics | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._tracing = tracing or Tracing("licet-audit-writer")
        counts = metrics or Metrics("licet-audit-writer")
        self._lag = counts.gauge(telemetry.METRIC_STREAM_LAG)
        self._gaps = counts.counter(telemetry.METRIC_AUDIT_GAPS)
        self._failed = counts.counter(telemetry.METRIC_WRITER_FAILURES)
        self._gaps.begin(stream)
        self._failed.begin(stream)
        self._checked = 0.0
        self._nc = nc
        self._client = client
        self._stream = stream
        self._sheet = sheet_of(stream)
        self._rows = rows
        self._tail = Tail(nc, stream)
        self._lease = Lease(client, stream, holder)
        self._repeats = Repeats(client) if stream.startswith(JOURNALS) else None
        self._renewed = 0.0
        self.written = 0
        """Messages that this writer stored since its start."""

    async def run(self, house: Callable[[], House]) -> None:
        """Hold the lease, follow the stream, start again after every failure; ends only by cancellation.

        `house` is asked for each batch, so new keys need no restart.
        """
        failures = unexpected = written = 0
        try:
            while True:
                try:
                    position = await self._start()
                    failures = 0
                    await self._follow(position, house)
                except (ClickHouseError, StreamsError, OSError) as error:
                    delay = RETRY_S[min(failures, len(RETRY_S) - 1)]
                    failures += 1
                    log(LOG, logging.WARNING, "writer.waits", stream=self._stream, error=str(error)[:300])
                    await asyncio.sleep(delay)
                except Exception as error:  # noqa: BLE001 - one batch must not end the writer
                    if self.written > written:  # it got on since the last one
                        unexpected, written = 0, self.written
                    delay = min(UNEXPECTED_S * 2 ** min(unexpected, 5), LONGEST_S)
                    unexpected += 1
                    self._failed.add(1, self._stream)
                    shown = {"stream": self._stream, "failures": unexpected, "error": repr(error)[:300]}
                    log(LOG, logging.ERROR, "writer.failed", **shown)
                    await asyncio.sleep(delay)
        finally:
            await self._give_back()

    async def _start(self) -> Position:
        while not await self._hold():  # noqa: ASYNC110 - the lease lies in a database, nothing sets an event
            await asyncio.sleep(STANDBY_S)
        table = self._sheet.table
        position = await asyncio.to_thread(read_position, self._client, self._stream, table)
        await self._check_stream(position)
        if position.last and table == EVENTS:
            await asyncio.to_thread(repair_calls, self._client, self._stream, position)
        log(LOG, logging.INFO, "writer.follows", stream=self._stream, after=position.last)
        return position

    async def _follow(self, position: Position, house: Callable[[], House]) -> None:
        this = asyncio.current_task()
        while True:
            if this is not None and this.cancelling():
                raise asyncio.CancelledError  # somebody below us took it for a timeout
            if not await self._hold():
                log(LOG, logging.WARNING, "writer.lease_lost", stream=self._stream)
                return
            messages = await self._tail.read(position.last + 1, self._rows)
            for batch in batches(messages):
                self._report_gap(position, batch)
                await self._store(batch, house())
                last = await asyncio.to_thread(read_last, self._client, self._stream, self._sheet.table)
                position = Position(batch[0].seq, last)
                if position.last < batch[0].seq:
                    raise StreamsError(
                        f"the store dropped the batch of `{self._stream}` from {batch[0].seq} on: it knows"
                        " the token but has no such rows; see docs/audit.md, reading a stream again"
                    )
                if position.last != batch[-1].seq:
                    break  # another writer's batch of the same start was kept: go on from there
                self.written += len(batch)
            if not messages or asyncio.get_running_loop().time() - self._checked > CHECK_S:
                await self._check_stream(position)

    async def _store(self, batch: Sequence[Stored], house: House) -> None:
        repeated, heads = frozenset[int](), None
        if self._repeats is not None:
            heads = await asyncio.to_thread(read_heads, batch, house)
            repeated = await asyncio.to_thread(self._repeats.of, batch, heads)
        sheet = self._sheet
        data = sheet.encode(batch, house, repeated, heads)
        settings = dict(sheet.settings(f"{self._stream}:{batch[0].seq}"))
        recording = self._tracing.record()
        try:
            with recording.span(telemetry.SPAN_AUDIT_WRITE, kind=SpanKind.CLIENT) as span:
                span.set(telemetry.STREAM, self._stream)
                await asyncio.to_thread(self._insert, data, settings)
        finally:
            recording.close()

    def _insert(self, data: bytes, settings: dict[str, str]) -> None:
        """Send a batch, compressed: a row has its event twice, and less is copied on the way."""
        body, sheet = lz4.frame.compress(data), self._sheet
        options = {"fmt": sheet.format, "settings": settings, "compression": "lz4"}
        self._client.raw_insert(sheet.table, sheet.columns, body, **options)

    async def _hold(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._renewed and now - self._renewed < RENEW_S:
            return True
        held = await asyncio.to_thread(self._lease.acquire)
        self._renewed = now if held else 0.0
        return held

    async def _give_back(self) -> None:
        await self._tail.close()
        if self._renewed:
            try:
                await asyncio.to_thread(self._lease.release)
            except (ClickHouseError, OSError):
                return  # it runs out by itself

    async def _check_stream(self, position: Position) -> None:
        """Tell how far behind we are; raise StreamsError for a stream that is missing or went back."""
        info = await stream_info(self._nc, self._stream)
        self._checked = asyncio.get_running_loop().time()
        if info is None:
            raise StreamsError(f"there is no stream `{self._stream}`: run the setup")
        last = int(info["state"]["last_seq"])
        self._lag.set(max(last - position.last, 0), self._stream)
        if last < position.last:
            raise StreamsError(
                f"stream `{self._stream}` ends at {last}, but the store has {position.last}: it was restored"
                " or made anew; see docs/audit.md, restore"
            )

    def _report_gap(self, position: Position, batch: Sequence[Stored]) -> None:
        expected = position.last + 1
        for message in batch:
            if message.seq != expected:
                missing = message.seq - expected
                self._gaps.add(missing, self._stream)
                fields = {
                    "stream": self._stream,
                    "first": expected,
                    "last": message.seq - 1,
                    "missing": missing,
                }
                log(LOG, logging.ERROR, "writer.gap", **fields)
            expected = message.seq + 1


def read_last(client: Any, stream: str, table: str = EVENTS) -> int:
    """Return the last sequence that the store has of `stream`, 0 for none; answered from a projection."""
    rows = client.query(
        f"SELECT max(js_seq) FROM {table} WHERE js_stream = {{stream:String}}",  # noqa: S608 - a Sheet's name
        parameters={"stream": stream},
    ).result_rows
    return int(rows[0][0]) if rows else 0


def read_position(client: Any, stream: str, table: str = EVENTS) -> Position:
    """Return how far the store is with `stream`, and where its last batch began."""
    last = read_last(client, stream, table)
    where = "js_stream = {stream:String} AND js_seq = {last:UInt64}"
    rows = client.query(
        f"SELECT max(batch) FROM {table} WHERE {where}",  # noqa: S608 - a Sheet's name
        parameters={"stream": stream, "last": last},
    ).result_rows
    return Position(int(rows[0][0]) if last else 0, last)


def repair_calls(client: Any, stream: str, position: Position) -> None:
    """Bring the last batch into `call_states` once more: its writer may have died between the two tables.

    Every state there is a maximum or a set, so a second time changes nothing.
    """
    select = client.query(
        "SELECT as_select, currentDatabase() FROM system.tables"
        " WHERE database = currentDatabase() AND name = 'calls_from_events'"
    ).result_rows[0]
    only = f"js_stream = \\'{stream}\\' AND batch = {position.batch}"
    client.command(
        f"INSERT INTO call_states {select[0]}",
        settings={
            "additional_table_filters": f"{{'{select[1]}.events': '{only}'}}",
            "insert_deduplicate": "0",
        },
    )
