"""Schema migrations: numbered SQL files, forward only, checksummed, for one server and for a cluster.

Guarantees: files are applied in order, each once, statement by statement; every statement can be repeated, so
a run that died midway is run again; a file that changed after it was applied, or a store that is newer than
this program, stops everything. Two runs at once do the same and record it once. Not here: going back.

One source, two renderings: on a cluster tables are Replicated and statements run ON CLUSTER.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any, Final

FILE_NAME: Final = re.compile(r"(\d{4})_([a-z_]+)\.sql")
PAYLOAD_DAYS: Final = 30
"""Days that sealed payloads are kept, unless the settings say otherwise."""
RETENTION_DAYS: Final = 400
"""Days that rows are kept, by JetStream time, unless the settings say otherwise."""
MAX_RETENTION_DAYS: Final = 10_000
"""ClickHouse reckons TTL in seconds that end in 2106; a later end wraps around and drops rows at once."""
_PATH: Final = "/clickhouse/tables/{shard}/{database}/{table}"

_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS migrations ${on_cluster}
(number UInt32, name String, checksum String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3))
ENGINE = ${merge_tree} ORDER BY number SETTINGS ${deduplication_window} = 1000
"""


class MigrationError(Exception):
    """The store's schema and this program do not fit; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its number, its name, its text as written."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, lower hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the tables go: one server (`cluster` empty), or a cluster by name; how long rows stay."""

    cluster: str = ""
    retention_days: int = RETENTION_DAYS
    payload_days: int = PAYLOAD_DAYS

    def __post_init__(self) -> None:
        if self.cluster and not re.fullmatch(r"[A-Za-z0-9_-]+", self.cluster):
            raise ValueError(f"`{self.cluster}` is no cluster name")
        if not 1 <= self.retention_days <= MAX_RETENTION_DAYS:
            raise ValueError(f"retention must be 1 to {MAX_RETENTION_DAYS} days")
        if not 1 <= self.payload_days <= MAX_RETENTION_DAYS:
            raise ValueError(f"payloads must be kept for 1 to {MAX_RETENTION_DAYS} days")

    def render(self, text: str, **more: str) -> str:
        """Return `text` with engines, ON CLUSTER and retention filled in; no payload outlives its event."""
        replicated = f"('{_PATH}', '{{replica}}')" if self.cluster else ""
        prefix = "Replicated" if self.cluster else ""
        return Template(text).substitute(
            on_cluster=f"ON CLUSTER `{self.cluster}`" if self.cluster else "",
            merge_tree=f"{prefix}MergeTree{replicated}",
            aggregating_merge_tree=f"{prefix}AggregatingMergeTree{replicated}",
            deduplication_window=f"{'' if self.cluster else 'non_'}replicated_deduplication_window",
            retention_days=str(self.retention_days),
            payload_days=str(min(self.payload_days, self.retention_days)),
            **more,
        )


def shipped() -> tuple[Migration, ...]:
    """Return the migrations of this program, in order; raises MigrationError when a number is missing."""
    found = []
    for file in files("audit").joinpath("migrations").iterdir():
        match = FILE_NAME.fullmatch(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text()))
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise MigrationError("the migration files are not numbered 1, 2, 3 …: reinstall licet")
    return tuple(found)


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a file; one ends with `;` at a line's end."""
    for part in re.split(r";[ \t]*\n", text + "\n"):
        if re.sub(r"--[^\n]*", "", part).strip():
            yield part.strip()


def role_statements(layout: Layout, database: str) -> tuple[str, ...]:
    """Return the statements that make roles and row policies. Raises ValueError on a name that is none."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", database):
        raise ValueError(f"`{database}` is no database name")
    text = files("audit").joinpath("roles.sql").read_text()
    return tuple(statements(layout.render(text, database=database)))


def pending(applied: Sequence[tuple[int, str]], known: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return what is left to apply, given (number, checksum) of what was; raises MigrationError."""
    by_number = {migration.number: migration for migration in known}
    for number, checksum in applied:
        migration = by_number.get(number)
        if migration is None:
            raise MigrationError(
                f"the store has migration {number}, which this licet does not know: upgrade licet"
            )
        if migration.checksum != checksum:
            raise MigrationError(f"migration {number} was changed after it was applied: restore the file")
    done = {number for number, _ in applied}
    if done != set(range(1, len(done) + 1)):
        raise MigrationError("the store has migrations out of order: restore it from a backup")
    return tuple(migration for migration in known if migration.number not in done)


def migrate(client: Any, layout: Layout) -> Iterator[Migration]:
    """Apply what is left over a clickhouse-connect client, yielding each migration once it is applied."""
    client.command(layout.render(_LEDGER))
    for migration in pending(applied(client), shipped()):
        for statement in statements(layout.render(migration.text)):
            client.command(statement)
        client.insert(
            "migrations",
            [[migration.number, migration.name, migration.checksum]],
            column_names=["number", "name", "checksum"],
            settings={"insert_deduplication_token": f"migration-{migration.number}"},
        )
        yield migration


def applied(client: Any) -> tuple[tuple[int, str], ...]:
    """Return (number, checksum) of what the store has; nothing where it has no such table yet."""
    if not client.command("EXISTS TABLE migrations"):
        return ()
    rows = client.query("SELECT DISTINCT number, checksum FROM migrations ORDER BY number").result_rows
    return tuple((int(number), str(checksum)) for number, checksum in rows)


def check(client: Any) -> None:
    """Raise MigrationError unless the store is exactly at this program's schema."""
    missing = pending(applied(client), shipped())
    if missing:
        raise MigrationError(f"the store lacks migration {missing[0].number}: run `licet audit migrate`")
