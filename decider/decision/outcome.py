"""How a step ended, for the caller whose permit it was.

The reserve holds the permit itself: its caller, verified, is the only one who is told. To everybody else
there is no such step, so ids cannot be probed.
"""

from decider.decision.envelope import House
from decider.decision.rounds import read_record
from decider.in_force.configuration import Configuration
from licet.clock import wall_ms
from licet.permit import verify_permit
from licet.refusal import Reason, Refusal
from licet.spend import is_hex32
from licet.streams import Connection, StreamsError
from licet.v1 import decider_pb2

MAX_ROUND = 1_000


class OutcomeReader:
    """Reads reserves and outcomes from the spend stream's leader."""

    def __init__(self, nc: Connection, configuration: Configuration, house: House) -> None:
        self._nc, self._configuration, self._house = nc, configuration, house

    async def outcome(
        self, request: decider_pb2.GetOutcomeRequest, peer: str
    ) -> decider_pb2.GetOutcomeResponse | Refusal:
        """Return what `peer` may know of a step: not reserved, reserved and open, or its outcome."""
        none = decider_pb2.GetOutcomeResponse(reserved=False)
        catalog = self._house.catalogs.get(request.audience)
        in_force = self._configuration.current
        if in_force is None:
            return Refusal(Reason.BEACON_STALE, "no configuration is in force")
        if catalog is None or not is_hex32(request.spend_id) or request.round > MAX_ROUND:
            return none
        now_ms = wall_ms()
        where = {
            "environment": self._house.environment,
            "tool": catalog.tool,
            "audience": catalog.audience,
            "spend_id": request.spend_id,
        }
        try:
            reserve = await read_record(
                self._nc, in_force.keys, **where, round=request.round, record="reserve", now_ms=now_ms
            )
            if reserve is None or reserve.reserve is None:
                return none
            decision = verify_permit(reserve.reserve.permit, in_force.keys, now_ms=now_ms)
            if isinstance(decision, Refusal) or decision.caller != peer:
                return none
            ended = await read_record(
                self._nc, in_force.keys, **where, round=request.round, record="outcome", now_ms=now_ms
            )
        except StreamsError as error:
            return Refusal(Reason.STORE_UNAVAILABLE, str(error))
        response = decider_pb2.GetOutcomeResponse(reserved=True)
        if ended is not None and ended.outcome is not None:
            response.outcome = ended.outcome.outcome
        return response
