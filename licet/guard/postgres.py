"""The guard on PostgreSQL 14 or later, by psycopg 3 (extra `guard-postgres`).

Guarantees what `Ledger` asks for at READ COMMITTED, the server's default: an insert that meets an open
transaction's row waits for it, and the next statement sees what it committed. Expiry is read from
`clock_timestamp()`: `now()` stands still from the first statement on. The guard's tables are named with their
schema, so that nothing a change leaves in its session, a search_path or a temporary table, comes in their
place. `synchronous_commit` and replication are the database owner's choice: with it off, a crash may lose the
last commits, and a spend with them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from licet.guard.idle import Idle
from licet.guard.ledger import (
    Change,
    CommitUnknown,
    Entry,
    LedgerUnavailable,
    Rows,
    SpendRow,
    before_spend_id,
    change_of,
    spend_row,
)

_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_current_xact_id()::text"
_COMMIT: Final = "SELECT pg_current_xact_id()::text; COMMIT"
_BECAME_OF: Final = "SELECT pg_xact_status(%s::xid8)"
_SCHEMA: Final = """
  SELECT coalesce(
    (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('licet_spend')),
    quote_ident(current_schema())
  )
"""
_ENDED: Final = "the transaction had ended before its commit"
_NOW_US: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000::numeric)::bigint"
_ROW_COLUMNS: Final = """
  SELECT spend_id, round, state, entries, call_digest, attempt, decision_id, issuer, decided_at_us
  FROM {0}.licet_spend"""
_EXEC_ROW: Final = _ROW_COLUMNS + " WHERE spend_id = %s AND state = 'EXEC'"
_ROW: Final = _ROW_COLUMNS + " WHERE spend_id = %s AND round = %s"
_INSERT: Final = """
  INSERT INTO {0}.licet_spend
    (spend_id, round, state, entries, call_digest, attempt, decision_id, issuer, decided_at_us)
  VALUES (%s, %s, %s, %s, %s, %s, %s, %s, (extract(epoch FROM clock_timestamp()) * 1000000::numeric)::bigint)
  ON CONFLICT DO NOTHING
"""
_RESULT: Final = "SELECT result FROM {0}.licet_result WHERE spend_id = %s"
_INSERT_RESULT: Final = "INSERT INTO {0}.licet_result (spend_id, result) VALUES (%s, %s)"
_LEDGER: Final = "SELECT ledger, spend_column, entry_column FROM {0}.licet_ledger"
_ENTRIES: Final = "SELECT {3} FROM {0}.{1} WHERE {2} = %s ORDER BY {3}"
_APPEND: Final = """
  INSERT INTO {0}.licet_outbox
    (spend_id, entry, change_id, resource, tenant, account, amount_minor, currency, trace_id, span_id)
  VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_ACK: Final = "UPDATE {0}.licet_outbox_head SET acked = %s WHERE acked < %s AND %s <= last"
_OUTBOX: Final = """
  SELECT o.outbox_seq, o.entry, o.change_id, o.resource, o.tenant, o.account, o.amount_minor, o.currency,
    o.committed_at_us, o.trace_id, o.span_id,
    s.spend_id, s.round, s.state, s.entries, s.call_digest, s.attempt, s.decision_id, s.issuer,
    s.decided_at_us
  FROM {0}.licet_outbox AS o JOIN {0}.licet_spend AS s ON s.spend_id = o.spend_id AND s.state = 'EXEC'
  WHERE o.outbox_seq > (SELECT acked FROM {0}.licet_outbox_head) ORDER BY o.outbox_seq LIMIT %s
"""


class _Named:
    """The guard's statements, with the schema that its tables are in."""

    __slots__ = ("_made", "schema")

    def __init__(self, schema: str) -> None:
        self.schema = schema.replace("%", "%%")  # no place for a parameter
        self._made: dict[str, str] = {}

    def __call__(self, statement: str) -> str:
        made = self._made.get(statement)
        if made is None:
            made = self._made[statement] = statement.replace("{0}", self.schema)
        return made


class PostgresTransaction:
    """One READ COMMITTED transaction."""

    __slots__ = ("_connection", "_named")

    def __init__(self, connection: psycopg.Connection[Any], named: _Named) -> None:
        self._connection, self._named = connection, named

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement; parameters are `%s`."""
        if _is_idle(self._connection):
            raise CommitUnknown("the transaction has ended already")
        return self._connection.execute(statement, parameters)

    def now_us(self) -> int:
        """Return `clock_timestamp()`, Unix µs."""
        now: int = self._one(_NOW_US)[0]
        return now

    def exec_row(self, spend_id: str) -> SpendRow | None:
        """Return the EXEC row of a step, whatever its round."""
        return spend_row(self._one(_EXEC_ROW, spend_id))

    def row(self, spend_id: str, round: int) -> SpendRow | None:
        """Return the row of one round."""
        return spend_row(self._one(_ROW, spend_id, round))

    def insert(self, row: SpendRow) -> bool:
        """Insert a spend row unless one is in its way, waiting for open transactions that hold one."""
        done = self.execute(
            self._named(_INSERT),
            (
                row.spend_id,
                row.round,
                row.state,
                row.entries,
                row.call_digest,
                row.attempt,
                row.decision_id,
                row.issuer,
            ),
        )
        return done.rowcount == 1

    def result(self, spend_id: str) -> bytes | None:
        """Return the stored reply of an executed step."""
        found = self._one(_RESULT, spend_id)
        return None if found is None else bytes(found[0])

    def insert_result(self, spend_id: str, result: bytes) -> None:
        """Store the reply of an executed step."""
        self.execute(self._named(_INSERT_RESULT), (spend_id, result))

    def ledger_entries(self, spend_id: str) -> tuple[int, ...]:
        """Return the entry numbers that the ledger holds for a step.

        Raises LookupError when no table is protected.
        """
        names = self._one(_LEDGER)
        if names is None:
            raise LookupError("no table is protected as the ledger: call `protect` once")
        columns = map(sql.Identifier, names)
        query = sql.SQL(_ENTRIES).format(sql.SQL(self._named.schema), *columns)
        return tuple(number for (number,) in self._connection.execute(query, (spend_id,)))

    def append(self, spend_id: str, entries: Iterable[Entry], trace_id: str, span_id: str) -> None:
        """Append entries to the outbox; waits until transactions that appended before have ended."""
        for entry in entries:
            self.execute(
                self._named(_APPEND),
                (
                    spend_id,
                    entry.number,
                    entry.change_id,
                    entry.resource,
                    entry.tenant,
                    entry.account,
                    entry.amount_minor,
                    entry.currency,
                    trace_id,
                    span_id,
                ),
            )

    def _one(self, statement: str, *parameters: Any) -> Any:
        return self._connection.execute(self._named(statement), parameters).fetchone()


class PostgresLedger:
    """A tool's PostgreSQL database.

    Connections are opened as needed and kept; one that broke is left for a new one.
    `connect` returns a new connection on each call, such as `lambda: psycopg.connect(dsn)`.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect_new = connect
        self._idle = Idle(self._connect, _is_idle)
        self._names: _Named | None = None

    def install(self) -> None:
        """Make the guard's tables and triggers in the current schema; changes nothing where they are."""
        with self._idle.borrow() as connection, connection.transaction():
            connection.execute(_file("postgres.sql"))

    def protect(self, ledger: str, spend_column: str, entry_column: str) -> None:
        """Make `ledger` the table whose rows need a spend: unique entries, append-only.

        Adds the two columns (text, integer) where they are missing. Rows that are there already become the
        numbered entries of one spend whose issuer is `before-licet`; the table is locked meanwhile. Calling
        it again with the same names changes nothing. Raises ValueError when the table is missing, has
        children or is one, when one of the columns is of another kind or holds values already, and when
        another ledger is protected.
        """
        names = (ledger, spend_column, entry_column)
        with self._idle.borrow() as connection, connection.transaction():
            found = connection.execute(
                "SELECT ledger, spend_column, entry_column FROM licet_ledger"
            ).fetchone()
            if found == names:
                return
            if found is not None:
                raise ValueError(f"`{found[0]}` is the ledger of this schema already; there can be one")
            _require_plain_table(connection, ledger)
            table = sql.Identifier(ledger)
            for column, kind in ((spend_column, "text"), (entry_column, "integer")):
                name = sql.Identifier(column)
                connection.execute(
                    sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}").format(
                        table, name, sql.SQL(kind)
                    )
                )
                _require_kind(connection, ledger, column, kind)
                filled = sql.SQL("SELECT 1 FROM {} WHERE {} IS NOT NULL LIMIT 1").format(table, name)
                if connection.execute(filled).fetchone() is not None:
                    raise ValueError(
                        f"`{column}` of `{ledger}` is filled already: name a column of the guard's own"
                    )
            connection.execute(
                sql.SQL(_file("postgres_ledger.sql").decode()).format(
                    **dict(zip(("ledger", "spend", "entry"), map(sql.Identifier, names), strict=True)),
                    **dict(
                        zip(("ledger_text", "spend_text", "entry_text"), map(sql.Literal, names), strict=True)
                    ),
                    before=sql.Literal(before_spend_id(ledger)),
                )
            )

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Open a READ COMMITTED transaction; see `Ledger.transaction`."""
        with self._idle.borrow() as connection:
            try:
                begun = connection.execute(_BEGIN).set_result(-1).fetchone()
                named = self._named(connection)
            except psycopg.OperationalError as error:
                raise LedgerUnavailable(_kind(error)) from error
            try:
                yield PostgresTransaction(connection, named)
            except Exception as error:
                if _is_idle(connection):  # ended by the tool's code
                    raise CommitUnknown(_ENDED) from error
                _roll_back(connection)
                if _was_committed(connection, begun):
                    raise CommitUnknown(_ENDED) from error
                if isinstance(error, psycopg.OperationalError):  # lost the server, a deadlock, a lock timeout
                    raise LedgerUnavailable(_kind(error)) from error
                raise
            except BaseException:
                _roll_back(connection)
                raise
            _commit(connection, begun)

    def outbox(self, acked: int, limit: int) -> tuple[Change, ...]:
        """Move the cursor forward to `acked` and return at most `limit` changes after it."""
        with self._idle.borrow() as connection:
            try:
                named = self._named(connection)
                connection.execute(named(_ACK), (acked, acked, acked))
                found = connection.execute(named(_OUTBOX), (limit,)).fetchall()
            except psycopg.OperationalError as error:
                raise LedgerUnavailable(_kind(error)) from error
        return tuple(change_of(row) for row in found)

    def close(self) -> None:
        """Close the connections that are idle."""
        self._idle.close()

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            connection = self._connect_new()
        except psycopg.Error as error:
            raise LedgerUnavailable(_kind(error)) from error
        connection.autocommit = True  # transactions are begun and ended here, by name
        return connection

    def _named(self, connection: psycopg.Connection[Any]) -> _Named:
        """Ask once, on the first connection: no change has been in its session yet."""
        if self._names is None:
            found = connection.execute(_SCHEMA).fetchone()
            assert found is not None, "one row"
            self._names = _Named(found[0])
        return self._names


def _kind(error: psycopg.Error) -> str:
    """Return what may be logged of an error: its text quotes rows, and a DSN that cannot be read."""
    return f"{type(error).__name__} {error.sqlstate or ''}".strip()


def _is_idle(connection: psycopg.Connection[Any]) -> bool:
    return connection.info.transaction_status is TransactionStatus.IDLE


def _roll_back(connection: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.Error):  # the server rolls back what it lost the connection of
        connection.execute("ROLLBACK")


def _was_committed(connection: psycopg.Connection[Any], begun: Any) -> bool:
    """Whether the transaction that we began was committed, by COMMIT AND CHAIN or `COMMIT; BEGIN`."""
    try:
        found = connection.execute(_BECAME_OF, begun).fetchone()
    except psycopg.Error:  # the server is lost: nobody claims anything
        return False
    return found is not None and found[0] == "committed"


def _commit(connection: psycopg.Connection[Any], begun: Any) -> None:
    if _is_idle(connection):  # PostgreSQL answers a COMMIT of nothing with a warning only
        raise CommitUnknown(_ENDED)
    try:
        done = connection.execute(_COMMIT)
        ended = done.fetchone()
        done.set_result(-1)
    except psycopg.OperationalError as error:
        _roll_back(connection)
        raise CommitUnknown(_kind(error)) from error
    except psycopg.Error as error:  # a deferred constraint
        _roll_back(connection)
        raise LedgerUnavailable(_kind(error)) from error
    if done.statusmessage != "COMMIT":  # an aborted transaction answers COMMIT with ROLLBACK and no error
        raise LedgerUnavailable("the transaction was aborted before its commit")
    if ended != begun:  # the tool's code ended ours, and began this one
        raise CommitUnknown(_ENDED)


def _file(name: str) -> bytes:
    return files("licet.guard").joinpath(name).read_bytes()


_KINDS: Final = {"text": ("text", "varchar"), "integer": ("int2", "int4", "int8")}


def _require_kind(connection: psycopg.Connection[Any], ledger: str, column: str, kind: str) -> None:
    """In a column of text, `1` and `01` would be two entries."""
    found = connection.execute(
        "SELECT udt_name::text FROM information_schema.columns"
        " WHERE table_schema = current_schema() AND table_name = %s AND column_name = %s",
        (ledger, column),
    ).fetchone()
    if found is None or found[0] not in _KINDS[kind]:
        raise ValueError(f"`{column}` of `{ledger}` is no column of {kind}")


def _require_plain_table(connection: psycopg.Connection[Any], ledger: str) -> None:
    """Triggers of a parent say nothing of rows that are written to its children directly."""
    found = connection.execute(
        "SELECT relkind, relhassubclass OR EXISTS (SELECT 1 FROM pg_inherits WHERE inhrelid = c.oid)"
        " FROM pg_class AS c"
        " WHERE relname = %s AND relnamespace = current_schema()::regnamespace",
        (ledger,),
    ).fetchone()
    if found is None or found[0] not in {"r", b"r"}:
        raise ValueError(f"`{ledger}` is no plain table of the current schema")
    if found[1]:
        raise ValueError(f"`{ledger}` is part of an inheritance tree: rows of its parts would go unseen")
