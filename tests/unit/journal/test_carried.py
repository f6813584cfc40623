"""What a journal writes down: its chain over a clock that jumps, and sealed payloads beside their events."""

import asyncio
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from licet.event import ZERO_HASH, EventKind, event_hash
from licet.journal import DurableQueue, Journal, LeftOut, Letter, Spool
from licet.journal.journal import PAYLOADS_DIRECTORY
from licet.journal.payloads import Payloads
from licet.sealed import payload_ref
from licet.statement import SigningKey
from licet.streams import StoreRefused
from licet.streams.publisher import PubAck
from licet.v1.event_pb2 import Event

pytestmark = pytest.mark.asyncio

AUDIT, PAYLOADS = "licet.audit.dev.decider.main", "licet.payload.dev.decider.main"
NOON = 1_790_000_000_000_000
HOUR = 3_600_000_000


async def opened(directory: Path, **more: Any) -> Journal:
    return await Journal.open(
        directory,
        source="spiffe://licet.local/dev/decider",
        environment="dev",
        subject=AUDIT,
        checkpoint_key=SigningKey.from_seed("checkpoint-decider", bytes(32)),
        payload_subject=PAYLOADS,
        checkpoint_s=3_600,
        **more,
    )


def letters(directory: Path) -> list[Letter]:
    spool = Spool.open(directory)
    try:
        return [Letter.of(record) for _, record in spool.read(spool.done)]
    finally:
        spool.close()


def events(found: list[Letter]) -> list[Event]:
    return [Event.FromString(letter.body) for letter in found if letter.subject == AUDIT]


async def test_a_clock_that_jumps_breaks_no_chain_and_loses_no_event(tmp_path: Path) -> None:
    times = [NOON, NOON + HOUR, NOON - HOUR, NOON - 400 * 24 * HOUR, NOON + 10 * 365 * 24 * HOUR]
    ticks = chain(times, repeat(NOON))
    journal = await opened(tmp_path, clock=lambda: next(ticks))
    for number in range(4):
        await journal.append(EventKind.DECISION_DENIED, detail=str(number))
    await journal.close(0)
    told = events(letters(tmp_path))
    assert [event.time_us for event in told[:5]] == times
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    tip = ZERO_HASH
    for event in told:
        assert event.prev_hash == tip
        tip = event_hash(event.prev_hash, event.SerializeToString(deterministic=True))
    assert told[-1].kind == EventKind.PROCESS_STOPPED
    assert len({event.event_id for event in told}) == len(told)


async def test_a_payload_goes_beside_its_event_which_names_it(tmp_path: Path) -> None:
    journal = await opened(tmp_path)
    asked: list[str] = []

    def sealing(event_id: str) -> bytes:
        asked.append(event_id)
        return b"sealed for " + event_id.encode()

    told = await journal.append(EventKind.DECISION_ALLOWED, sealing=sealing, detail="x")
    await journal.close(0)
    [payload] = letters(tmp_path / PAYLOADS_DIRECTORY)
    event = next(one for one in events(letters(tmp_path)) if one.kind == EventKind.DECISION_ALLOWED)
    assert asked == [told] == [event.event_id]
    assert (payload.subject, payload.body) == (PAYLOADS, b"sealed for " + told.encode())
    assert (event.payload_ref, event.detail) == (payload_ref(payload.body), "x")
    assert payload.msg_id == event.payload_ref[:32]


async def test_a_payload_without_room_is_left_out_and_its_event_says_so(tmp_path: Path) -> None:
    journal = await opened(tmp_path, payload_room_bytes=4_096)
    told: list[LeftOut] = []
    journal.tell_left_out(told.append)
    await journal.append(EventKind.DECISION_ALLOWED, sealing=lambda _: bytes(8_192), detail="why")
    await journal.append(EventKind.DECISION_ALLOWED, sealing=lambda _: b"small")
    await journal.close(0)
    large, small = (one for one in events(letters(tmp_path)) if one.kind == EventKind.DECISION_ALLOWED)
    assert (large.payload_ref, large.detail) == ("", "[payload left out: room] why")
    assert (small.payload_ref, small.detail) == (payload_ref(b"small"), "")
    assert told == [LeftOut.ROOM]


async def test_a_broken_disk_for_payloads_loses_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await opened(tmp_path)
    assert journal._payloads is not None
    monkeypatch.setattr(journal._payloads.queue, "_broken", "no space")
    await journal.append(EventKind.DECISION_ALLOWED, sealing=lambda _: b"sealed")
    await journal.close(0)
    [event] = [one for one in events(letters(tmp_path)) if one.kind == EventKind.DECISION_ALLOWED]
    assert (event.payload_ref, event.detail) == ("", "[payload left out: disk]")


async def test_a_payload_that_cannot_be_made_leaves_no_event(tmp_path: Path) -> None:
    journal = await opened(tmp_path)

    def fails(_: str) -> bytes:
        raise ValueError("too large")

    with pytest.raises(ValueError, match="too large"):
        await journal.append(EventKind.DECISION_ALLOWED, sealing=fails)
    await journal.append(EventKind.DECISION_ALLOWED, sealing=lambda _: b"small")
    await journal.close(0)
    told = events(letters(tmp_path))
    assert [event.kind for event in told].count("decision.allowed") == 1
    assert [event.seq for event in told] == list(range(1, len(told) + 1))


async def test_one_callers_flood_leaves_room_for_the_payloads_of_others(tmp_path: Path) -> None:
    queue = await DurableQueue.open(tmp_path)
    payloads = Payloads(queue, PAYLOADS, room_bytes=100_000)
    flood = [payloads.carry(number.to_bytes(1_000, "big"), "bot") for number in range(200)]
    kept = [one for one in flood if not isinstance(one, LeftOut)]
    assert 40_000 < len(kept) * 1_000 < 60_000
    assert set(flood[len(kept) :]) == {LeftOut.SHARE}
    second = [payloads.carry(number.to_bytes(1_001, "big"), "bot-2") for number in range(200)]
    assert sum(not isinstance(one, LeftOut) for one in second) > 15
    assert not isinstance(payloads.carry(b"one call", "somebody"), LeftOut)
    await queue.close(0)


class _Takes:
    """A stream for events, and none, or a full one, for payloads."""

    connected, reconnected_at_ms = True, 0

    def __init__(self) -> None:
        self.full = True

    async def begin(
        self, subject: str, body: bytes, *, msg_id: str | None = None
    ) -> "asyncio.Future[PubAck]":
        ack: asyncio.Future[PubAck] = asyncio.get_running_loop().create_future()
        if subject == PAYLOADS and self.full:
            ack.set_exception(StoreRefused(10077, "maximum bytes exceeded"))
        else:
            ack.set_result(PubAck("S", 1))
        return ack

    async def publish(
        self, subject: str, body: bytes, *, msg_id: str | None = None, timeout: float = 2.0
    ) -> PubAck:
        return await (await self.begin(subject, body, msg_id=msg_id))


async def test_a_full_payload_stream_holds_up_no_event_and_its_payloads_go_once_it_takes_them(
    tmp_path: Path,
) -> None:
    publisher = _Takes()
    journal = await opened(tmp_path, publisher=publisher)
    for number in range(20):
        sealed = b"sealed %d" % number
        await journal.append_acked(EventKind.DECISION_ALLOWED, within_s=60, sealing=lambda _, s=sealed: s)
    assert journal._payloads is not None
    assert journal._payloads.queue.depth == 20
    publisher.full = False
    assert await journal.close(60)
    assert journal._payloads.queue.depth == 0
