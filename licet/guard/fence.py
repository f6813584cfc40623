"""The fence: makes sure that a round can never be executed any more, or says that its step was.

Whoever asks needs no right on the ledger. A round is voided only after its permit has ended for every clock,
so no late request can come after the answer; an EXEC row of any round of the step is answered instead.
"""

from dataclasses import dataclass
from typing import Final

from licet.guard.ledger import Ledger, SpendRow, State, Transaction
from licet.guard.standing import Standing
from licet.permit import verify_permit
from licet.refusal import Reason, Refusal
from licet.spend import read_spend_record
from licet.v1.decision_pb2 import Decision
from licet.v1.statement_pb2 import Signed

AFTER_END_MS: Final = 5_000
"""How long after its permit's end a round may be voided; in ms, by the database's clock."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """What is so for good: `row` is the step's EXEC row, or the VOID row of the round."""

    row: SpendRow


def fence(ledger: Ledger, standing: Standing, reserve: Signed, *, now_ms: int) -> Fenced | Refusal:
    """Close the round of a signed reserve, or say that its step was executed.

    NOT_YET_VALID when the permit has not ended for 5 s: ask again later. Other refusals say what is wrong
    with the record: it must be a reserve, signed by a sidecar of this tool, around a permit for this tool
    that a decider signed (by keys that held when it was reserved). Raises LedgerUnavailable, or
    CommitUnknown: then ask again.
    """
    decision = _reserved(standing, reserve, now_ms)
    if isinstance(decision, Refusal):
        return decision
    with ledger.transaction() as transaction:
        return _close(transaction, decision)


def _close(transaction: Transaction, decision: Decision) -> Fenced | Refusal:
    early = decision.not_after_ms + AFTER_END_MS - transaction.now_us() // 1000
    if early > 0:
        return Refusal(Reason.NOT_YET_VALID, f"the round may be voided in {early} ms")
    void = SpendRow(decision.spend_id, decision.round, State.VOID)
    executed = transaction.exec_row(decision.spend_id)
    if executed is None:
        transaction.insert(
            void
        )  # waits for an open EXEC of this round; the reads below see what it committed
        executed = transaction.exec_row(decision.spend_id)
    row = executed or transaction.row(decision.spend_id, decision.round)
    if row is None:
        raise LookupError(f"spend `{decision.spend_id}` has neither an EXEC nor a VOID row after its fence")
    return Fenced(row)


def _reserved(standing: Standing, reserve: Signed, now_ms: int) -> Decision | Refusal:
    """Return the decision in a reserve that one of this tool's sidecars signed."""
    door = standing.door
    record = read_spend_record(reserve, door.keys, environment=door.environment, now_ms=now_ms)
    if isinstance(record, Refusal):
        return record
    if record.reserve is None:
        return Refusal(Reason.PERMIT_MALFORMED, "an outcome where a reserve belongs")
    decision = verify_permit(record.reserve.permit, door.keys, now_ms=record.at_ms)
    if isinstance(decision, Refusal):
        return decision
    if not record.audience == decision.audience == door.audience:
        return Refusal(
            Reason.AUDIENCE_MISMATCH, f"a reserve of `{record.audience}` for `{decision.audience}`"
        )
    if decision.environment != door.environment:
        return Refusal(Reason.ENVIRONMENT_MISMATCH, f"for environment `{decision.environment}`")
    return decision
