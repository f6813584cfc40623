"""A second look at a tool's ledger, past the tool: read-only, by a statement its owner wrote.

Guarantees: SQLite is opened read-only whatever the DSN says, PostgreSQL in a read-only transaction; values
are passed as parameters; a row that does not have the columns of COLUMNS raises. Not guaranteed: that the
DSN leads to the ledger the tool really writes; whoever sets it says so.

The file (TOML), one table a tool:
    [finance]
    dsn = "file:/var/lib/finance/ledger.db"     # or postgresql://…; the password in a pgpass file
    sql = "SELECT rowid AS cursor, … FROM ledger"
"""

import json
import logging
import os
import sqlite3
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from audit.judging.findings import Change
from licet.log import log

LOG: Final = logging.getLogger(__name__)

COLUMNS: Final = (
    "cursor",
    "spend_id",
    "entry",
    "change_id",
    "tenant",
    "resource",
    "account",
    "amount_minor",
    "currency",
)
"""What the statement must select, by name. `cursor` grows with each row; an orphan has no `spend_id`."""
MAX_ROWS: Final = 1000


class LedgerReaderError(Exception):
    """The readers' file or a ledger cannot be read; the message names the tool."""


@dataclass(frozen=True, slots=True)
class LedgerReader:
    """Reads one tool's ledger. Calls block."""

    tool: str
    dsn: str
    sql: str

    def of_step(self, spend_id: str) -> tuple[Change, ...]:
        """Return the rows of one step. Raises LedgerReaderError."""
        rows = self._query(
            f"SELECT * FROM ({self.sql}) AS ledger WHERE spend_id = :one",  # noqa: S608 - the owner's own statement
            {"one": spend_id},
        )
        found = []
        for row in rows:
            change = self._read(row)
            if isinstance(change, LedgerReaderError):
                raise change
            found.append(change)
        return tuple(found)

    def after(self, cursor: int) -> tuple[tuple[int, Change | LedgerReaderError], ...]:
        """Return up to MAX_ROWS rows past `cursor`, in order, each with its own. Raises LedgerReaderError.

        A row whose values are none of a ledger stands as an error in its place: it hides no other row.
        """
        rows = self._query(
            f"SELECT * FROM ({self.sql}) AS ledger WHERE cursor > :one ORDER BY cursor LIMIT {MAX_ROWS}",  # noqa: S608 - the owner's own statement
            {"one": cursor},
        )
        return tuple((self._cursor(row), self._read(row)) for row in rows)

    def newest(self) -> int:
        """Return the cursor of the newest row, 0 where there is none. Raises LedgerReaderError."""
        sql = f"SELECT coalesce(max(cursor), 0) AS newest FROM ({self.sql}) AS ledger"  # noqa: S608 - as above
        return int(self._run(sql, {})[0]["newest"])

    def _cursor(self, row: Mapping[str, Any]) -> int:
        try:
            return int(row["cursor"])
        except (TypeError, ValueError, OverflowError) as error:
            raise LedgerReaderError(f"the statement of `{self.tool}`: a cursor is a whole number") from error

    def _read(self, row: Mapping[str, Any]) -> "Change | LedgerReaderError":
        try:
            return self._change(row)
        except (TypeError, ValueError, OverflowError) as error:
            return LedgerReaderError(f"row {str(row['cursor'])[:40]} of `{self.tool}`: {error}")

    def _change(self, row: Mapping[str, Any]) -> Change:
        return Change(
            spend_id=str(row["spend_id"] or ""),
            decision_id="",
            tenant=str(row["tenant"]),
            tool=self.tool,
            resource=str(row["resource"]),
            entry=int(row["entry"] or 0),
            change_id=str(row["change_id"]),
            account=str(row["account"]),
            amount_minor=int(row["amount_minor"]),
            currency=str(row["currency"]),
            time_us=0,
        )

    def _run(self, sql: str, values: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
        try:
            return self._sqlite(sql, values) if self.dsn.startswith("file:") else self._postgres(sql, values)
        except Exception as error:  # a driver's own tree; all of them mean the same here
            raise LedgerReaderError(f"the ledger of `{self.tool}` cannot be read: {error}") from error

    def _query(self, sql: str, values: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
        rows = self._run(sql, values)
        for row in rows:
            missing = [name for name in COLUMNS if name not in row]
            if missing:
                raise LedgerReaderError(f"the statement of `{self.tool}` must select `{missing[0]}`")
        return rows

    def _sqlite(self, sql: str, values: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
        path, _, options = self.dsn.partition("?")
        wanted = {**dict(parse_qsl(options)), "mode": "ro"}
        with closing(sqlite3.connect(f"{path}?{urlencode(wanted)}", uri=True, timeout=5)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, dict(values))]

    def _postgres(self, sql: str, values: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            connection.read_only = True
            return connection.execute(sql.replace(":one", "%(one)s").encode(), dict(values)).fetchall()


def read_file(path: Path) -> dict[str, LedgerReader]:
    """Return the readers that a file names, by tool. Raises LedgerReaderError."""
    try:
        source = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise LedgerReaderError(f"`{path}` cannot be read: {error}") from error
    readers = {}
    for tool, table in source.items():
        if not isinstance(table, dict) or set(table) != {"dsn", "sql"}:
            raise LedgerReaderError(f"`{path}`: `{tool}` must have exactly `dsn` and `sql`")
        if not str(table["dsn"]).startswith(("file:", "postgresql:")):
            raise LedgerReaderError(f"`{path}`: `{tool}`: a dsn begins with file: or postgresql:")
        readers[tool] = LedgerReader(tool, str(table["dsn"]), str(table["sql"]))
    return readers


class LedgerCursors:
    """From where each ledger is to be read, kept in a file. One seen for the first time starts at its end.

    What was in a ledger before licet came is nobody's step; it must not page anybody. But a file that is gone
    or damaged must hide no row: then ledgers that the store knows are read again from their first row.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved: dict[str, int] = {}

    def load(
        self, readers: Mapping[str, LedgerReader], known: Callable[[], Iterable[str]] = tuple
    ) -> dict[str, int]:
        """Return a cursor for each reader; `known`: the tools whose ledger rows the store has.

        Raises LedgerReaderError; what `known` raises.
        """
        try:
            kept = json.loads(self._path.read_text("ascii"))
            self._saved = {str(tool): int(cursor) for tool, cursor in kept.items()}
            again: frozenset[str] = frozenset()
        except FileNotFoundError:
            self._saved, again = {}, frozenset(known())
        except (ValueError, AttributeError, TypeError, OverflowError):
            self._saved, again = {}, frozenset(readers)
        for tool, reader in readers.items():
            if tool in again:
                log(
                    LOG,
                    logging.ERROR,
                    "ledger_cursor.lost",
                    tool=tool,
                    detail="read again from the first row",
                )
                self._saved[tool] = 0
            elif tool not in self._saved:
                self._saved[tool] = reader.newest()
        self._write(self._saved)
        return dict(self._saved)

    def save(self, cursors: Mapping[str, int]) -> None:
        """Keep the cursors, if they moved; afterwards they survive a loss of power."""
        if dict(cursors) != self._saved:
            self._write(dict(cursors))

    def _write(self, cursors: dict[str, int]) -> None:
        partial = self._path.with_suffix(".partial")
        with partial.open("w", encoding="ascii") as file:
            file.write(json.dumps(cursors))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        self._saved = cursors


def read_labels(path: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """Read a file of labels: `[[label]]` with task_id, call_id, rule_ids. Raises LedgerReaderError."""
    try:
        source = tomllib.loads(path.read_text("utf-8"))
        return {
            (str(label["task_id"]), str(label["call_id"])): tuple(str(rule) for rule in label["rule_ids"])
            for label in source["label"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LedgerReaderError(f"`{path}` is no label file: {error!r}") from error
