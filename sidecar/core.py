"""The door: the one way to the tool, and the order of its checks.

Guaranteed
- Checks run in the order of docs/protocol.md: 1 quota and size, 2 path, 3 to 11 the permit and what it binds,
  12 spend, 13 forward, 14 outcome.
- The tool is called from one line, which needs a `Permit`, and a `Permit` is only made by verification.
- Each call ends in exactly one door event, in the spool before the reply leaves. Floods are bounded: calls
  over their caller's quota, and refusals while half the spool waits, are counted in one event a second.
- Whatever goes wrong unexpectedly denies. Once bytes may have left, the answer is OUTCOME_UNKNOWN instead:
  nobody may be told that nothing happened.
- From the spend on, a call runs to its end whether its caller waits or not.

Not guaranteed: that a forwarded call had an effect, or had none, when the tool gave no proof (UNKNOWN).

This module knows no transport: no gRPC, no sockets, no NATS.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from licet.event import EventKind, uuid7
from licet.flood import FloodRecord
from licet.intake import bucket_of
from licet.log import log, of_trace
from licet.metadata import APPROVAL, CALL_ID, PERMIT
from licet.permit import DoorState, Permit, Presented, examine, still_holds
from licet.refusal import Reason, Refusal
from licet.tier import CallClass
from licet.tracing import Tracing
from sidecar.admission import Admission, Place
from sidecar.exchange import Answered, Pairs, Refused, Reply, Request, ToolAnswer, sized
from sidecar.mask import masked
from sidecar.outcome import Outcome, outcome_of
from sidecar.parts import (
    Beacons,
    Clock,
    Decider,
    Denied,
    Fenced,
    Fences,
    Forward,
    Journal,
    Meter,
    Spend,
    Tool,
)
from sidecar.quota import Quota
from sidecar.record import Record, door_event, flood_event
from sidecar.status import CODES
from sidecar.trace import DoorTrace

LOG: Final = logging.getLogger(__name__)

FENCE_PATH: Final = "/licet.v1.GuardService/Fence"
"""The only method that passes without a permit, and for the reconciler alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long the door waits.

    Attributes:
        beacon_wait_ms: For a beacon that a newer permit was decided under: one beacon and its way.
        tool_timeout_ms: For the tool, when the call is shielded from its caller's deadline.
    """

    beacon_wait_ms: int = 1_200
    tool_timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the door stands on; each a Protocol of `sidecar.parts`."""

    clock: Clock
    quota: Quota
    beacons: Beacons
    spend: Spend
    tool: Tool
    journal: Journal
    fences: Fences
    tracing: Tracing
    nonce: Callable[[int], bytes]
    reconciler: str
    decider: Decider | None = None
    meter: Meter | None = None


@dataclass(slots=True)
class Call:
    """What is known of one call so far; becomes its door event."""

    request: Request
    record: Record
    trace: DoorTrace
    gone: bool = False
    forwarded: bool = False
    trailers: Pairs = field(default=())


class Door:
    """Enforces decisions for one tool, on `parts`, waiting no longer than `limits`."""

    def __init__(self, parts: Parts, limits: Limits | None = None) -> None:
        self._parts = parts
        self._limits = limits or Limits()
        self._open: set[asyncio.Task[Reply]] = set()
        self._admission = Admission(parts.quota, parts.clock.monotonic_ms)
        self._flood = FloodRecord(parts.journal.append, flood_event, parts.clock.monotonic_ms)
        self.faults = 0
        """Unexpected exceptions so far; each was denied."""

    @property
    def open(self) -> int:
        """Calls that have not ended yet, also those whose caller has gone."""
        return len(self._open)

    async def handle(self, request: Request) -> Reply:
        """Run one call to its end and return what the caller may see.

        Cancelling this coroutine means that the caller has gone; the call itself is shielded: before the
        spend it ends as DEADLINE, after it as the tool lets it end.
        """
        call = Call(request, Record(), DoorTrace(self._parts.tracing, request))
        task = asyncio.get_running_loop().create_task(self._run(call))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            call.gone = True
            raise

    async def drain(self, grace_ms: int) -> int:
        """Wait until every open call has ended, at most `grace_ms`; return how many had not."""
        if self._open:
            await asyncio.wait(self._open, timeout=grace_ms / 1000)
        return len(self._open)

    async def tell(self, *, last: bool = False) -> None:
        """Tell of refusals that were only counted. To be called every second, and once more at the `last`.

        Raises what the journal raises; nothing counted is lost by it.
        """
        await self._flood.tell(last=last)

    async def _run(self, call: Call) -> Reply:
        """Turn every way a call can end into one reply and one event."""
        with of_trace(call.trace.here().trace_id):
            if call.request.fault:
                log(LOG, logging.ERROR, "door.request_fault", error=call.request.fault)
            try:
                reply = await self._enforce(call)
            except Exception as fault:  # noqa: BLE001 # nothing unexpected may let a call through or kill us
                reply = self._fault(call, fault)
            return await self._conclude(call, reply)

    async def _enforce(self, call: Call) -> Reply:
        place = self._admission.enter(bucket_of(call.request.peer, call.request.origin))  # 1
        if isinstance(place, Refusal):
            return Refused(refusal=place)
        with place:
            return await self._admitted(call, place)

    async def _admitted(self, call: Call, place: Place) -> Reply:
        request = call.request
        if request.path == FENCE_PATH:
            return await self._fence(call, place)
        state = self._parts.beacons.state()
        if state is None:
            return Refused(refusal=Refusal(Reason.BEACON_STALE, detail="no beacon yet"))
        versions = state.catalog.method(request.path)  # 2, before the body is read
        if versions is None:
            return Refused(refusal=Refusal(Reason.METHOD_UNKNOWN))
        if versions.current.client_streaming:
            return Refused(refusal=Refusal(Reason.CLIENT_STREAMING))
        body = await sized(request, state.k_tool, place.weigh)  # 1, size
        if isinstance(body, Refusal):
            return Refused(refusal=body)
        presented = await self._presented(call, state, body)
        if not isinstance(presented, Presented):
            return presented
        permit = await self._examined(call, presented)  # 2 to 11
        if isinstance(permit, Refusal):
            return Refused(refusal=permit, trailers=call.trailers)
        return await self._execute(call, permit)

    async def _presented(self, call: Call, state: DoorState, body: bytes) -> Presented | Refused:
        """Return what the caller presents, or what the decider gives where the catalog allows that."""
        request, decider = call.request, self._parts.decider
        permits = request.values(PERMIT)
        approvals = request.values(APPROVAL)
        versions = state.catalog.method(request.path)
        on_call = versions is not None and versions.current.decide_on_call
        if not permits and on_call and decider is not None and request.peer:
            call_id = request.call_id()
            if call_id is None:
                return Refused(refusal=Refusal(Reason.CALL_ID_INVALID))
            call_id = call_id or self._new_call_id()
            call.record.call_id = call_id
            call.trailers = ((CALL_ID, call_id),)
            obtained = await decider.decide(request, body, call_id=call_id, trace=call.trace)
            if isinstance(obtained, Denied):
                trailers = (*call.trailers, *obtained.trailers)
                return Refused(refusal=obtained.refusal, safe=obtained.safe, trailers=trailers)
            permits, approvals = (obtained.permit,), obtained.approvals
        return Presented(
            path=request.path, permits=permits, approvals=approvals, body=body, peer=request.peer
        )

    async def _examined(self, call: Call, presented: Presented) -> Permit | Refusal:
        """Checks 2 to 11. A permit that is newer than the beacon waits up to one beacon."""
        clock, beacons = self._parts.clock, self._parts.beacons
        ends_ms = clock.monotonic_ms() + self._limits.beacon_wait_ms
        while True:
            state = beacons.state()
            if state is None:
                return Refusal(Reason.BEACON_STALE, detail="no beacon yet")
            call.record.presented, call.record.state = presented, state
            monotonic_ms = clock.monotonic_ms()
            result = examine(presented, state, now_ms=clock.now_ms(), monotonic_ms=monotonic_ms)
            call.trace.verified(result, state.beacon.age_ms(monotonic_ms) if state.beacon else None)
            if not isinstance(result, Refusal):
                call.record.permit = result
                return result
            left_ms = ends_ms - clock.monotonic_ms()
            if result.reason is not Reason.BEACON_BEHIND or left_ms <= 0 or call.gone:
                return result
            await beacons.newer(state, timeout_ms=left_ms)

    async def _execute(self, call: Call, permit: Permit) -> Reply:
        """Checks 12 to 14: from the reserve on, the call runs to its end."""
        refusal = await self._hindrance(call, permit)
        if refusal is not None:
            return Refused(refusal=refusal, trailers=call.trailers)
        attempt = call.record.attempt = self._parts.nonce(16).hex()
        if permit.spends:
            with call.trace.spending():
                reserved = await self._parts.spend.reserve(
                    permit, attempt=attempt
                )  # 12: the linearisation point
            late = reserved if isinstance(reserved, Refusal) else self._late(call, permit)
            if late is not None:
                return Refused(refusal=late, trailers=call.trailers)
        forward = Forward(
            permit=permit,
            attempt=attempt,
            trace=call.trace.forwarding(self._parts.tool.address),
            timeout_ms=self._tool_timeout_ms(call, permit),
            request=call.request,
        )
        call.forwarded = True
        answer = await self._parts.tool.call(forward)  # 13: the only line that calls the tool
        call.trace.answered(answer)
        return self._settle(call, permit, answer)

    def _late(self, call: Call, permit: Permit) -> Refusal | None:
        """What came while the store was waited for counts: the step is used up, and had no effect."""
        state, clock = self._parts.beacons.state(), self._parts.clock
        assert state is not None, "what was known once is never unknown again"
        refusal = still_holds(permit, state, now_ms=clock.now_ms(), monotonic_ms=clock.monotonic_ms())
        if refusal is not None:
            outcome = Outcome.FAILED_NO_EFFECT
            call.record.outcome = outcome.value
            code = CODES[refusal.status]
            self._parts.spend.outcome(permit, attempt=call.record.attempt, outcome=outcome, status_code=code)
        return refusal

    async def _hindrance(self, call: Call, permit: Permit) -> Refusal | None:
        """What would waste a step: nobody waits, no event could be kept, no tool is there.

        Or the transport took the call as the other listed version streams: no mask looks into a stream.
        """
        if (call.request.send is not None) is not permit.method.server_streaming:
            return Refusal(Reason.METHOD_SUPERSEDED, detail="the version in force here streams otherwise")
        if self._expired(call):
            return Refusal(Reason.DEADLINE)
        if permit.spends and self._parts.journal.full:
            return Refusal(Reason.AUDIT_BACKPRESSURE)
        if not await self._parts.tool.ready():
            return Refusal(Reason.TOOL_UNREACHABLE)
        return None

    def _settle(self, call: Call, permit: Permit, answer: ToolAnswer) -> Reply:
        """Check 14: what is known of the effect, on record and to the caller."""
        outcome = outcome_of(permit.method, answer)
        call.record.reason = answer.reason
        call.record.code = answer.code
        if permit.spends:
            call.record.outcome = outcome.value
            if outcome is not Outcome.UNKNOWN:
                self._parts.spend.outcome(
                    permit, attempt=call.record.attempt, outcome=outcome, status_code=answer.code
                )
        if not answer.sent:
            call.forwarded = False
            return Refused(refusal=Refusal(Reason.TOOL_UNREACHABLE), trailers=call.trailers)
        if answer.code == 0 and permit.spends and outcome is not Outcome.EXECUTED:
            # A guarded tool that says OK without its guard's word proves nothing.
            return Refused(refusal=Refusal(Reason.OUTCOME_UNKNOWN), trailers=call.trailers)
        return masked(permit, answer, call.trailers)

    async def _fence(self, call: Call, place: Place) -> Reply:
        """Close a round for the reconciler; nobody else, and nothing else of the guard's service."""
        if call.request.peer != self._parts.reconciler:
            return Refused(refusal=Refusal(Reason.NO_PERMIT, detail="only the reconciler may fence"))
        body = await sized(call.request, b"", place.weigh)
        if isinstance(body, Refusal):
            return Refused(refusal=body)
        fenced = await self._parts.fences.fence(body)
        if not isinstance(fenced, Fenced):
            return Refused(refusal=fenced)
        call.record.fenced = fenced
        return Answered(code=0, message="", body=fenced.answer, metadata=(), trailers=())

    def _fault(self, call: Call, fault: Exception) -> Reply:
        self.faults += 1
        why, ids = type(fault).__name__, call.trace.ids()
        log(LOG, logging.ERROR, "door.fault", error=why, forwarded=call.forwarded, **ids)
        LOG.debug("door.fault", exc_info=fault)
        call.trace.fail(why)
        call.record.detail = f"unexpected {why}"
        reason = Reason.OUTCOME_UNKNOWN if call.forwarded else Reason.INTERNAL
        if call.forwarded:
            call.record.outcome = Outcome.UNKNOWN.value
        return Refused(refusal=Refusal(reason), trailers=call.trailers)

    async def _conclude(self, call: Call, reply: Reply) -> Reply:
        """Put the one event of this call into the spool, then let the reply go."""
        clock = self._parts.clock
        kind, fields = door_event(
            call.request, call.record, reply, forwarded=call.forwarded, now_ms=clock.now_ms()
        )
        try:
            await self._record(call, reply, kind, fields | call.trace.ids())
        except Exception as fault:  # noqa: BLE001 # no reply leaves without its event
            reason = Reason.OUTCOME_UNKNOWN if call.forwarded else Reason.AUDIT_BACKPRESSURE
            self.faults += 1
            why = type(fault).__name__
            log(LOG, logging.ERROR, "door.event_lost", error=why, kind=kind, **call.trace.ids())
            reply = Refused(refusal=Refusal(reason), trailers=call.trailers)
        self._told(call, kind, fields, reply)
        return reply

    async def _record(self, call: Call, reply: Reply, kind: EventKind, fields: dict[str, object]) -> None:
        """Spool the event; a refusal that may be one of a flood is counted instead.

        Only a privileged call waits for the disk: of every other, a kill loses nothing, and a loss of power
        what neither disk nor JetStream had yet; its spend was acked before (docs/adr/0080).
        """
        if isinstance(reply, Refused) and kind is EventKind.DOOR_REFUSED and not call.record.attempt:
            bucket = bucket_of(call.request.peer, call.request.origin)
            over_quota = reply.refusal.reason is Reason.QUOTA_EXCEEDED
            if over_quota or self._parts.journal.crowded or not self._flood.alone(bucket):
                await self._flood.refused(bucket, reply.refusal.reason, fields)
                return
        permit = call.record.permit
        if permit is not None and permit.method.call_class is CallClass.PRIVILEGED:
            await self._parts.journal.append(kind, **fields)
        else:
            self._parts.journal.spool(kind, **fields)

    def _told(self, call: Call, kind: EventKind, fields: dict[str, object], reply: Reply) -> None:
        """Close spans and count; the event is kept by now, so what fails here changes no reply."""
        try:
            call.trace.close(kind, fields, reply)
            if self._parts.meter is None:
                return
            said = reply.refusal.reason.value if isinstance(reply, Refused) else call.record.reason
            self._parts.meter.concluded(
                enforcement=kind.rpartition(".")[2],
                reason=said,
                outcome=str(fields["outcome"]),
                seconds=call.trace.seconds,
                trace=call.trace.here(),
            )
        except Exception as fault:  # noqa: BLE001 # telemetry must not take an answer away
            self.faults += 1
            log(LOG, logging.ERROR, "door.telemetry_fault", error=type(fault).__name__)

    def _expired(self, call: Call) -> bool:
        deadline_ms = call.request.deadline_ms
        return call.gone or (deadline_ms is not None and self._parts.clock.monotonic_ms() >= deadline_ms)

    def _tool_timeout_ms(self, call: Call, permit: Permit) -> int:
        """A call that spends is shielded from its caller's deadline; no other outlasts it."""
        deadline_ms = call.request.deadline_ms
        if permit.spends or deadline_ms is None:
            return self._limits.tool_timeout_ms
        return max(1, min(self._limits.tool_timeout_ms, deadline_ms - self._parts.clock.monotonic_ms()))

    def _new_call_id(self) -> str:
        return uuid7(self._parts.clock.now_ms(), self._parts.nonce(10))
