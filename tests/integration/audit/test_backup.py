"""The store is backed up and put back by the engine's own means, and what is missing of it is said."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from audit.store import backup
from audit.store.backup import Ahead, BackupError, Place
from audit.store.engine import Engine
from audit.store.migrate import Layout, MigrationError, check, migrate, shipped
from audit.store.sheet import EVENTS, PAYLOADS
from audit.store.stored import House, Stored
from tests.integration.audit.conftest import Store

AUDIT, SEALED = "LICET_AUDIT_dev", "LICET_PAYLOAD_dev"
SUBJECT = "licet.audit.dev.decider.main"
OWNER = House("dev", "licet.local", None)
DAY_US = 86_400_000_000
ANY_DAY = date(1970, 1, 1)


def put(store: Store, event: Any, first: int, count: int) -> None:
    """Store events and payloads, over two days, as the writer does."""
    now = time.time_ns() // 1000
    for start in range(first, first + count, 10):
        at = now - DAY_US if start < first + count // 2 else now
        numbers = range(start, start + 10)
        events = [Stored(AUDIT, SUBJECT, n, at, event(n)) for n in numbers]
        sealed = [
            Stored(SEALED, "licet.payload.dev.decider.main", n, at, bytes([n % 256]) * 32) for n in numbers
        ]
        for sheet, messages in ((EVENTS, events), (PAYLOADS, sealed)):
            data = sheet.encode(messages, OWNER, frozenset())
            settings = dict(sheet.settings(f"{messages[0].stream}:{messages[0].seq}"))
            store.client.raw_insert(sheet.table, sheet.columns, data, fmt=sheet.format, settings=settings)


@pytest.fixture
def empty(front: Any, store: Store) -> Iterator[Store]:
    """A database without tables, beside the store."""
    address = front.address(f"{store.address.database}_restored")
    admin = front.address().client()
    admin.command(f"CREATE DATABASE {address.database}")
    client = address.client()
    yield Store(address, client)
    client.close()
    admin.command(f"DROP DATABASE {address.database} SYNC")
    admin.close()


def place_of(store: Store) -> Place:
    return Place(f"of-{store.address.database.replace('_', '-')}")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


CALLS = "SELECT * FROM calls ORDER BY decision_id"


def test_backup_is_put_back_whole_with_calls_and_views_and_the_rest_is_the_writers(
    store: Store, empty: Store, event: Any
) -> None:
    put(store, event, 1, 40)
    held = backup.take(store.client, Layout(), place_of(store), now_ms=now_ms())
    assert sorted({(part.table, part.stream) for part in held}) == [("events", AUDIT), ("payloads", SEALED)]
    assert sum(part.rows for part in held) == 80
    put(store, event, 41, 10)  # after the backup: the writer's part
    backup.restore(empty.client, Layout(), place_of(store), source=store.address.database)
    check(empty.client)
    assert backup.missing(empty.client, place_of(store).name, oldest=ANY_DAY) == ()
    assert empty.rows("SELECT count(), max(js_seq) FROM events") == [(40, 40)]
    assert empty.rows(CALLS) == store.rows(CALLS)[:40]
    backup.rebuild(empty.client)
    backup.rebuild(empty.client)
    assert empty.rows(CALLS) == store.rows(CALLS)[:40], "a second time changes nothing"
    put(empty, event, 41, 10)
    assert empty.rows(CALLS) == store.rows(CALLS), "the restored store takes what the writer brings"
    assert store.value("SELECT count() FROM events") == 50, "the first one was not touched"


def test_backup_that_was_behind_is_brought_up_to_its_events_and_to_this_programs_schema(
    store: Store, empty: Store, event: Any
) -> None:
    put(store, event, 1, 20)
    wanted = store.rows(CALLS)
    store.client.command("TRUNCATE TABLE call_states")
    newest = shipped()[-1].number
    older = f"ALTER TABLE migrations DELETE WHERE number = {newest} SETTINGS mutations_sync = 2"
    store.client.command(older)
    backup.take(store.client, Layout(), place_of(store), now_ms=now_ms())
    backup.restore(empty.client, Layout(), place_of(store), source=store.address.database)
    with pytest.raises(MigrationError, match=f"lacks migration {newest}"):
        check(empty.client)
    assert [one.number for one in migrate(empty.client, Layout())] == [newest]
    check(empty.client)
    assert empty.rows(CALLS) == []
    assert backup.rebuild(empty.client) == 2
    assert empty.rows(CALLS) == wanted
    empty.client.command("INSERT INTO migrations (number, name, checksum) VALUES (10000, 'later', 'x')")
    with pytest.raises(MigrationError, match="which this licet does not know"):
        list(migrate(empty.client, Layout()))


def test_a_store_that_has_tables_is_never_written_over_and_a_name_is_used_once(
    store: Store, empty: Store, event: Any
) -> None:
    put(store, event, 1, 10)
    backup.take(store.client, Layout(), place_of(store), now_ms=now_ms())
    put(store, event, 11, 10)
    with pytest.raises(BackupError, match="this database has tables"):
        backup.restore(store.client, Layout(), place_of(store))
    with pytest.raises(Exception, match="BACKUP_ALREADY_EXISTS"):
        backup.take(store.client, Layout(), place_of(store), now_ms=now_ms())
    assert store.value("SELECT count() FROM events") == 20
    with pytest.raises(Exception, match="BACKUP_NOT_FOUND"):
        backup.restore(empty.client, Layout(), Place("never-taken"), source=store.address.database)
    assert empty.rows("SHOW TABLES") == []
    empty.client.command("CREATE TABLE anything (a UInt8) ENGINE = MergeTree ORDER BY a")
    with pytest.raises(BackupError, match="this database has tables"):
        backup.restore(empty.client, Layout(), place_of(store), source=store.address.database)


def test_what_the_store_lacks_of_a_backup_and_what_the_writer_will_find_is_said(
    store: Store, event: Any
) -> None:
    put(store, event, 1, 40)
    name = place_of(store).name
    backup.take(store.client, Layout(), place_of(store), now_ms=now_ms())
    assert backup.missing(store.client, name, oldest=ANY_DAY) == ()
    store.client.command("ALTER TABLE events DELETE WHERE js_seq IN (3, 4, 33) SETTINGS mutations_sync = 2")
    today = datetime.now(UTC).date()
    said = backup.missing(store.client, name, oldest=ANY_DAY)
    assert [text.split(" of ")[0] for text in said] == ["events: 2 rows", "events: 1 rows"]
    assert [text for text in said if str(today - timedelta(days=1)) in text] == [said[0]]
    assert backup.missing(store.client, name, oldest=today) == (said[1],), "retention may have taken the rest"
    with pytest.raises(BackupError, match="no note of a backup"):
        backup.missing(store.client, "another", oldest=ANY_DAY)

    assert backup.ahead(store.client, {AUDIT: (1, 100), SEALED: (41, 40)}) == (
        Ahead(True, f"`{AUDIT}`: 60 messages to read"),
        Ahead(True, f"`{SEALED}`: 0 messages to read"),
    )
    lost, back = backup.ahead(store.client, {AUDIT: (42, 100), SEALED: (1, 39)})
    assert (lost.whole, back.whole) == (False, False)
    assert "what lies between is lost" in lost.text
    assert "JetStream went back, the writer refuses" in back.text
    assert "JetStream went back" in backup.ahead(store.client, {})[0].text, (
        "a stream that is not there at all"
    )

    assert backup.generation(store.client) == 0
    message = Stored(AUDIT, SUBJECT, 41, time.time_ns() // 1000, event(41, generation=7))
    data = EVENTS.encode([message], OWNER, frozenset())
    settings = dict(EVENTS.settings(f"{AUDIT}:41"))
    store.client.raw_insert("events", EVENTS.columns, data, fmt=EVENTS.format, settings=settings)
    assert backup.generation(store.client) == 7


def test_statements_are_parsed_by_the_engine_which_keeps_backups_below_its_directory(store: Store) -> None:
    for cluster in ("", "main"):
        place, layout = Place("of-a-cluster", "s3"), Layout(cluster)
        for text in (
            backup.backup_statement("licet", place, layout),
            backup.restore_statement("licet", "licet2", place, layout),
        ):
            store.client.command(f"EXPLAIN AST {text}")
            assert ("ON CLUSTER `main`" in text) is bool(cluster)
    with pytest.raises(Exception, match="is not allowed for backups"):
        store.client.command(f"BACKUP DATABASE {store.address.database} TO File('/tmp/elsewhere')")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a'b", "a`b", ".hidden", "a b", "x" * 101])
def test_name_cannot_leave_its_directory_or_carry_a_statement(name: str) -> None:
    with pytest.raises(BackupError, match="is no name"):
        Place(name)
    with pytest.raises(BackupError, match="is no name"):
        Place("lawful", name or " ")
    assert str(Place("lawful", "s3")) == "Disk('s3', 'lawful')"


@pytest.mark.parametrize("name", ["a?b", "a&b", "a b", "a#b", "a%62"])
def test_directory_of_backups_cannot_carry_settings(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="backups cannot lie in"):
        Engine(tmp_path / "data", tmp_path / name)
    assert not (tmp_path / "data").exists()
