"""Every stored message becomes one row, over any crash: count = distinct = last sequence."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from audit.store.migrate import MigrationError
from audit.store.row import COLUMNS, insert_settings, row
from audit.store.sheet import encode
from audit.store.stored import House as Owner
from audit.store.stored import Stored
from audit.writing.writer import batches, read_position, repair_calls
from licet.streams import subject_audit

KILLS = 6
OWNER = Owner("dev", "licet.local", None)
AUDIT = "LICET_AUDIT_dev"
SUBJECT = "licet.audit.dev.decider.main"


def insert(store: Any, messages: Any, *, token: Any = None) -> None:
    settings = insert_settings(token or f"{messages[0].stream}:{messages[0].seq}")
    store.client.raw_insert(
        "events", COLUMNS, encode(messages, OWNER), fmt="Protobuf", settings=dict(settings)
    )


def stored(event: Any, first: Any, last: Any, *, time_us: Any = 1_790_000_000_000_000) -> Any:
    return [Stored(AUDIT, SUBJECT, n, time_us + n, event(n)) for n in range(first, last + 1)]


@pytest.mark.asyncio
async def test_what_is_published_is_stored_once_and_in_order(house: Any, event: Any) -> None:
    house.start_writer()
    await house.publish([event(n) for n in range(1, 5001)])
    await house.until(house.stored(5000))
    house.assert_exact(5000)
    await house.until(lambda: house.store.value("SELECT count() FROM calls") == 5000)
    assert house.store.rows("SELECT min(seq), max(seq), uniqExact(event_id) FROM events") == [(1, 5000, 5000)]


@pytest.mark.asyncio
@pytest.mark.timeout(240)
async def test_writer_killed_again_and_again_loses_nothing_and_doubles_nothing(
    house: Any, event: Any, record_property: Any
) -> None:
    """A few times; tests/soak/test_audit_kills.py does it two hundred times, on every stream."""
    kills = KILLS
    seed = time.time_ns() % 1_000_000
    record_property("seed", seed)
    chance = random.Random(seed)
    total, each = kills * 3000, 3000
    writer = house.start_writer(LICET_BATCH_ROWS="500")
    await house.until(house.stored(0))
    for number in range(kills):
        first = number * each + 1
        publishing = asyncio.ensure_future(house.publish([event(n) for n in range(first, first + each)]))
        await asyncio.sleep(chance.uniform(0.05, 1.2))
        writer.kill()
        writer.wait()
        writer = house.start_writer(LICET_BATCH_ROWS="500")
        await publishing
    await house.until(house.stored(total), 60)
    house.assert_exact(total)
    await house.until(lambda: house.store.value("SELECT count() FROM calls") == total)


@pytest.mark.asyncio
async def test_two_writers_at_once_store_each_message_once(house: Any, event: Any) -> None:
    house.start_writer(instance="one", LICET_BATCH_ROWS="300")
    house.start_writer(instance="two", LICET_BATCH_ROWS="700")
    await house.publish([event(n) for n in range(1, 8001)])
    await house.until(house.stored(8000))
    await asyncio.sleep(0.5)
    house.assert_exact(8000)


@pytest.mark.asyncio
async def test_second_writer_takes_over_at_once_when_the_first_one_says_goodbye(
    house: Any, event: Any
) -> None:
    first = house.start_writer(instance="one")
    await house.publish([event(1)])
    await house.until(house.stored(1))
    house.start_writer(instance="two")
    await asyncio.sleep(1)
    first.terminate()
    first.wait()
    await house.publish([event(2)])
    await house.until(house.stored(2))
    house.assert_exact(2)
    assert house.store.value("SELECT count() FROM leases WHERE holder = ''") > 0  # nobody waited for its end


@pytest.mark.asyncio
async def test_nats_restarted_under_load(house: Any, event: Any) -> None:
    house.start_writer()
    await house.publish([event(n) for n in range(1, 2001)])
    house.nats.kill()
    house.nats.start()
    await house.publish([event(n) for n in range(2001, 4001)])
    await house.until(house.stored(4000))
    house.assert_exact(4000)


def test_batch_inserted_twice_is_one_batch_in_table_calls_and_rollups(store: Any, event: Any) -> None:
    for _ in range(3):
        insert(store, stored(event, 1, 500))
    assert store.rows("SELECT count(), uniqExact(js_seq) FROM events") == [(500, 500)]
    assert store.value("SELECT count() FROM calls") == 500
    assert store.value("SELECT sum(events) FROM hours") == 500


def test_calls_are_the_same_before_and_after_merges(store: Any, event: Any) -> None:
    again = [event(n + 100, decision_id=f"{n + (1 << 64):032x}", detail="once more") for n in range(1, 51)]
    insert(store, stored(event, 1, 100))
    insert(
        store,
        [Stored(AUDIT, SUBJECT, 100 + n, 1_790_000_000_000_000, body) for n, body in enumerate(again, 1)],
    )
    before = store.rows("SELECT * FROM calls ORDER BY decision_id")
    assert (len(before), store.value("SELECT count() FROM call_states")) == (100, 150)
    store.client.command("OPTIMIZE TABLE call_states FINAL")
    assert store.value("SELECT count() FROM call_states") == 100
    assert store.rows("SELECT * FROM calls ORDER BY decision_id") == before


def test_late_batch_of_a_paused_writer_with_the_same_start_is_dropped(store: Any, event: Any) -> None:
    insert(store, stored(event, 1, 100))
    insert(store, stored(event, 101, 150))
    insert(store, stored(event, 1, 130))  # slept since the beginning, and has read further
    insert(store, stored(event, 101, 160))
    assert store.rows("SELECT count(), uniqExact(js_seq), max(js_seq) FROM events") == [(150, 150, 150)]


def test_next_batch_is_not_taken_for_a_repeated_one(store: Any, event: Any) -> None:
    insert(store, stored(event, 1, 100))
    insert(store, stored(event, 101, 200))
    assert store.value("SELECT count() FROM events") == 200


def test_calls_are_repaired_when_the_writer_died_between_the_two_tables(store: Any, event: Any) -> None:
    insert(store, stored(event, 1, 100))
    insert(store, stored(event, 101, 150))
    before = store.rows("SELECT * FROM calls ORDER BY decision_id")
    store.client.command("TRUNCATE TABLE call_states")
    position = read_position(store.client, AUDIT)
    assert (position.batch, position.last) == (101, 150)
    repair_calls(store.client, AUDIT, position)
    repair_calls(store.client, AUDIT, position)
    assert store.rows("SELECT * FROM calls ORDER BY decision_id") == before[100:]


def test_read_of_two_days_becomes_one_insert_a_day(store: Any, event: Any) -> None:
    midnight = 20_000 * 86_400_000_000
    messages = [Stored(AUDIT, SUBJECT, n, midnight - 3 + n, event(n)) for n in range(1, 7)]
    parts = [[message.seq for message in batch] for batch in batches(messages)]
    assert parts == [[1, 2], [3, 4, 5, 6]]
    for batch in batches(messages):
        insert(store, batch)
    assert (
        store.value(
            "SELECT count() FROM system.parts WHERE database = currentDatabase() AND table = 'events'"
        )
        == 2
    )
    assert store.value("SELECT count() FROM events") == 6


BAD = {
    "MALFORMED": b"\xff\xfe not protobuf",
    "UNKNOWN_FIELD": None,
    "VERSION_UNKNOWN": {"version": 2},
    "KIND_UNKNOWN": {"kind": "decision.invented"},
    "KIND_FORBIDDEN": {"kind": "ledger.changed"},
    "SOURCE_MISMATCH": {"source": "spiffe://licet.local/dev/sidecar/finance"},
    "ENVIRONMENT_MISMATCH": {"environment": "prod"},
}


@pytest.mark.asyncio
async def test_what_cannot_be_a_row_is_kept_with_its_bytes_and_the_reason(house: Any, event: Any) -> None:
    bodies = {
        reason: bad
        if isinstance(bad, bytes)
        else event(2) + b"\xfa\xff\x7f\x01x"
        if bad is None
        else event(3, **bad)
        for reason, bad in BAD.items()
    }
    house.start_writer()
    await house.publish([event(1), *bodies.values(), event(9)])
    await house.until(house.stored(9))
    house.assert_exact(9)
    result = house.store.client.query(
        "SELECT reason, event FROM quarantine ORDER BY js_seq", column_formats={"event": "bytes"}
    )
    assert [(row[0], row[1]) for row in result.result_rows] == list(bodies.items())
    await house.until(lambda: house.store.value("SELECT count() FROM calls") == 2)


@pytest.mark.asyncio
async def test_sidecar_cannot_speak_for_the_decider_or_invent_a_decision(house: Any, event: Any) -> None:
    subject = subject_audit("dev", "sidecar", "finance")
    forged = event(1)  # signed by nobody: names the decider as its source
    own = event(2, source="spiffe://licet.local/dev/sidecar/finance")  # its own name, but a decision
    lawful = event(3, source="spiffe://licet.local/dev/sidecar/finance", kind="door.refused", decision="")
    house.start_writer()
    await house.publish([forged, own, lawful], subject, "sidecar-finance")
    await house.until(house.stored(3))
    assert house.store.rows("SELECT js_seq, kind, reason FROM events ORDER BY js_seq") == [
        (1, "quarantined", "SOURCE_MISMATCH"),
        (2, "quarantined", "KIND_FORBIDDEN"),
        (3, "door.refused", "DENIED"),
    ]


HOSTILE: dict[str, Callable[[], object]] = {
    "resource": lambda: "order:'; DROP TABLE events; --",
    "tenant": lambda: "t1\x00\u202e\\'\"`",
    "detail": lambda: "line\nfeed\ttab \U0001f4a5",
    "amount_minor": lambda: 2**63 - 1,
    "config_seq": lambda: 2**64 - 1,
    "not_after_ms": lambda: -(2**63),
    "tier": lambda: 2**32 - 1,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values_are_kept_exactly(store: Any, event: Any, name: Any) -> None:
    value = HOSTILE[name]()
    insert(store, [Stored(AUDIT, SUBJECT, 1, 1_790_000_000_000_000, event(1, **{name: value}))])
    assert store.value(f"SELECT {name} FROM events WHERE {name} = {{v:{_type(value)}}}", v=value) == value


def _type(value: object) -> str:
    return (
        "String"
        if isinstance(value, str)
        else "UInt64"
        if isinstance(value, int) and value >= 2**63
        else "Int64"
    )


@pytest.mark.parametrize("time_us", [-1, 0, 1_790_000_000_000_000_000, 2**63 - 1, -(2**63)])
def test_times_beyond_the_calendar_are_exact_and_do_not_move_the_row(
    store: Any, event: Any, time_us: Any
) -> None:
    insert(store, [Stored(AUDIT, SUBJECT, 1, 1_790_000_000_000_000, event(1, time_us=time_us))])
    row_ = store.rows(
        "SELECT time_us, toString(toDate(js_time)), toYear(time) BETWEEN 1970 AND 2100 FROM events"
    )
    assert row_ == [(time_us, "2026-09-21", 1)]


@pytest.mark.asyncio
async def test_gap_in_the_stream_is_told_and_not_papered_over(house: Any, event: Any) -> None:
    await house.publish([event(n) for n in range(1, 11)])
    insert(house.store, stored(event, 1, 2))
    insert(house.store, stored(event, 8, 8))  # as if JetStream had given nothing from 3 to 7
    assert house.store.rows("SELECT first, last, missing FROM stream_offsets") == [(1, 8, 5)]
    house.start_writer()
    await house.until(house.stored(10))
    assert house.store.rows("SELECT missing FROM stream_offsets") == [(5,)]


@pytest.mark.asyncio
async def test_stream_that_went_back_stops_the_writer_with_words(house: Any, event: Any) -> None:
    await house.publish([event(1)])
    insert(house.store, stored(event, 1, 50))
    house.start_writer()
    await house.until(lambda: "restored or made anew" in house.log())
    assert house.store.value("SELECT count() FROM events") == 50


def test_row_of_a_message_is_the_same_bytes_each_time(event: Any) -> None:
    message = Stored(AUDIT, SUBJECT, 1, 1, event(1))
    assert row(message, OWNER, 1) == row(message, OWNER, 1)


def test_schema_of_another_version_stops_everything(front: Any, store: Any) -> None:
    from audit.store.migrate import check

    store.client.insert("migrations", [[99, "later", "0"]], column_names=["number", "name", "checksum"])
    with pytest.raises(MigrationError, match="does not know"):
        check(store.client)
