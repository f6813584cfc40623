"""Backup and restore of the whole store, by the engine's own BACKUP and RESTORE.

Guarantees: a backup names what it holds: rows of each table, stream and day, counted before it begins, so
that it has at least these; a restore goes into a database without tables only, says what is missing of it,
and brings `calls` up to the events, since a batch may have been between the two tables when the backup was
taken. What came after it is not restored: the writer reads it from JetStream, where that still has it.

Not guaranteed: that a backup tells the truth. Whoever can write to its place can change it: verify what was
restored (audit.proof), and compare it with anchors kept elsewhere. Sealed payloads stay sealed in it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from audit.store.migrate import Layout

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""What a backup, a disk or a database may be called here: nothing that leaves a directory or a string."""
KEPT: Final = ("events", "payloads")

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS backups ${on_cluster}
(name String, taken_at DateTime64(3, 'UTC'), kept LowCardinality(String), js_stream LowCardinality(String),
    day Date, rows UInt64, last UInt64)
ENGINE = ${merge_tree} ORDER BY (name, taken_at, kept, js_stream, day)
"""
_NOTE: Final = """
INSERT INTO backups
SELECT {{name:String}}, fromUnixTimestamp64Milli({{now:Int64}}), '{table}', js_stream, toDate(js_time),
    count(), max(js_seq)
FROM {table} GROUP BY js_stream, toDate(js_time)
"""
_NOTED: Final = """
SELECT kept, js_stream, day, rows, last FROM backups
WHERE name = {name:String} AND taken_at = (SELECT max(taken_at) FROM backups WHERE name = {name:String})
ORDER BY kept, js_stream, day
"""
_HAS: Final = "SELECT js_stream, toDate(js_time), count() FROM {table} GROUP BY js_stream, toDate(js_time)"
_DAYS: Final = "SELECT DISTINCT toString(toDate(js_time)) FROM events ORDER BY 1"
_REBUILD: Final = """
SELECT as_select, currentDatabase() FROM system.tables
WHERE database = currentDatabase() AND name = 'calls_from_events'
"""


class BackupError(Exception):
    """The backup cannot be taken or put back so; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a backup lies: its name below the server's allowed path, or on one of the server's disks."""

    name: str
    disk: str = ""

    def __post_init__(self) -> None:
        for text in filter(None, (self.name or " ", self.disk)):
            if not NAME.fullmatch(text):
                raise BackupError(f"`{text}` is no name: letters, digits, `-` and `_`")

    def __str__(self) -> str:
        return f"Disk('{self.disk}', '{self.name}')" if self.disk else f"File('{self.name}')"


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table, stream and day; `last` is the greatest sequence among them."""

    table: str
    stream: str
    day: date
    rows: int
    last: int


def take(client: Any, layout: Layout, place: Place, *, now_ms: int) -> Sequence[Part]:
    """Back the database up and return what it holds. Raises what the client raises; a name is used once.

    The writer may go on meanwhile: what it adds may be in the backup or not, and comes again from JetStream.
    """
    client.command(layout.render(_TABLE))
    for table in KEPT:
        client.command(_NOTE.format(table=table), parameters={"name": place.name, "now": now_ms})
    client.command(backup_statement(_database(client), place, layout))
    return noted(client, place.name)


def noted(client: Any, name: str) -> Sequence[Part]:
    """Return what the newest backup of that name was to hold; empty for none."""
    if not client.command("EXISTS TABLE backups"):
        return ()
    found = client.query(_NOTED, parameters={"name": name}).result_rows
    return tuple(Part(str(t), str(s), day, int(rows), int(last)) for t, s, day, rows, last in found)


def make_database(client: Any, name: str, layout: Layout) -> None:
    """Make a database where it is not there yet. Raises BackupError on a name that is none."""
    if not NAME.fullmatch(name):
        raise BackupError(f"`{name}` is no database name")
    client.command(f"CREATE DATABASE IF NOT EXISTS `{name}`{_on(layout)}")


def backup_statement(database: str, place: Place, layout: Layout) -> str:
    """Return the statement that backs a database up, on a cluster every shard; names are checked before."""
    return f"BACKUP DATABASE `{database}`{_on(layout)} TO {place}"


def restore_statement(source: str, database: str, place: Place, layout: Layout) -> str:
    """Return the statement that puts a backup back; names are checked before.

    Tables are compared; the database itself may be of another engine than it was (`default`, Replicated).
    """
    settings = "SETTINGS allow_different_database_def = 1"
    return f"RESTORE DATABASE `{source}` AS `{database}`{_on(layout)} FROM {place} {settings}"


def _on(layout: Layout) -> str:
    return f" ON CLUSTER `{layout.cluster}`" if layout.cluster else ""


def restore(client: Any, layout: Layout, place: Place, *, source: str = "") -> None:
    """Put a backup into this database, which must have no tables; `source`: the database's name in it.

    Raises BackupError, and what the client raises. The schema is as it was: bring it forward, then `rebuild`.
    """
    found = client.query("SELECT count() FROM system.tables WHERE database = currentDatabase()").result_rows
    if int(found[0][0]):
        raise BackupError("this database has tables: restore into an empty one (LICET_CLICKHOUSE_DATABASE)")
    if source and not NAME.fullmatch(source):
        raise BackupError(f"`{source}` is no database name")
    database = _database(client)
    client.command(restore_statement(source or database, database, place, layout))


def rebuild(client: Any) -> int:
    """Bring `calls` up to the events, a day at a time; return how many days. Repeating it changes nothing."""
    select, database = client.query(_REBUILD).result_rows[0]
    days = [str(day) for (day,) in client.query(_DAYS).result_rows]
    for day in days:
        only = f"toDate(js_time) = \\'{date.fromisoformat(day)}\\'"
        settings = {
            "additional_table_filters": f"{{'{database}.events': '{only}'}}",
            "insert_deduplicate": "0",
        }
        client.command(f"INSERT INTO call_states {select}", settings=settings)
    return len(days)


def missing(client: Any, name: str, *, oldest: date) -> Sequence[str]:
    """Return what the store lacks of that backup, in words; days before `oldest` may have gone by retention.

    Raises BackupError where the store does not say what the backup was to hold.
    """
    wanted = noted(client, name)
    if not wanted:
        raise BackupError(f"the store has no note of a backup `{name}`: this is another one's content")
    has: dict[tuple[str, str, date], int] = {}
    for table in KEPT:
        for stream, day, rows in client.query(_HAS.format(table=table)).result_rows:
            has[table, str(stream), day] = int(rows)
    return tuple(
        f"{part.table}: {part.rows - found} rows of `{part.stream}` of {part.day}"
        for part in wanted
        if (found := has.get((part.table, part.stream, part.day), 0)) < part.rows and part.day >= oldest
    )


@dataclass(frozen=True, slots=True)
class Ahead:
    """What the writer finds of one stream when it goes on; `whole`: it can, and misses nothing."""

    whole: bool
    text: str


def ahead(client: Any, available: Mapping[str, tuple[int, int]]) -> Sequence[Ahead]:
    """Return by stream what the writer will read, or why it cannot; `available`: (first, last).

    A stream that begins after the store's end has lost what lies between. One that ends before the store does
    was restored or made anew itself: the writer refuses it, and the next generation is due.
    """
    said = []
    for table in KEPT:
        query = f"SELECT js_stream, max(js_seq) FROM {table} GROUP BY js_stream"  # noqa: S608 - constants
        for name, newest in client.query(query).result_rows:
            said.append(_ahead(str(name), int(newest), available.get(str(name), (0, 0))))
    return tuple(said)


def _ahead(stream: str, stored: int, available: tuple[int, int]) -> Ahead:
    first, last = available
    if last < stored:
        went_back = (
            f"`{stream}` ends at {last}, the store at {stored}: JetStream went back, the writer refuses"
        )
        return Ahead(False, went_back)
    if first > stored + 1:
        return Ahead(
            False, f"`{stream}` begins at {first}, the store ends at {stored}: what lies between is lost"
        )
    return Ahead(True, f"`{stream}`: {last - stored} messages to read")


def generation(client: Any) -> int:
    """Return the greatest generation that the store knows."""
    return int(client.query("SELECT max(generation) FROM events").result_rows[0][0])


def _database(client: Any) -> str:
    name = str(client.query("SELECT currentDatabase()").result_rows[0][0])
    if not NAME.fullmatch(name):
        raise BackupError(f"`{name}` is no database name")
    return name
