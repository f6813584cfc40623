"""What the guard needs of a database: one Protocol that SQLite and PostgreSQL both keep.

A ledger's transaction is the tool's own: spend row, change, outbox and result are committed together or not
at all. Rows are written once; the triggers of `sqlite.sql` and `postgres.sql` see to that for every writer,
not only for us.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Protocol

PERMIT_ISSUER = "permit"
"""Issuer of a spend row that a permit stands behind."""

BEFORE_ISSUER = "before-licet"
"""Issuer of the ledger rows that were there before the guard."""

MAX_ENTRIES = 1000
"""Ledger rows of one spend."""

MAX_RESULT_BYTES = 1 << 20
"""Size of a reply that is kept for a repeat."""

MAX_OUTBOX_LIMIT = 1000
"""Changes in one answer of the outbox."""


class LedgerUnavailable(Exception):  # noqa: N818 - a state of the database, not a fault of the caller
    """The database could not be used; nothing was committed."""


class CommitUnknown(Exception):  # noqa: N818 - as above
    """Nobody knows what was committed, only a fence can tell.

    The connection was lost while committing, or the transaction had ended before its commit.
    """


class State(StrEnum):
    """What a spend row says of its round."""

    EXEC = "EXEC"
    VOID = "VOID"


@dataclass(frozen=True, slots=True)
class SpendRow:
    """The tool's own proof of what became of one round of one step.

    `entries`: ledger rows that belong to it. `call_digest`: of the request that was executed, empty for VOID
    and for an issuer that is not `permit`. `decided_at_us`: Unix µs by the database's clock.
    """

    spend_id: str
    round: int
    state: State
    entries: int = 0
    call_digest: bytes = b""
    attempt: str = ""
    decision_id: str = ""
    issuer: str = PERMIT_ISSUER
    decided_at_us: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """What one ledger row says, for the outbox.

    `number` counts from 1 within the step; amounts are minor units, signed.
    """

    number: int
    change_id: str
    resource: str
    tenant: str
    account: str
    amount_minor: int
    currency: str


@dataclass(frozen=True, slots=True)
class Change:
    """An entry with the spend row that it belongs to and its place in the outbox, gapless from 1."""

    outbox_seq: int
    entry: Entry
    spend: SpendRow
    committed_at_us: int
    trace_id: str
    span_id: str


class Rows(Protocol):
    """What a statement gives back: the part of a DB-API cursor that both drivers share."""

    @property
    def rowcount(self) -> int:
        """Rows that the statement changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...


class Transaction(Protocol):
    """One open transaction of the tool. Every method may raise the driver's own errors."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement of the tool, in the driver's own parameter style.

        Raises CommitUnknown, and runs nothing, once the transaction has ended: each further statement would
        be a transaction of its own, and stay.
        """
        ...

    def now_us(self) -> int:
        """Return the database's clock at this moment (not at the start of the transaction), Unix µs."""
        ...

    def exec_row(self, spend_id: str) -> SpendRow | None:
        """Return the EXEC row of a step, whatever its round."""
        ...

    def row(self, spend_id: str, round: int) -> SpendRow | None:
        """Return the row of one round."""
        ...

    def insert(self, row: SpendRow) -> bool:
        """Insert a spend row; False, and nothing changed, when one is in its way.

        Waits for an open transaction that inserted one; a read after it sees what that one committed.
        """
        ...

    def result(self, spend_id: str) -> bytes | None:
        """Return the stored reply of an executed step."""
        ...

    def insert_result(self, spend_id: str, result: bytes) -> None:
        """Store the reply of an executed step."""
        ...

    def ledger_entries(self, spend_id: str) -> tuple[int, ...]:
        """Return the entry numbers that the ledger holds for a step, ascending."""
        ...

    def append(self, spend_id: str, entries: Iterable[Entry], trace_id: str, span_id: str) -> None:
        """Append entries to the outbox. Last statement before the commit: here transactions queue up."""
        ...


class Ledger(Protocol):
    """A tool's database. Safe to use from several threads at once."""

    def install(self) -> None:
        """Make the guard's tables and triggers; changes nothing where they are."""
        ...

    def protect(self, ledger: str, spend_column: str, entry_column: str) -> None:
        """Make `ledger` the table whose rows need a spend: unique entries, append-only.

        Rows that are there already become the entries of one spend whose issuer is `before-licet`.
        """
        ...

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that commits at its end and rolls back on any exception.

        Raises LedgerUnavailable when nothing was committed for sure, CommitUnknown when nobody knows.
        """
        ...

    def outbox(self, acked: int, limit: int) -> tuple[Change, ...]:
        """Move the cursor forward to `acked` and return at most `limit` changes after it, in order.

        A number that was never given out moves nothing: a relay that knows more than the ledger met a ledger
        that was restored, and must see it.
        """
        ...

    def close(self) -> None:
        """Close the connections that are idle."""
        ...


def before_spend_id(ledger: str) -> str:
    """Return the spend id of the rows that stood in a ledger before the guard came."""
    return sha256(b"licet-before-v1\0" + ledger.encode()).hexdigest()[:32]


def back_office_spend_id(issuer: str, reference: str) -> str:
    """Return the spend id of a write without a permit: one effect for each issuer and reference."""
    name = issuer.encode()
    material = b"licet-back-office-v1\0" + len(name).to_bytes(4, "big") + name + reference.encode()
    return sha256(material).hexdigest()[:32]


def spend_row(found: Sequence[Any] | None) -> SpendRow | None:
    """Return the spend row that a database row spells, columns in the order of SpendRow; None for none."""
    if found is None:
        return None
    spend_id, round_, state, *rest = found
    return SpendRow(spend_id, round_, State(state), *rest)


def change_of(found: Sequence[Any]) -> Change:
    """Return the change that a row of the outbox query spells.

    Columns: number, entry, commit, trace, then those of the spend row.
    """
    seq, number, change_id, resource, tenant, account, amount, currency, committed, trace_id, span_id = found[
        :11
    ]
    entry = Entry(number, change_id, resource, tenant, account, amount, currency)
    spend = spend_row(found[11:])
    assert spend is not None
    return Change(seq, entry, spend, committed, trace_id, span_id)
