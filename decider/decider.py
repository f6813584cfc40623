"""Decides the requests of callers: quota before any work, one case for each, always an answer.

Every way out is a `DecideResponse` (a usable decision) or a `Refusal` (none could be made: UNAVAILABLE); an
exception of any step is the latter. The steps are in `decider.decision.case`.
"""

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from opentelemetry.trace import SpanKind

from decider.decision.case import Case
from decider.decision.envelope import House, asked_of, payer_of
from decider.decision.parts import Parts, Track
from decider.decision.record import failure_event, flood_event
from decider.decision.verdict import Moment
from decider.quota import SPOKEN_FOR, cost_of, spoken_for
from decider.task.visible import visible_methods
from licet import telemetry
from licet.call import tool_key
from licet.flood import FloodRecord
from licet.journal import SpoolError
from licet.log import log
from licet.refusal import Reason, Refusal
from licet.streams import StreamsError
from licet.tracing import Recording
from licet.v1.decider_pb2 import DecideRequest, DecideResponse, ListVisibleMethodsResponse

logger = logging.getLogger(__name__)

RPC: Final = {telemetry.RPC_SYSTEM_NAME: telemetry.GRPC, telemetry.RPC_METHOD: telemetry.SPAN_DECIDE}
"""Attributes of every span of `Decide`."""


class Decider:
    """Decides calls. Safe for many at once on one event loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._houses: dict[int, House] = {}
        self.flood: Final = FloodRecord(parts.journal.append, flood_event, parts.clock.monotonic_ms)

    def _house(self, generation: int) -> House:
        """Return the house with the tool keys of a generation."""
        found = self._houses.get(generation)
        if found is None:
            house, master = self._parts.house, self._parts.master
            keys: Mapping[str, bytes] = {
                audience: tool_key(master, audience, generation) for audience in house.catalogs
            }
            found = self._houses[generation] = replace(house, tool_keys=keys)
        return found

    async def decide(
        self, request: DecideRequest, peer: str, recording: Recording
    ) -> DecideResponse | Refusal:
        """Decide one request of `peer`, the SPIFFE id that the transport proved; raises nothing."""
        clock = self._parts.clock
        if not self._takes(request, peer):
            return await self._over_quota(request, peer)
        now_ms = clock.wall_ms()
        moment = Moment(clock.new_id(now_ms), now_ms)
        span = recording.span(telemetry.SPAN_DECIDE, kind=SpanKind.SERVER, attributes=RPC)
        case = Case(self._parts, request, peer, moment, track=Track(recording, span), flood=self.flood)
        try:
            refusal = await case.run(self._house)
        except Exception:
            log(
                logger,
                logging.ERROR,
                "decide.fault",
                decision_id=moment.decision_id,
                trace_id=span.context.trace_id,
            )
            logger.exception("decide.fault")
            refusal = Refusal(Reason.INTERNAL, "a fault of the decider")
        if isinstance(refusal, Refusal):
            span.set(telemetry.DECISION, "failed")
            span.set(telemetry.REASON, str(refusal.reason))
            span.set(telemetry.RPC_RESPONSE_STATUS_CODE, str(refusal.status))
            span.fail(str(refusal.reason))
            recording.keep()
            await case.record_failure(refusal)
        return refusal

    def _takes(self, request: DecideRequest, peer: str) -> bool:
        quota, now_ms, cost = self._parts.quota, self._parts.clock.monotonic_ms(), cost_of(request.ByteSize())
        payer = payer_of(request, peer, self._parts.house)
        taken = quota.take(payer, now_ms, cost)
        return taken and (payer == peer or quota.take(spoken_for("all", peer), now_ms, cost / SPOKEN_FOR))

    async def visible(self, task_id: str, peer: str) -> ListVisibleMethodsResponse | Refusal:
        """Return the methods that a model working on one of the peer's tasks may be shown."""
        in_force, now_ms = self._parts.configuration.current, self._parts.clock.wall_ms()
        if in_force is None:
            return Refusal(Reason.BEACON_STALE, "no configuration is in force")
        try:
            known = await self._parts.tasks.house_with(self._parts.house, task_id, in_force.keys, now_ms)
        except StreamsError as error:
            return Refusal(Reason.STORE_UNAVAILABLE, str(error))
        task = known.tasks.get(task_id)
        if task is None or task.caller != peer:
            return Refusal(Reason.TASK_UNKNOWN)
        shown = visible_methods(self._parts.house, task, in_force.bundle.rules.rules)
        return ListVisibleMethodsResponse(methods=shown)

    async def _over_quota(self, request: DecideRequest, peer: str) -> Refusal:
        clock, refusal = self._parts.clock, Refusal(Reason.QUOTA_EXCEEDED, "the caller's quota is used up")
        asked = asked_of(request, peer, self._parts.house)
        _, fields = failure_event(asked, None, refusal, clock.new_id(clock.wall_ms()), None)
        with contextlib.suppress(SpoolError):  # refused, and counted, all the same
            await self.flood.refused(asked.caller, refusal.reason, fields)
        return refusal
