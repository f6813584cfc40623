"""`licet.v1.ApprovalService`: people see what waits for them and answer.

An answer counts by its signature over the hold's exact bytes, never by who brings it. It is stored once, its
event is acknowledged before the reply, and the hold is judged again at every use. One that does not count is
on record too. Each method needs an identity that the transport proved, and its quota; holds name orders and
people, so where desks are named a peer sees and answers those of its tenants alone, and others are not there
for it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from decider.approval.desks import Desks, may_see
from decider.approval.holds import Holds
from decider.approval.refused import ANSWERED, counted, refused_fields, tell_refused
from decider.approval.told import Teller
from decider.approval.votes import Bench, HoldState, Tally, bench_of, read_answer, read_hold, tally
from decider.in_force.configuration import Configuration
from decider.notices.announcer import Announcer
from decider.quota import HOLDS_A_TOKEN
from decider.reception import Reception
from decider.service import Context
from licet.flood import FloodRecord
from licet.hold import Vote
from licet.journal import Journal
from licet.refusal import Reason, Refusal
from licet.statement import canonical, strict_parse
from licet.v1 import approvals_pb2, approvals_pb2_grpc
from licet.v1.hold_pb2 import Approval, HoldRequirement
from licet.v1.statement_pb2 import Signed

STATES: Final = {state: approvals_pb2.HoldState.Value(f"HOLD_STATE_{state}") for state in HoldState}


class Approvals(approvals_pb2_grpc.ApprovalServiceServicer):
    """The three methods.

    `desks` says whom holds of which tenants are shown; `owe` takes of the quota that a caller gets later.
    """

    def __init__(
        self,
        holds: Holds,
        configuration: Configuration,
        journal: Journal,
        announcer: Announcer,
        *,
        reception: Reception,
        wall_ms: Callable[[], int],
        desks: Desks,
        owe: Callable[[str, int], None],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._reception, self._desks, self._owe = reception, desks, owe
        self._holds, self._configuration, self._wall_ms = holds, configuration, wall_ms
        self._teller = Teller(holds, journal, announcer)
        self._journal, self.flood = journal, FloodRecord(journal.append, counted, monotonic_ms)

    async def ListHolds(  # noqa: N802 - the name of the RPC
        self, request: approvals_pb2.ListHoldsRequest, context: Context
    ) -> approvals_pb2.ListHoldsResponse:
        """Return the holds, newest first."""
        listed = await self._reception.serve(
            context, request, lambda peer: self._all(peer, open_only=request.open_only)
        )
        shown = [one for one in listed if isinstance(one, Tally)]
        return approvals_pb2.ListHoldsResponse(
            holds=[status_of(one) for one in shown if not request.open_only or one.state is HoldState.OPEN]
        )

    async def _all(self, peer: str, *, open_only: bool) -> list[Tally | Refusal]:
        listed = [one for one in await self._holds.listed() if self._is_asked(one, peer, open_only=open_only)]
        self._owe(peer, len(listed) // HOLDS_A_TOKEN)
        return [await self._tally(stored, peer) for stored in listed]

    def _is_asked(self, stored: bytes, peer: str, *, open_only: bool) -> bool:
        """Tell whether a list needs a look at the answers to a hold: not past its end, for open ones."""
        now_ms = self._wall_ms()
        hold = read_hold(stored, now_ms)
        if isinstance(hold, Refusal) or not may_see(peer, hold.tenant, self._desks):
            return False
        return not open_only or now_ms < hold.expires_at_ms

    async def GetHold(  # noqa: N802 - the name of the RPC
        self, request: approvals_pb2.GetHoldRequest, context: Context
    ) -> approvals_pb2.GetHoldResponse:
        """Return one hold."""
        found = await self._reception.serve(context, request, lambda peer: self._one(request.hold_id, peer))
        return approvals_pb2.GetHoldResponse(hold=status_of(found))

    async def Answer(  # noqa: N802 - the name of the RPC
        self, request: approvals_pb2.AnswerRequest, context: Context
    ) -> approvals_pb2.AnswerResponse:
        """Store one person's answer."""
        after = await self._reception.serve(
            context, request, lambda peer: self._answer(request.approval, peer)
        )
        return approvals_pb2.AnswerResponse(hold=status_of(after))

    async def _one(self, hold_id: str, peer: str) -> Tally | Refusal:
        stored = await self._holds.find(hold_id)
        return await self._tally(stored, peer, hold_id) if stored is not None else _no_hold()

    async def _tally(self, stored: bytes, peer: str, hold_id: str | None = None) -> Tally | Refusal:
        in_force = self._configuration.current
        if in_force is None:
            return Refusal(Reason.BEACON_STALE, "no configuration is in force")
        bench = bench_of(in_force, self._wall_ms())
        first = tally(stored, (), bench, hold_id)
        if isinstance(first, Refusal):
            return first
        if not may_see(peer, first.hold.tenant, self._desks):
            return _no_hold()
        found = tally(stored, await self._holds.answers(first.hold), bench)
        if isinstance(found, Tally) and await self._waits_no_more(found, bench):
            return replace(found, state=HoldState.SUPERSEDED)
        return found

    async def _waits_no_more(self, found: Tally, bench: Bench) -> bool:
        """Tell whether nobody needs to answer, though it ended in none of the ways that a hold has."""
        if found.state not in {HoldState.OPEN, HoldState.LIFTED}:
            return False
        if await self._holds.is_superseded(found.hold):
            return True
        asks = found.state is HoldState.OPEN
        return asks and await self._holds.is_executed(found.hold, bench.keys, bench.now_ms)

    async def _answer(self, signed: Signed, peer: str) -> Tally | Refusal:
        in_force = self._configuration.current
        if in_force is None:
            return Refusal(Reason.BEACON_STALE, "no configuration is in force")
        named = strict_parse(Approval, signed.payload)  # to find the hold; verified against it below
        before = await self._one(named.hold_id, peer) if isinstance(named, Approval) else _no_hold()
        if isinstance(before, Refusal):
            return before
        stored = canonical(before.hold)  # its one encoding, byte for byte
        vote = await self._stored(before, stored, signed, bench_of(in_force, self._wall_ms()))
        if isinstance(vote, Refusal):
            fields = refused_fields(before.hold, signed.key_id, in_force.keys, vote, peer)
            await tell_refused(self.flood, self._journal.append, fields, vote)
            return vote if vote.reason in _ENDED.values() else Refusal(Reason.APPROVAL_INVALID, vote.detail)
        after = await self._tally(stored, peer)
        await self._teller.tell(vote, after)
        return after

    async def _stored(self, before: Tally, stored: bytes, signed: Signed, bench: Bench) -> Vote | Refusal:
        """Store an answer that counts, or return why it does not."""
        if before.state in _ENDED:
            return Refusal(_ENDED[before.state])
        vote = read_answer(stored, signed, bench)
        if isinstance(vote, Vote) and not await self._holds.answer(
            before.hold, vote.approval.approver, signed
        ):
            return Refusal(Reason.APPROVAL_INVALID, ANSWERED)
        return vote


_ENDED: Final = {
    HoldState.REJECTED: Reason.HOLD_REJECTED,
    HoldState.EXPIRED: Reason.HOLD_EXPIRED,
    HoldState.EDITED: Reason.HOLD_EDITED,
}


def _no_hold() -> Refusal:
    return Refusal(Reason.APPROVAL_INVALID, "no such hold")


def status_of(found: Tally) -> approvals_pb2.HoldStatus:
    """Return how a hold stands, as it goes over the wire."""
    return approvals_pb2.HoldStatus(
        hold=canonical(found.hold),
        state=STATES[found.state],
        missing=[
            HoldRequirement(rule_id=need.rule_id, role=need.role, quorum=need.quorum)
            for need in found.missing
        ],
        approvals=found.answers,
        approvers=found.approvers,
    )
