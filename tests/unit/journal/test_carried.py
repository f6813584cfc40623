"""What a journal writes down: its chain over a clock that jumps, and sealed payloads before their events."""

from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from licet.event import ZERO_HASH, EventKind, event_hash
from licet.journal import Journal, Letter, Spool, SpoolFull
from licet.sealed import payload_ref
from licet.statement import SigningKey
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


async def test_a_payload_goes_before_its_event_which_names_it(tmp_path: Path) -> None:
    journal = await opened(tmp_path)
    asked: list[str] = []

    def sealing(event_id: str) -> bytes:
        asked.append(event_id)
        return b"sealed for " + event_id.encode()

    told = await journal.append(EventKind.DECISION_ALLOWED, sealing=sealing, detail="x")
    await journal.close(0)
    found = letters(tmp_path)
    at = next(place for place, letter in enumerate(found) if letter.subject == PAYLOADS)
    payload, event = found[at], Event.FromString(found[at + 1].body)
    assert asked == [told] == [event.event_id]
    assert payload.body == b"sealed for " + told.encode()
    assert event.payload_ref == payload_ref(payload.body)
    assert payload.msg_id == event.payload_ref[:32]


async def test_a_payload_that_cannot_be_kept_or_made_leaves_no_event(tmp_path: Path) -> None:
    journal = await opened(tmp_path, cap_bytes=4_096)
    with pytest.raises(SpoolFull):
        await journal.append(EventKind.DECISION_ALLOWED, sealing=lambda _: bytes(8_192))

    def fails(_: str) -> bytes:
        raise ValueError("too large")

    with pytest.raises(ValueError, match="too large"):
        await journal.append(EventKind.DECISION_ALLOWED, sealing=fails)
    await journal.append(EventKind.DECISION_ALLOWED, sealing=lambda _: b"small")
    await journal.close(0)
    told = events(letters(tmp_path))
    assert [event.kind for event in told].count("decision.allowed") == 1
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
