"""What a tool's own code sees of the step that it executes."""

from collections.abc import Mapping, Sequence
from typing import Any

from licet.guard.ledger import Entry, Rows, Transaction
from licet.refusal import Reason, Refusal
from licet.v1.decision_pb2 import Precondition
from licet.v1.statement_pb2 import Scalar

Fact = int | str | bool | bytes
"""A value of the tool's that a precondition can be compared with. No floats: they never decide."""


class Refused(Exception):  # noqa: N818 - carries a refusal out of the tool's code, past the rollback
    """Ends the transaction with a refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class Spend:
    """One step inside the tool's transaction. Made by the guard; of use only until the tool's code returns.

    Lock the rows you rely on, `check` them, change them, and `entry` each ledger row you write. Everything
    run by `execute` is committed together with the proof of it, or not at all.
    """

    __slots__ = ("_checked", "_entries", "_preconditions", "_resource", "_tenant", "_transaction", "spend_id")

    def __init__(
        self,
        transaction: Transaction,
        *,
        spend_id: str,
        tenant: str,
        resource: str,
        preconditions: Sequence[Precondition] = (),
    ) -> None:
        self.spend_id = spend_id
        """32 lower hex digits: the step's one effect. Goes into each ledger row."""
        self._transaction = transaction
        self._tenant = tenant
        self._resource = resource
        self._preconditions = preconditions
        self._checked = False
        self._entries: list[Entry] = []

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement in the transaction; parameters in the driver's own style, `?` or `%s`.

        Statements that end a transaction (COMMIT, ROLLBACK) are not yours to send: nothing runs after one,
        and the outcome is unknown; what was committed stays.
        """
        return self._transaction.execute(statement, parameters)

    def check(self, *, tenant: str, facts: Mapping[str, Fact]) -> None:
        """Compare locked rows with what was decided on.

        Leaves your code with PRECONDITION_FAILED if they differ.
        `tenant` is the row's own. Every precondition of the permit must be among `facts` and equal in type
        and value; a precondition that you do not name refuses, because it was somebody's reason to allow the
        call. Lock first (SELECT … FOR UPDATE in PostgreSQL; SQLite's transaction holds the write lock): an
        unlocked row may change between check and commit.
        """
        if tenant != self._tenant:
            raise Refused(Refusal(Reason.PRECONDITION_FAILED, "the row is of another tenant"))
        for precondition in self._preconditions:
            if not _meets(precondition.expect, facts.get(precondition.check)):
                what = f"`{precondition.check}` is not what was decided on"
                raise Refused(Refusal(Reason.PRECONDITION_FAILED, what))
        self._checked = True

    def entry(self, *, account: str, amount_minor: int, currency: str, change_id: str = "") -> int:
        """Announce one ledger row for the outbox and return its number, from 1, which goes into the row.

        Entry 1 is the change that was decided on, signed as the ledger sees it: a refund of 50.00 is -5000.
        Amounts are minor units. `change_id` is your id of the row; by default `<spend_id>/<number>`.
        """
        self._require_check()
        number = len(self._entries) + 1
        self._entries.append(
            Entry(
                number=number,
                change_id=change_id or f"{self.spend_id}/{number}",
                resource=self._resource,
                tenant=self._tenant,
                account=account,
                amount_minor=amount_minor,
                currency=currency,
            )
        )
        return number

    def finished(self, entries: int) -> tuple[Entry, ...]:
        """Return what was announced, for the guard.

        Raises RuntimeError when the tool's code broke its contract.
        The ledger must hold exactly the entries 1 to `entries`: an unused number would let a row be added
        later.
        """
        self._require_check()
        announced = tuple(range(1, len(self._entries) + 1))
        expected = tuple(range(1, entries + 1))
        if announced != expected:
            raise RuntimeError(f"{len(announced)} entries were announced, {entries} were promised")
        if entries and self._transaction.ledger_entries(self.spend_id) != expected:
            raise RuntimeError("the ledger does not hold the entries that were announced")
        return tuple(self._entries)

    def _require_check(self) -> None:
        if not self._checked:
            raise RuntimeError("call `check` before you change anything")


def _meets(expect: Scalar, fact: Fact | None) -> bool:
    """Whether a fact equals a precondition's value, in type too: True is not 1."""
    kind = expect.WhichOneof("value")
    if kind is None or fact is None:
        return False
    wanted: Fact = getattr(expect, kind)
    if isinstance(wanted, bool) or isinstance(fact, bool):
        return isinstance(wanted, bool) and isinstance(fact, bool) and wanted == fact
    return any(isinstance(wanted, t) and isinstance(fact, t) for t in (int, str, bytes)) and wanted == fact
