"""`licet.v1.DeciderService` over grpc.aio: transport in, transport out, nothing decided here.

Decide answers OK for every usable decision, a denial too; where none could be made it ends with the
refusal's status and an ErrorInfo of domain `licet`. A caller whom the transport cannot name gets nothing but
the beacon.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import grpc
import grpc.aio
from grpc_status import rpc_status

from decider.decider import Decider
from decider.decision.outcome import OutcomeReader
from decider.in_force.beacon import BeaconPublisher
from decider.meter import DecisionMeter
from decider.status import status_of
from licet.call import MAX_REQUEST_BYTES
from licet.clock import wall_ms
from licet.log import log, of_trace
from licet.peer import certified_peer, development_peer
from licet.refusal import Reason, Refusal
from licet.streams import ArtifactDamaged, StreamsError
from licet.tracing import Tracing, extract
from licet.v1 import decider_pb2, decider_pb2_grpc

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 6 * MAX_REQUEST_BYTES
"""What the transport takes. Arguments past MAX_REQUEST_BYTES are refused by us, and so on record."""

MAX_METADATA_BYTES: Final = 16 << 10
"""What the metadata of a call may come to."""

SHA256_BYTES: Final = 32

OVER_QUOTA: Final = Refusal(Reason.QUOTA_EXCEEDED, "the caller's quota is used up")

SERVER_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),
)

Context = grpc.aio.ServicerContext[object, object]
Identify = Callable[[Context], str]


def identify_certified(context: Context) -> str:
    """Return the peer of an mTLS connection."""
    return certified_peer(context.auth_context(), now_ms=wall_ms())


def identify_development(context: Context) -> str:
    """Return the peer that a development connection claims."""
    return development_peer(context.peer(), tuple(context.invocation_metadata() or ()))


async def abort(context: Context, refusal: Refusal, escalate_to: str = "") -> NoReturn:
    """End an RPC with a refusal; a caller without an identity is not told whom to ask."""
    await context.abort_with_status(rpc_status.to_status(status_of(refusal, escalate_to)))
    raise AssertionError


class DeciderService(decider_pb2_grpc.DeciderServiceServicer):
    """The methods.

    `artifact` returns what callers may have by its digest, `identify` is the transport's way to name a peer,
    `way` says whom callers can ask, `admit` takes one of a caller's quota: for what it asks beside decisions,
    whose quota the decider takes.
    """

    def __init__(
        self,
        decider: Decider,
        beacons: BeaconPublisher,
        artifact: Callable[[bytes], Awaitable[bytes | None]],
        outcomes: OutcomeReader,
        *,
        identify: Identify,
        tracing: Tracing,
        meter: DecisionMeter,
        way: Callable[[], str],
        admit: Callable[[str], bool],
    ) -> None:
        self._admit = admit
        self._decider, self._beacons = decider, beacons
        self._artifact, self._outcomes = artifact, outcomes
        self._identify, self._tracing, self._meter = identify, tracing, meter
        self._way = way

    async def _peer(self, context: Context) -> str:
        peer = self._identify(context)
        if not peer:
            await abort(context, Refusal(Reason.CALLER_UNKNOWN))
        return peer

    async def _admitted(self, context: Context) -> str:
        """Return the peer of a call that is no decision, once its quota is taken."""
        peer = await self._peer(context)
        if not self._admit(peer):
            await abort(context, OVER_QUOTA, self._way())
        return peer

    async def Decide(  # noqa: N802 - the name of the RPC
        self, request: decider_pb2.DecideRequest, context: Context
    ) -> decider_pb2.DecideResponse:
        """Decide one call."""
        peer = await self._peer(context)
        started_s = time.perf_counter()
        recording = self._tracing.record(extract(tuple(context.invocation_metadata() or ())))
        with of_trace(recording.trace_id), self._meter.asked():
            try:
                answer = await self._decider.decide(request, peer, recording)
            finally:
                recording.close()
        self._meter.answered(request, answer, started_s, recording.parent)
        if isinstance(answer, Refusal):
            await abort(context, answer, self._way())
        return answer

    async def GetBeacon(  # noqa: N802 - the name of the RPC
        self, _request: decider_pb2.GetBeaconRequest, context: Context
    ) -> decider_pb2.GetBeaconResponse:
        """Return the newest beacon; its age is in it, so an old one does no harm."""
        if self._beacons.newest is None:
            await abort(context, Refusal(Reason.BEACON_STALE, "no beacon yet"))
        return decider_pb2.GetBeaconResponse(beacon=self._beacons.newest)

    async def GetArtifact(  # noqa: N802 - the name of the RPC
        self, request: decider_pb2.GetArtifactRequest, context: Context
    ) -> decider_pb2.GetArtifactResponse:
        """Return a key set or a revocation list by its digest; who reads it verifies it.

        No bundle: NOT_FOUND, as for a digest that nothing has.
        """
        await self._admitted(context)
        if len(request.sha256) != SHA256_BYTES:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a digest has 32 bytes")
        try:
            artifact = await self._artifact(request.sha256)
        except (StreamsError, ArtifactDamaged) as error:
            log(logger, logging.ERROR, "artifact.unavailable", detail=str(error)[:300])
            artifact = None
            await abort(context, Refusal(Reason.STORE_UNAVAILABLE), self._way())
        if artifact is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no artifact has this digest")
            raise AssertionError
        return decider_pb2.GetArtifactResponse(artifact=artifact)

    async def GetOutcome(  # noqa: N802 - the name of the RPC
        self, request: decider_pb2.GetOutcomeRequest, context: Context
    ) -> decider_pb2.GetOutcomeResponse:
        """Return how a step ended, to the caller of the permit that was spent and to nobody else."""
        peer = await self._admitted(context)
        answer = await self._outcomes.outcome(request, peer)
        if isinstance(answer, Refusal):
            await abort(context, answer, self._way())
        return answer

    async def ListVisibleMethods(  # noqa: N802 - the name of the RPC
        self, request: decider_pb2.ListVisibleMethodsRequest, context: Context
    ) -> decider_pb2.ListVisibleMethodsResponse:
        """Return the methods that a task's agent may be shown; hiding is no boundary."""
        answer = await self._decider.visible(request.task_id, await self._admitted(context))
        if isinstance(answer, Refusal):
            await abort(context, answer, self._way())
        return answer
