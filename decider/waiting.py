"""What a decider answers while it cannot decide yet: NATS has no leader, or nothing is in force.

Guaranteed: nothing is permitted. Every method of licet ends with UNAVAILABLE (BEACON_STALE), so that callers
ask again; each `Decide` leaves its `decision.failed` in the spool, which is published once NATS is there.
Quotas hold here too.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from decider.decision.envelope import House, asked_of
from decider.decision.parts import Clock
from decider.decision.record import failure_event, flood_event
from decider.quota import Quota, cost_of
from decider.service import Context, Identify, abort
from licet.flood import FloodRecord
from licet.journal import Journal, SpoolError
from licet.log import log
from licet.refusal import Reason, Refusal
from licet.v1.decider_pb2 import DecideRequest

logger = logging.getLogger(__name__)

OURS: Final = ("/licet.v1.DeciderService/", "/licet.v1.ApprovalService/", "/licet.v1.TaskService/")
DECIDE: Final = "/licet.v1.DeciderService/Decide"


class WaitingRoom:
    """Answers every method of licet with UNAVAILABLE.

    Args:
        journal: Where failures go.
        quota: What each caller may ask.
        house: Of a house in which nothing is known yet; names trust domain and environment.
        clock: Time and ids.
        identify: The transport's way to name a peer.
        way: Whom callers can ask.
    """

    def __init__(
        self,
        journal: Journal,
        quota: Quota,
        house: House,
        clock: Clock,
        *,
        identify: Identify,
        way: Callable[[], str],
    ) -> None:
        self._journal, self._quota, self._house, self._clock = journal, quota, house, clock
        self._identify, self._way = identify, way
        self.flood: Final = FloodRecord(journal.append, flood_event, clock.monotonic_ms)
        self.why = "it has just been started"
        """Why nothing is decided yet, for operators."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a method of ours, None for any other."""
        method = str(details.method)
        if not method.startswith(OURS):
            return None
        return grpc.unary_unary_rpc_method_handler(self._decide if method == DECIDE else self._refuse)

    def _refusal(self) -> Refusal:
        return Refusal(Reason.BEACON_STALE, f"nothing can be decided yet: {self.why}"[:500])

    async def _refuse(self, _body: bytes, context: Context) -> None:
        await abort(context, self._refusal(), self._way())

    async def _decide(self, body: bytes, context: Context) -> None:
        peer = self._identify(context)
        if not peer:
            await abort(context, Refusal(Reason.CALLER_UNKNOWN))
        over = not self._quota.take(peer, self._clock.monotonic_ms(), cost_of(len(body)))
        refusal = Refusal(Reason.QUOTA_EXCEEDED, "the caller's quota is used up") if over else self._refusal()
        asked = asked_of(DecideRequest.FromString(body), peer, self._house)
        now_ms = self._clock.wall_ms()
        kind, fields = failure_event(asked, None, refusal, self._clock.new_id(now_ms), None)
        try:
            if over or self._journal.crowded:
                await self.flood.refused(peer, refusal.reason, fields)
            else:
                await self._journal.append(kind, **fields)
        except SpoolError as error:  # refused all the same
            log(logger, logging.ERROR, "decide.failure_not_recorded", detail=str(error)[:300])
        await abort(context, refusal, self._way())
