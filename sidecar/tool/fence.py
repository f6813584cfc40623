"""The fence: an open round is closed for good, on behalf of the reconciler, by the guard's own transaction.

Guaranteed: what is written as outcome is what the guard answered, never what this process thinks. EXECUTED
is written for the round that was asked about also when another round of the step was executed: this one can
have no effect any more, and must not lead to a new round. Not guaranteed: that the guard can answer yet;
before the permit's end and its grace it refuses, and the reconciler asks again.
"""

from collections.abc import Callable, Mapping
from typing import Final

from grpc import aio

from licet.permit import DoorState, verify_permit
from licet.refusal import Reason, Refusal
from licet.spend import SpendRecord, read_spend_record
from licet.statement import strict_parse
from licet.v1 import guard_pb2, spend_pb2
from licet.v1.decision_pb2 import Decision
from sidecar.parts import Clock, Fenced, FenceOutcomes
from sidecar.status import licet_reason
from sidecar.tool.guard_link import GuardLink

OUTCOMES: Final[Mapping[int, spend_pb2.Outcome.ValueType]] = {
    guard_pb2.FENCE_STATE_EXECUTED: spend_pb2.OUTCOME_EXECUTED,
    guard_pb2.FENCE_STATE_VOIDED: spend_pb2.OUTCOME_VOIDED,
}

_REASONS: Final[Mapping[str, Reason]] = {reason.value: reason for reason in Reason}


class Fence:
    """Closes rounds.

    Args:
        guard: The tool's guard.
        spend: Where outcome records go.
        state: What the door knows.
        clock: Time.
    """

    def __init__(
        self,
        guard: GuardLink,
        spend: FenceOutcomes,
        state: Callable[[], DoorState | None],
        clock: Clock,
    ) -> None:
        self._guard = guard
        self._spend = spend
        self._state = state
        self._clock = clock

    async def fence(self, body: bytes) -> Fenced | Refusal:
        """Ask the guard about one reserve, and spool the outcome record its answer leads to."""
        state = self._state()
        if state is None:
            return Refusal(Reason.BEACON_STALE, detail="no beacon yet, so no keys")
        request = strict_parse(guard_pb2.FenceRequest, body)
        if isinstance(request, Refusal):
            return Refusal(Reason.ARGUMENTS_MALFORMED, detail=f"fence request: {request.detail}")
        found = self._reserve(request, state)
        if isinstance(found, Refusal):
            return found
        record, decision = found
        try:
            answer = await self._guard.fence(request)
        except aio.AioRpcError as error:
            return _refused(error)
        outcome = OUTCOMES.get(answer.state)
        if outcome is None or answer.spend_id != decision.spend_id:
            return Refusal(Reason.OUTCOME_UNKNOWN, detail="the guard's answer is about something else")
        raw = answer.SerializeToString(deterministic=True)
        self._spend.fenced(decision, attempt=record.attempt, outcome=outcome, answer=raw)
        return Fenced(
            answer=raw,
            spend_id=decision.spend_id,
            round=decision.round,
            decision_id=decision.decision_id,
            outcome=spend_pb2.Outcome.Name(outcome).removeprefix("OUTCOME_"),
        )

    def _reserve(
        self, request: guard_pb2.FenceRequest, state: DoorState
    ) -> tuple[SpendRecord, Decision] | Refusal:
        """Return the reserve and the decision it spent, both verified; the permit may well have ended."""
        record = read_spend_record(
            request.reserve, state.keys, environment=state.environment, now_ms=self._clock.now_ms()
        )
        if isinstance(record, Refusal):
            return record
        if record.reserve is None or record.audience != state.audience:
            return Refusal(Reason.AUDIENCE_MISMATCH, detail="no reserve of this tool")
        decision = verify_permit(record.reserve.permit, state.keys, now_ms=self._clock.now_ms())
        if isinstance(decision, Refusal):
            return decision
        if decision.audience != state.audience:
            return Refusal(Reason.AUDIENCE_MISMATCH, detail="the permit is of another tool")
        return record, decision


def _refused(error: aio.AioRpcError) -> Refusal:
    found = [value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"]
    name = licet_reason(found[0]) if len(found) == 1 and isinstance(found[0], bytes) else ""
    reason = _REASONS.get(name, Reason.TOOL_UNREACHABLE)
    return Refusal(reason, detail=f"guard: {error.code().name}")
