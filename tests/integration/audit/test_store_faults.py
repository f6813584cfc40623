"""ClickHouse away, killed under load, and events sent again: totals stay right in tables and views."""

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from audit.store.row import read_heads
from audit.store.sheet import encode
from audit.store.stored import House, Stored
from audit.writing.repeats import Repeats
from licet.streams import subject_audit

KILLS = 2
MINUTE = 60_000
HOUR = int(os.environ.get("LICET_SOAK_HOUR", "1000000"))
"""Events while the store is away: three full batches, and an hour of some 280 a second."""
AUDIT = "LICET_AUDIT_dev"
SUBJECT = subject_audit("dev", "decider", "main")
OWNER = House("dev", "licet.local", None)


@pytest.mark.asyncio
@pytest.mark.timeout(240)
async def test_front_killed_again_and_again_under_load(
    own_house: Any, event: Any, record_property: Any
) -> None:
    """A few times; tests/soak/test_audit_kills.py does it fifty times, with everything else going on."""
    kills = KILLS
    seed = time.time_ns() % 1_000_000
    record_property("seed", seed)
    chance = random.Random(seed)
    house, front = own_house
    house.start_writer(LICET_BATCH_ROWS="400")
    each = 3000
    for number in range(kills):
        first = number * each + 1
        publishing = asyncio.ensure_future(house.publish([event(n) for n in range(first, first + each)]))
        await asyncio.sleep(chance.uniform(0.1, 1.5))
        await asyncio.to_thread(front.kill)
        await asyncio.sleep(chance.uniform(0, 0.5))
        await asyncio.to_thread(front.start)
        await publishing
    total = kills * each
    await house.until(house.stored(total), 90)
    house.assert_exact(total)
    await house.until(lambda: house.store.value("SELECT count() FROM calls") == total)
    assert house.store.value("SELECT sum(events) FROM hours") == total


@pytest.mark.asyncio
@pytest.mark.timeout(240)
async def test_store_that_was_away_is_caught_up_with(own_house: Any, event: Any) -> None:
    house, front = own_house
    writer = house.start_writer()
    await house.publish([event(n) for n in range(1, 1001)])
    await house.until(house.stored(1000))
    await asyncio.to_thread(front.kill)
    await house.publish([event(n) for n in range(1001, 8001)])
    await asyncio.sleep(3)
    assert writer.poll() is None, house.log()[-2000:]
    await asyncio.to_thread(front.start)
    await house.until(house.stored(8000), 60)
    house.assert_exact(8000)


def peak_kb(pid: int) -> int:
    """The most memory that a process ever had (VmHWM)."""
    with Path(f"/proc/{pid}/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


@pytest.mark.soak
@pytest.mark.asyncio
@pytest.mark.timeout(3600)
async def test_hour_without_a_store_is_caught_up_with_and_takes_no_more_memory_than_a_minute(
    own_house: Any, event: Any
) -> None:
    """The writer runs all the while. What it holds is a batch, however long the stream has grown."""
    house, front = own_house
    writer = house.start_writer()
    await house.publish([event(1)])
    await house.until(house.stored(1))
    peaks, first = [], 2
    for last in (MINUTE, MINUTE + HOUR):
        await asyncio.to_thread(front.kill)
        while first <= last:
            part = range(first, min(first + 20_000, last + 1))
            await house.publish([event(number, detail="x" * 300) for number in part])
            first = part[-1] + 1
        assert writer.poll() is None, house.log()[-2000:]
        await asyncio.to_thread(front.start)
        await house.until(house.stored(last), 1800)
        peaks.append(peak_kb(writer.pid))
    house.assert_exact(MINUTE + HOUR)
    print(f"peaks after a minute and after an hour: {peaks} kB")  # noqa: T201 - the run's record
    assert peaks[1] < peaks[0] * 1.25


@pytest.mark.asyncio
async def test_event_that_its_source_sent_again_is_kept_but_not_counted_twice(house: Any, event: Any) -> None:
    house.start_writer()
    await house.publish([event(n) for n in range(1, 101)])
    await house.until(house.stored(100))
    await house.publish([event(n) for n in range(90, 121)])  # as a journal does that had no acks
    await house.until(house.stored(131))
    house.assert_exact(131)
    assert house.store.rows("SELECT kind, count() FROM events GROUP BY kind ORDER BY kind") == [
        ("decision.denied", 120),
        ("repeated", 11),
    ]
    assert house.store.value("SELECT uniqExact(event_id) FROM events WHERE kind = 'decision.denied'") == 120


def test_only_the_same_bytes_are_a_repetition(store: Any, event: Any) -> None:
    def stored(seq: int, body: bytes) -> Stored:
        return Stored(AUDIT, SUBJECT, seq, 1_790_000_000_000_000, body)

    from audit.store.row import COLUMNS, insert_settings

    known = [stored(n, event(n)) for n in range(1, 11)]
    settings = dict(insert_settings(f"{AUDIT}:1"))
    store.client.raw_insert("events", COLUMNS, encode(known, OWNER), fmt="Protobuf", settings=settings)
    repeats = Repeats(store.client)
    batch = [
        stored(11, event(5)),
        stored(12, event(6, detail="other bytes")),
        stored(13, event(11)),
        stored(14, event(11)),
    ]
    assert repeats.of(batch, read_heads(batch, OWNER)) == {11, 14}
    others = [stored(15, event(12)), stored(16, b"no event")]
    assert repeats.of(others, read_heads(others, OWNER)) == frozenset()


def test_event_that_another_said_before_its_source_is_no_repetition(store: Any, event: Any) -> None:
    """A door that learns of a decision's event says it first, in its own name: the true one counts."""
    door = subject_audit("dev", "sidecar", "finance")
    batch = [Stored(AUDIT, subject, n, 1, event(1)) for n, subject in enumerate((door, SUBJECT, SUBJECT), 1)]
    assert Repeats(store.client).of(batch, read_heads(batch, OWNER)) == {3}


@pytest.mark.asyncio
async def test_merges_that_stand_still_change_no_total(house: Any, event: Any) -> None:
    house.store.client.command("SYSTEM STOP MERGES events")
    house.start_writer(LICET_BATCH_ROWS="50")
    await house.publish([event(n) for n in range(1, 1001)])
    await house.until(house.stored(1000), 60)
    house.assert_exact(1000)
    await house.until(lambda: house.store.value("SELECT count() FROM calls") == 1000)
    assert house.store.value("SELECT sum(events) FROM hours") == 1000


def test_migrations_run_again_and_at_once_change_nothing(front: Any, store: Any) -> None:
    from audit.store.migrate import Layout, check, migrate, shipped

    assert list(migrate(store.client, Layout())) == []
    check(store.client)
    assert store.value("SELECT count() FROM migrations") == len(shipped())


def test_cluster_schema_is_parsed_by_the_engine(store: Any) -> None:
    from audit.store.migrate import Layout, shipped, statements

    layout = Layout("main", 30)
    rendered = [text for one in shipped() for text in statements(layout.render(one.text))]
    assert len(rendered) > len(shipped())
    for text in rendered:
        store.client.command(f"EXPLAIN AST {text}")
        # Rows inserted on one server reach its replicas by the engine; only definitions go to each server.
        assert "ON CLUSTER `main`" in text or text.startswith("INSERT INTO ")
        assert " MergeTree" not in text
        assert " AggregatingMergeTree" not in text


@pytest.mark.parametrize("cluster", ["a b", "x'; DROP TABLE events; --", "x`y"])
def test_cluster_name_cannot_carry_a_statement(cluster: str) -> None:
    from audit.store.migrate import Layout

    with pytest.raises(ValueError, match="no cluster name"):
        Layout(cluster)


def test_migration_that_was_changed_or_left_out_stops_everything() -> None:
    from audit.store.migrate import MigrationError, pending, shipped

    known = shipped()
    done = [(one.number, one.checksum) for one in known]
    assert pending(done[:1], known) == known[1:]
    with pytest.raises(MigrationError, match="was changed"):
        pending([(1, "other")], known)
    with pytest.raises(MigrationError, match="out of order"):
        pending(done[1:], known)


def test_directory_is_free_again_after_a_kill(tmp_path: Path, own_front: Any) -> None:
    own_front.kill()
    own_front.start()
    client = own_front.address().client()
    assert client.command("SELECT 1") == 1
    client.close()


def test_of_two_writers_that_want_the_same_term_one_gets_it(store: Any) -> None:
    from audit.writing.lease import Lease

    one, two = Lease(store.client, AUDIT, "one"), Lease(store.client, AUDIT, "two")
    assert (one.acquire(), two.acquire(), one.acquire()) == (True, False, True)
    assert not two._put(2, "two")  # as if it had not seen that the term is taken
    one.release()
    assert (two.acquire(), one.acquire()) == (True, False)
    store.client.command(
        "ALTER TABLE leases UPDATE at = at - INTERVAL 1 MINUTE WHERE 1", settings={"mutations_sync": 2}
    )
    assert one.acquire()  # the other was silent for too long
