"""A process's own record of what it did: ordered, chained, spooled, published.

One run of a process is one stream of events, numbered from 1 without a gap, each carrying the hash of the
one before. `spool` returns once a kill of this process cannot lose the event, `append` once a loss of power
cannot either; the queue brings it to `LICET_AUDIT_<env>` from there, also in the next run. The first event is
`process.started` and names the run before it; `process.stopped` is the last, and a run without one was cut
off. A checkpoint signs the chain so far every 256 events or 10 s, also when nothing happens, so that a
missing tail shows.

Not promised: that an event is published once (see `queue`); readers know an event by its id. Whoever has the
checkpoint key and this directory can write another chain: only a checkpoint kept elsewhere shows that.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from licet.clock import wall_us
from licet.event import (
    EVENT_VERSION,
    ZERO_HASH,
    Checkpoint,
    EventKind,
    checkpoint_payload,
    event_hash,
    uuid7,
)
from licet.journal.event_text import event_of, fit
from licet.journal.payloads import PAYLOADS_AT_ONCE, ROOM_BYTES, LeftOut, Payloads
from licet.journal.queue import CAP_BYTES, DurableQueue, Letter
from licet.journal.spool import SpoolError
from licet.log import log
from licet.statement import PayloadType, SigningKey, canonical
from licet.streams.errors import StoreUnavailable
from licet.streams.publisher import Publishing
from licet.v1.statement_pb2 import Signed

logger = logging.getLogger(__name__)

CHECKPOINT_EVENTS: Final = 256
CHECKPOINT_S: Final = 10.0
ACK_WITHIN_S: Final = 2.0
PAYLOADS_DIRECTORY: Final = "payloads"
"""Where payloads wait, below the journal's own directory."""
STREAM_FILE: Final = "stream"
"""Holds the id of the run that used the directory last."""


def clock_us() -> int:
    """Return Unix µs by this machine's clock."""
    return wall_us()


Sealing = Callable[[str], bytes]
"""Given the id of the event that is to carry it, a sealed payload (licet.sealed)."""


@dataclass(frozen=True, slots=True)
class Source:
    """Whose events these are: SPIFFE id, environment, subject."""

    spiffe_id: str
    environment: str
    subject: str


class Journal:
    """One run's events. `open` makes it; use from one event loop."""

    def __init__(
        self,
        queue: DurableQueue,
        source: Source,
        checkpoint_key: SigningKey,
        clock: Callable[[], int],
        payloads: Payloads | None = None,
    ) -> None:
        self._queue = queue
        self._payloads = payloads
        self._left_out: Callable[[LeftOut], None] = lambda _: None
        self._source = source
        self._key = checkpoint_key
        self._clock = clock
        self.stream: Final = secrets.token_hex(16)
        self._seq = 0
        self._tip = ZERO_HASH
        self._checkpointed = 0
        self._closed = False
        self._timer: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        source: str,
        environment: str,
        subject: str,
        checkpoint_key: SigningKey,
        publisher: Publishing | None = None,
        clock: Callable[[], int] = clock_us,
        cap_bytes: int = CAP_BYTES,
        checkpoint_s: float = CHECKPOINT_S,
        payload_subject: str = "",
        payload_room_bytes: int = ROOM_BYTES,
    ) -> Self:
        """Begin a run in `directory`; what an earlier run left there is published first.

        Args:
            directory: of this process alone.
            source: SPIFFE id of the process; must own `checkpoint_key`.
            environment: the one environment.
            subject: from `subject_audit`.
            checkpoint_key: signs checkpoints.
            publisher: may come later, by `attach`; until then events only gather.
            clock: Unix µs.
            cap_bytes: how much may wait to be published.
            checkpoint_s: seconds between checkpoints.
            payload_subject: from `subject_payload`, for whoever carries sealed payloads.
            payload_room_bytes: how much of payloads may wait; beyond, they are left out.

        Raises:
            SpoolBroken: another process has the directory, or the disk refuses.
        """
        queue = await DurableQueue.open(directory, publisher=publisher, cap_bytes=cap_bytes)
        payloads = None
        if payload_subject:
            place = directory / PAYLOADS_DIRECTORY
            beside = await DurableQueue.open(place, publisher=publisher, window=PAYLOADS_AT_ONCE)
            payloads = Payloads(beside, payload_subject, payload_room_bytes)
        journal = cls(queue, Source(source, environment, subject), checkpoint_key, clock, payloads)
        previous = _swap_stream(directory / STREAM_FILE, journal.stream)
        journal._write(EventKind.PROCESS_STARTED, {"detail": _recovered(queue)}, previous_stream=previous)
        await queue.synced()
        journal._timer = asyncio.create_task(journal._checkpoint_loop(checkpoint_s))
        return journal

    def attach(self, publisher: Publishing) -> None:
        """Publish through `publisher` from now on."""
        self._queue.attach(publisher)
        if self._payloads is not None:
            self._payloads.queue.attach(publisher)

    def tell_left_out(self, told: Callable[[LeftOut], None]) -> None:
        """Call `told` from now on for each payload that is left out."""
        self._left_out = told

    @property
    def full(self) -> bool:
        """Whether writes must be refused (AUDIT_BACKPRESSURE): nearly full, or the disk failed."""
        return self._queue.full

    @property
    def crowded(self) -> bool:
        """Whether half the spool waits: refusals should be counted, to leave room for what was done."""
        return self._queue.crowded

    @property
    def depth(self) -> int:
        """How many events wait for their ack."""
        return self._queue.depth

    @property
    def seq(self) -> int:
        """Number of the run's last event."""
        return self._seq

    def spool(self, kind: EventKind, **fields: Any) -> str:
        """Record an event and return its id; from now on only a loss of power can lose it, and not for long.

        It is acked by JetStream or durable here within twice `SYNC_S` (licet.journal.queue). Waits for
        nothing. Numbered, refused and raising as `append`.
        """
        return self._record(kind, fields, None)[0]

    async def append(self, kind: EventKind, *, sealing: Sealing | None = None, **fields: Any) -> str:
        """Record an event and return its id once it is durable here.

        Events are numbered in the order in which the calls began.

        Args:
            kind: what happened.
            sealing: as in `append_acked`.
            fields: fields of `Event` but those the journal fills in; text too long is cut and marked.

        Raises:
            ValueError: a field that is none, or a number out of range; nothing was recorded.
            SpoolFull: too much waits to be published; nothing was recorded.
            SpoolBroken: the disk failed; the event may or may not survive.
        """
        event_id, _ = self._record(kind, fields, sealing)
        await self._queue.synced()
        return event_id

    async def append_acked(
        self,
        kind: EventKind,
        *,
        within_s: float = ACK_WITHIN_S,
        sealing: Sealing | None = None,
        **fields: Any,
    ) -> str:
        """Record an event and return its id once JetStream has acked it.

        `sealing` makes the payload that goes beside the event (licet.journal.payloads); the event names it
        by `payload_ref`, or its `detail` begins with why it has none. The ack waited for is the event's.

        Raises:
            StoreUnavailable: no ack within `within_s` seconds. The event stays and will still be published,
            so
                what it announces must not happen, or must be announced again.
            ValueError, SpoolFull, SpoolBroken: as `append`.
        """
        event_id, position = self._record(kind, fields, sealing)
        try:
            await self._queue.acked(position, within_s)  # JetStream has it: no need to wait for this disk too
        except StoreUnavailable:
            self._queue.sync_soon()
            raise
        return event_id

    async def close(self, drain_s: float = 5.0) -> bool:
        """Say goodbye, wait at most `drain_s` seconds for acks, stop; returns whether all came."""
        if self._closed:
            return self._queue.depth == 0
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)
        with contextlib.suppress(SpoolError):
            self._write(EventKind.PROCESS_STOPPED, {}, checkpoint=self._sign())
        self._closed = True
        if self._payloads is None:
            return await self._queue.close(drain_s)
        return all(await asyncio.gather(self._queue.close(drain_s), self._payloads.queue.close(drain_s)))

    def _record(self, kind: EventKind, fields: dict[str, Any], sealing: Sealing | None) -> tuple[str, int]:
        if self._closed:
            raise SpoolError("the journal is closed")
        time_us = fields.pop("time_us", 0) or self._clock()
        event_id = uuid7(time_us // 1_000, os.urandom(10))
        if sealing is not None and self._payloads is not None:
            fields = fit(fields)  # what no event can say is refused before a payload is spooled for it
            caller = str(fields.get("agent") or fields.get("caller"))
            carried = self._payloads.carry(sealing(event_id), caller)
            if isinstance(carried, LeftOut):
                self._left_out(carried)
                fields["detail"] = f"[payload left out: {carried}] {fields.get('detail', '')}".rstrip()
            else:
                fields["payload_ref"] = carried
        recorded = self._write(kind, fields, event_id, time_us)
        if self._seq - self._checkpointed >= CHECKPOINT_EVENTS:
            self._checkpoint()
        return recorded

    def _write(
        self, kind: EventKind, fields: Mapping[str, Any], event_id: str = "", time_us: int = 0, **own: Any
    ) -> tuple[str, int]:
        """Chain and spool one event; the chain moves on only when the spool took it."""
        time_us = time_us or self._clock()
        event_id = event_id or uuid7(time_us // 1_000, os.urandom(10))
        own |= {
            "version": EVENT_VERSION,
            "event_id": event_id,
            "source": self._source.spiffe_id,
            "stream": self.stream,
            "seq": self._seq + 1,
            "prev_hash": self._tip,
            "time_us": time_us,
            "kind": kind,
            "environment": self._source.environment,
        }
        body = canonical(event_of(own, fields))
        position = self._queue.put(Letter(self._source.subject, event_id, body))
        self._seq += 1
        self._tip = event_hash(self._tip, body)
        return event_id, position

    def _sign(self) -> Signed:
        now_ms = self._clock() // 1_000
        so_far = Checkpoint(self._source.spiffe_id, self.stream, self._seq, self._tip, self._seq, now_ms)
        return self._key.sign(PayloadType.CHECKPOINT, checkpoint_payload(so_far))

    def _checkpoint(self) -> None:
        """Sign everything before; the checkpoint is itself the next event of the chain."""
        with contextlib.suppress(SpoolError):  # whoever appends next learns of it
            self._write(EventKind.CHECKPOINT, {}, checkpoint=self._sign())
            self._checkpointed = self._seq

    async def _checkpoint_loop(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            self._checkpoint()


def _swap_stream(path: Path, stream: str) -> str:
    """Remember this run for the next one, and return the one before, empty if there was none."""
    previous = path.read_text("ascii").strip() if path.exists() else ""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(f"{stream}\n", "ascii")
    partial.replace(path)
    return previous if len(previous) == len(stream) else ""


def _recovered(queue: DurableQueue) -> str:
    found = queue.recovery
    if not found.torn_bytes and not found.damaged:
        return f"{found.records} events of an earlier run wait" if found.records else ""
    log(logger, logging.ERROR, "journal.damaged", torn_bytes=found.torn_bytes, segments=found.damaged)
    damaged = f", damaged: {', '.join(found.damaged)}" if found.damaged else ""
    return f"{found.records} events of an earlier run wait; {found.torn_bytes} torn bytes set aside{damaged}"
