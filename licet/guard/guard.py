"""The last lock: a guarded call runs inside the ledger's transaction, or not at all.

Guarantees, for every method that is executed through a Guard:
- at most one effect per step, whatever the spend store lost: one EXEC row per spend id, in the ledger's
transaction;
- the permit's signature, its scope, its arguments, its time by the database's clock and what the newest
beacon says
  are checked again inside that transaction, after every wait for a lock and once more before the commit;
- so a call is before a revocation or a new bundle exactly if its transaction checked before the guard took
that beacon;
- a refusal leaves nothing behind.

Not guaranteed: anything about effects outside this database (mail, webhooks), or about writers who may drop
triggers. The checks are those of the door (licet.permit), by the same numbers; 7 is left out: the tool's
socket has one peer.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from licet.clock import elapsed_ms, wall_ms
from licet.guard.ledger import (
    BEFORE_ISSUER,
    MAX_ENTRIES,
    MAX_RESULT_BYTES,
    PERMIT_ISSUER,
    Ledger,
    SpendRow,
    State,
    Transaction,
    back_office_spend_id,
)
from licet.guard.standing import Anchor, Standing, advance
from licet.guard.step import Refused, Spend
from licet.identity import subject_token
from licet.permit import CHECKS, Presented, step_of
from licet.permit.case import Case
from licet.refusal import Reason, Refusal
from licet.v1.decision_pb2 import Decision
from licet.v1.guard_pb2 import BeaconRequest
from licet.v1.statement_pb2 import Signed

ReplyT = TypeVar("ReplyT", bound=Message)

CALLER_CHECK: Final = 7
TIME_CHECK: Final = 8
CURRENT_CHECKS: Final = frozenset({8, 9, 11})
"""What may change while a transaction waits: time, beacon and revocations, the life of approvals."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it came over the tool's socket. Trace ids are W3C's, empty without a trace."""

    presented: Presented
    attempt: str
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True)
class Done(Generic[ReplyT]):
    """The reply of a step that was executed: now, or before (`stored`: then nothing was written)."""

    reply: ReplyT
    stored: bool
    spend_id: str
    change_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Effect(Generic[ReplyT]):
    """What a call is to do in the tool: the change, the type of its reply, how many ledger rows it writes."""

    change: Callable[[Spend], ReplyT]
    reply_type: type[ReplyT]
    entries: int


class Guard:
    """Runs a tool's changes under their permits. Safe to use from several threads at once.

    `install` and `protect` of the ledger must have run before.
    """

    def __init__(self, ledger: Ledger, anchor: Anchor) -> None:
        self.ledger = ledger
        self.anchor = anchor
        self._lock = threading.Lock()
        self._standing: Standing | None = None

    @property
    def standing(self) -> Standing | None:
        """What the guard holds to be current; None before the first beacon."""
        return self._standing

    def take_beacon(self, request: BeaconRequest) -> Standing | Refusal:
        """Take a beacon with what it points at, or say why not; what was held stays."""
        with self._lock:
            new = advance(self.anchor, self._standing, request, now_ms=wall_ms(), monotonic_ms=elapsed_ms())
            if not isinstance(new, Refusal):
                self._standing = new
            return new

    def execute(self, call: Call, effect: Effect[ReplyT]) -> Done[ReplyT] | Refusal:
        """Run the change in one transaction with its proof, or return why not.

        It gets the step's Spend, and must write exactly `entries` ledger rows. It does not run when the
        step was executed before: the same call then gets the stored reply. It may run and be rolled back.

        Raises whatever the change raises, LedgerUnavailable (nothing happened) and CommitUnknown (a fence can
        tell).
        """
        case = self._examine(call, None)
        if isinstance(case, Refusal):
            return case
        if not case.permit().spends or not 0 <= effect.entries <= MAX_ENTRIES:
            return Refusal(Reason.INTERNAL, f"`{call.presented.path}` is no method that spends")
        try:
            with self.ledger.transaction() as transaction:
                return self._run(transaction, call, case, effect)
        except Refused as refused:
            return refused.refusal

    def executed(self, call: Call) -> bool:
        """Whether the step that a refused call names was executed before; a permit that is none names none.

        Nothing is verified: the answer only decides whether the guard may say that there was no effect.
        Raises LedgerUnavailable.
        """
        spend_id = _claimed_spend_id(call.presented)
        if not spend_id:
            return False
        with self.ledger.transaction() as transaction:
            return transaction.exec_row(spend_id) is not None

    def back_office(
        self,
        issuer: str,
        reference: str,
        change: Callable[[Spend], None],
        *,
        tenant: str,
        resource: str,
        entries: int,
    ) -> bool:
        """Write to the ledger without a permit, as the service `issuer` (a job, a settlement run).

        One effect for each issuer and reference, for ever: False, and nothing done, when it was done before.
        The outbox names the issuer, so the reconciler knows that no decision stands behind it. Never call it
        for an agent.

        Raises ValueError for a name that is none or reserved, and whatever `change` raises.
        """
        if subject_token(issuer) in {PERMIT_ISSUER, BEFORE_ISSUER}:
            raise ValueError(f"`{issuer}` is reserved: name the service that writes")
        row = SpendRow(back_office_spend_id(issuer, reference), 0, State.EXEC, entries, issuer=issuer)
        with self.ledger.transaction() as transaction:
            if not transaction.insert(row):
                return False
            spend = Spend(transaction, spend_id=row.spend_id, tenant=tenant, resource=resource)
            change(spend)
            transaction.append(row.spend_id, spend.finished(entries), "", "")
        return True

    def _run(
        self,
        transaction: Transaction,
        call: Call,
        case: Case,
        effect: Effect[ReplyT],
    ) -> Done[ReplyT]:
        permit, decision = case.permit(), case.decision
        row = SpendRow(
            spend_id=permit.spend_id,
            round=permit.round,
            state=State.EXEC,
            entries=effect.entries,
            call_digest=permit.call_digest,
            attempt=call.attempt,
            decision_id=decision.decision_id,
        )
        inserted = transaction.insert(row)
        case = self._confirm(transaction, call, case)  # may have waited for another transaction
        if not inserted:
            reply = effect.reply_type.FromString(_stored(transaction, row))
            return Done(reply, stored=True, spend_id=row.spend_id)
        spend = Spend(
            transaction,
            spend_id=row.spend_id,
            tenant=decision.tenant,
            resource=decision.resource,
            preconditions=tuple(decision.preconditions),
        )
        reply = effect.change(spend)
        written = spend.finished(effect.entries)
        transaction.insert_result(row.spend_id, _kept(reply))
        transaction.append(row.spend_id, written, call.trace_id, call.span_id)
        self._confirm(transaction, call, case)  # the tool's own locks may have waited too
        changes = tuple(entry.change_id for entry in written)
        return Done(reply, stored=False, spend_id=row.spend_id, change_ids=changes)

    def _examine(self, call: Call, now_ms: int | None) -> Case | Refusal:
        """Run the checks under what is current. Without `now_ms` the time is left to the database's clock."""
        standing = self._standing
        if standing is None:
            return Refusal(Reason.BEACON_STALE, "no beacon yet")
        case = Case(call.presented, standing.door, wall_ms() if now_ms is None else now_ms, elapsed_ms())
        skipped = {CALLER_CHECK, TIME_CHECK} if now_ms is None else {CALLER_CHECK}
        for check in CHECKS:
            refusal = None if step_of(check) in skipped else check(case)
            if refusal is not None:
                return refusal
        return case

    def _confirm(self, transaction: Transaction, call: Call, case: Case) -> Case:
        """Check once more, by the database's clock and the newest beacon; raises Refused."""
        now_ms = transaction.now_us() // 1000
        standing = self._standing
        if standing is None or standing.door is not case.door:
            again = self._examine(call, now_ms)
            if isinstance(again, Refusal):
                raise Refused(again)
            return again
        case.now_ms, case.monotonic_ms = now_ms, elapsed_ms()
        for check in CHECKS:
            refusal = check(case) if step_of(check) in CURRENT_CHECKS else None
            if refusal is not None:
                raise Refused(refusal)
        return case


def _kept(reply: Message) -> bytes:
    """Return a reply as it is kept for a repeat; raises RuntimeError for one that cannot be."""
    if not reply.IsInitialized():  # upb ends the process when it serialises such a message beside a map
        raise RuntimeError("the reply lacks a required field")
    result: bytes = reply.SerializeToString(deterministic=True)
    if len(result) > MAX_RESULT_BYTES:
        raise RuntimeError(f"a reply of {len(result)} bytes cannot be kept: {MAX_RESULT_BYTES} at most")
    return result


def _stored(transaction: Transaction, row: SpendRow) -> bytes:
    """Return the reply of the step as it was executed before; raises Refused when it was not this call."""
    executed = transaction.exec_row(row.spend_id)
    if executed is None:
        raise Refused(Refusal(Reason.SPEND_VOIDED, f"round {row.round} of `{row.spend_id}` is void"))
    result = transaction.result(row.spend_id)
    if executed.call_digest != row.call_digest or result is None:
        raise Refused(Refusal(Reason.SPENT, f"`{row.spend_id}` was executed in round {executed.round}"))
    return result


def _claimed_spend_id(presented: Presented) -> str:
    if len(presented.permits) != 1:
        return ""
    try:
        return Decision.FromString(Signed.FromString(presented.permits[0]).payload).spend_id
    except DecodeError:
        return ""
