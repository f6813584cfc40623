"""The guard on SQLite 3.37 or later.

Guarantees what `Ledger` asks for on connections as SQLite opens them: the triggers rely on no foreign key and
on no pragma. A transaction is BEGIN IMMEDIATE, so it holds the one write lock from its first statement on.
Journal mode and `synchronous` are the database owner's choice: below FULL a power cut may lose the last
commits, and a spend with them.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from licet.guard.idle import Idle
from licet.guard.ledger import (
    Change,
    CommitUnknown,
    Entry,
    LedgerUnavailable,
    Rows,
    SpendRow,
    State,
    before_spend_id,
    change_of,
    spend_row,
)

LOCK_WAIT_S: Final = 5.0
"""How long a transaction waits for the write lock where nobody says otherwise."""

_NOW_US: Final = "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000"
_EXEC_ROW: Final = """
  SELECT spend_id, round, state, entries, call_digest, attempt, decision_id, issuer, decided_at_us
  FROM main.licet_spend WHERE spend_id = ? AND state = 'EXEC'
"""
_ROW: Final = """
  SELECT spend_id, round, state, entries, call_digest, attempt, decision_id, issuer, decided_at_us
  FROM main.licet_spend WHERE spend_id = ? AND round = ?
"""
_INSERT: Final = """
  INSERT INTO main.licet_spend
    (spend_id, round, state, entries, call_digest, attempt, decision_id, issuer, decided_at_us)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_APPEND: Final = """
  INSERT INTO main.licet_outbox
    (outbox_seq, spend_id, entry, change_id, resource, tenant, account, amount_minor, currency,
     committed_at_us, trace_id, span_id)
  SELECT last + 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM main.licet_outbox_head
"""
_ACKED: Final = "SELECT acked FROM main.licet_outbox_head"
_ACK: Final = "UPDATE main.licet_outbox_head SET acked = ?1 WHERE acked < ?1 AND ?1 <= last"
_OUTBOX: Final = """
  SELECT o.outbox_seq, o.entry, o.change_id, o.resource, o.tenant, o.account, o.amount_minor, o.currency,
    o.committed_at_us, o.trace_id, o.span_id,
    s.spend_id, s.round, s.state, s.entries, s.call_digest, s.attempt, s.decision_id, s.issuer,
    s.decided_at_us
  FROM main.licet_outbox AS o JOIN main.licet_spend AS s ON s.spend_id = o.spend_id AND s.state = 'EXEC'
  WHERE o.outbox_seq > (SELECT acked FROM main.licet_outbox_head) ORDER BY o.outbox_seq LIMIT ?
"""
_INSERT_TRIGGER: Final = (
    "SELECT sql FROM main.sqlite_master WHERE type = 'trigger' AND name = 'licet_ledger_insert'"
)
_TRIGGER_BEGINS: Final = "CREATE TRIGGER licet_ledger_insert"
_TRIGGER_ENDS: Final = "CREATE TRIGGER licet_ledger_update"


class SqliteTransaction:
    """One BEGIN IMMEDIATE transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement; parameters are `?`. A statement that failed may have ended the transaction."""
        if not self._connection.in_transaction:
            raise CommitUnknown("the transaction has ended already")
        return self._connection.execute(statement, parameters)

    def now_us(self) -> int:
        """Return SQLite's clock, exact to 1 ms, Unix µs."""
        now: int = self._connection.execute(_NOW_US).fetchone()[0]
        return now

    def exec_row(self, spend_id: str) -> SpendRow | None:
        """Return the EXEC row of a step, whatever its round."""
        return spend_row(self._connection.execute(_EXEC_ROW, (spend_id,)).fetchone())

    def row(self, spend_id: str, round: int) -> SpendRow | None:
        """Return the row of one round."""
        return spend_row(self._connection.execute(_ROW, (spend_id, round)).fetchone())

    def insert(self, row: SpendRow) -> bool:
        """Insert a spend row unless one is in its way; the write lock is held, so looking first is enough."""
        if self.row(row.spend_id, row.round) is not None:
            return False
        if row.state is State.EXEC and self.exec_row(row.spend_id) is not None:
            return False
        self._connection.execute(
            _INSERT,
            (
                row.spend_id,
                row.round,
                row.state,
                row.entries,
                row.call_digest,
                row.attempt,
                row.decision_id,
                row.issuer,
                self.now_us(),
            ),
        )
        return True

    def result(self, spend_id: str) -> bytes | None:
        """Return the stored reply of an executed step."""
        query = "SELECT result FROM main.licet_result WHERE spend_id = ?"
        found = self._connection.execute(query, (spend_id,)).fetchone()
        return None if found is None else bytes(found[0])

    def insert_result(self, spend_id: str, result: bytes) -> None:
        """Store the reply of an executed step."""
        self._connection.execute(
            "INSERT INTO main.licet_result (spend_id, result) VALUES (?, ?)", (spend_id, result)
        )

    def ledger_entries(self, spend_id: str) -> tuple[int, ...]:
        """Return the entry numbers that the ledger holds for a step.

        Raises LookupError when no table is protected.
        """
        names = _ledger_names(self._connection)
        if names is None:
            raise LookupError("no table is protected as the ledger: call `protect` once")
        ledger, spend, entry = map(_quoted, names)
        query = f"SELECT {entry} FROM main.{ledger} WHERE {spend} = ? ORDER BY {entry}"  # noqa: S608 - quoted names
        return tuple(number for (number,) in self._connection.execute(query, (spend_id,)))

    def append(self, spend_id: str, entries: Iterable[Entry], trace_id: str, span_id: str) -> None:
        """Append entries to the outbox."""
        now_us = self.now_us()
        self._connection.executemany(
            _APPEND,
            [
                (
                    spend_id,
                    entry.number,
                    entry.change_id,
                    entry.resource,
                    entry.tenant,
                    entry.account,
                    entry.amount_minor,
                    entry.currency,
                    now_us,
                    trace_id,
                    span_id,
                )
                for entry in entries
            ],
        )


class SqliteLedger:
    """A tool's SQLite database, by its path. Connections are opened as needed and kept.

    Args:
        path: The file.
        lock_wait_s: How long a transaction waits for the write lock until the ledger counts as unavailable.
    """

    def __init__(self, path: Path | str, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self._path = str(path)
        self._lock_wait_s = lock_wait_s
        self._idle = Idle(self._connect, lambda connection: not connection.in_transaction)

    def install(self) -> None:
        """Make the guard's tables and triggers; changes nothing where they are. Raises LedgerUnavailable."""
        self._script(files("licet.guard").joinpath("sqlite.sql").read_text())

    def protect(self, ledger: str, spend_column: str, entry_column: str) -> None:
        """Make `ledger` the table whose rows need a spend: unique entries, append-only.

        Adds the two columns (TEXT, INTEGER) where they are missing. Rows that are there already become the
        numbered entries of one spend whose issuer is `before-licet`. Calling it again with the same names
        makes the insert trigger anew where the table has other unique indexes than before, or where an
        earlier version of licet made it, and changes nothing else. Call it at each start.

        Raises ValueError for a table that is missing, WITHOUT ROWID, has a column called `rowid` or an index
        over an expression (the guard could not tell which row an INSERT OR REPLACE would remove), when one of
        the columns is of another kind or holds values already, and when another ledger is protected.
        """
        names = (ledger, spend_column, entry_column)
        with self._idle.borrow() as connection:
            protected = _ledger_names(connection)
            if protected not in {None, names}:
                raise ValueError(f"`{protected[0]}` is the ledger of this database already; there can be one")
            missing = [] if protected else _missing_columns(connection, *names)
            script = _ledger_script(*names, taken=_taken(connection, *names))
            found = connection.execute(_INSERT_TRIGGER).fetchone()
        if protected is None:
            self._script("".join(missing) + script)
            return
        trigger = script[script.index(_TRIGGER_BEGINS) : script.index(_TRIGGER_ENDS)].strip()
        if found is None or f"{found[0]};" != trigger:
            self._script(f"DROP TRIGGER IF EXISTS main.licet_ledger_insert;\n{trigger}")

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        """Open a BEGIN IMMEDIATE transaction; see `Ledger.transaction`."""
        with self._idle.borrow() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                raise LedgerUnavailable(str(error)) from error
            try:
                yield SqliteTransaction(connection)
            except Exception as error:
                if not connection.in_transaction:  # ended by the tool's code, or by an error of SQLite
                    raise CommitUnknown("the transaction had ended before its commit") from error
                _roll_back(connection)
                raise
            except BaseException:
                _roll_back(connection)
                raise
            _commit(connection)

    def outbox(self, acked: int, limit: int) -> tuple[Change, ...]:
        """Move the cursor forward to `acked` and return at most `limit` changes after it."""
        with self._idle.borrow() as connection:
            try:
                if acked > connection.execute(_ACKED).fetchone()[0]:
                    connection.execute(_ACK, (acked,))
                found = connection.execute(_OUTBOX, (limit,)).fetchall()
            except sqlite3.OperationalError as error:
                raise LedgerUnavailable(str(error)) from error
        return tuple(change_of(row) for row in found)

    def close(self) -> None:
        """Close the connections that are idle."""
        self._idle.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            return sqlite3.connect(
                self._path, timeout=self._lock_wait_s, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise LedgerUnavailable(str(error)) from error

    def _script(self, script: str) -> None:
        with self._idle.borrow() as connection:
            try:
                connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nCOMMIT;")
            except sqlite3.OperationalError as error:
                _roll_back(connection)
                raise LedgerUnavailable(str(error)) from error
            except sqlite3.Error:
                _roll_back(connection)
                raise


def _ledger_script(ledger: str, spend: str, entry: str, *, taken: str) -> str:
    names = (ledger, spend, entry)
    quoted = dict(zip(("ledger", "spend", "entry"), map(_quoted, names), strict=True))
    texts = dict(zip(("ledger_text", "spend_text", "entry_text"), map(_text, names), strict=True))
    template = files("licet.guard").joinpath("sqlite_ledger.sql").read_text()
    return template.format(**quoted, **texts, taken=taken, before=_text(before_spend_id(ledger)))


def _affinity(declared: str) -> str:
    """Return the first of the words by which SQLite gives a column its kind; empty for none."""
    return next((word for word in ("INT", "CHAR", "CLOB", "TEXT") if word in declared), "")


def _missing_columns(connection: sqlite3.Connection, ledger: str, spend: str, entry: str) -> list[str]:
    query = "SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?"
    kind = connection.execute(query, (ledger,)).fetchone()
    if kind is None or kind[0] != "table":
        raise ValueError(f"`{ledger}` is no table of this database")
    if kind[1]:
        raise ValueError(f"`{ledger}` is WITHOUT ROWID: the guard cannot number its rows")
    found = connection.execute("SELECT name, type FROM pragma_table_info(?, 'main')", (ledger,)).fetchall()
    columns = {name: declared.upper() for name, declared in found}
    if any(name.lower() == "rowid" for name in columns):
        raise ValueError(f"`{ledger}` has a column called `rowid`: the guard cannot tell its rows apart")
    for column, kinds in ((spend, ("CHAR", "CLOB", "TEXT")), (entry, ("INT",))):
        # by SQLite's rule of affinity: in a column of text, `1` and `01` would be two entries
        declared = columns.get(column)
        if declared is not None and _affinity(declared) not in kinds:
            raise ValueError(f"`{column}` of `{ledger}` is no column of {kinds[-1]}")
    for column in {spend, entry} & columns.keys():
        query = f"SELECT 1 FROM {_quoted(ledger)} WHERE {_quoted(column)} IS NOT NULL"  # noqa: S608 - quoted names
        if connection.execute(query).fetchone() is not None:
            raise ValueError(f"`{column}` of `{ledger}` is filled already: name a column of the guard's own")
    return [
        f"ALTER TABLE {_quoted(ledger)} ADD COLUMN {_quoted(column)} {kind};\n"
        for column, kind in ((spend, "TEXT"), (entry, "INTEGER"))
        if column not in columns
    ]


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        _roll_back(connection)
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:  # nothing was written yet
            raise LedgerUnavailable(str(error)) from error
        raise CommitUnknown(str(error)) from error


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _ledger_names(connection: sqlite3.Connection) -> tuple[str, str, str] | None:
    found = connection.execute("SELECT ledger, spend_column, entry_column FROM main.licet_ledger").fetchone()
    return None if found is None else (found[0], found[1], found[2])


def _taken(connection: sqlite3.Connection, ledger: str, spend: str, entry: str) -> str:
    """Return the condition under which a NEW row collides with an old one.

    INSERT OR REPLACE removes such a row and fires no DELETE trigger unless `recursive_triggers` is on.
    """
    collisions = ["old.rowid = NEW.rowid", _same(((spend, "BINARY"), (entry, "BINARY")))]
    query = (
        """SELECT name FROM pragma_index_list(?, 'main') WHERE "unique" AND name <> 'licet_ledger_entry'"""
    )
    indexes = connection.execute(query, (ledger,)).fetchall()
    for (index,) in indexes:
        query = "SELECT name, coll FROM pragma_index_xinfo(?, 'main') WHERE key"
        columns = connection.execute(query, (index,)).fetchall()
        if any(name is None for name, _ in columns):
            raise ValueError(f"`{ledger}` has the unique index `{index}` over an expression: drop it first")
        collisions.append(_same(columns))
    either = " OR ".join(f"({collision})" for collision in collisions)
    return f"EXISTS (SELECT 1 FROM {_quoted(ledger)} AS old WHERE {either})"  # noqa: S608 - quoted names


def _same(columns: Iterable[tuple[str, str]]) -> str:
    """Return the condition that NEW equals an old row in these columns, each by its collation."""
    return " AND ".join(
        f"old.{_quoted(name)} = NEW.{_quoted(name)} COLLATE {collation}" for name, collation in columns
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
