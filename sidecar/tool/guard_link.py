"""The tool's guard, over the tool's own socket: it gets each beacon, answers fences, hands over its outbox.

Guaranteed: nothing from outside reaches the guard's service but through these three calls. Not guaranteed:
that the tool has a guard; without one, beacons are offered again every `NO_GUARD_RETRY_S` and the outbox
stays empty.
"""

import logging
import time
from typing import Final

import grpc
from grpc import aio

from licet.catalog import Catalog
from licet.log import log
from licet.v1 import guard_pb2, guard_pb2_grpc
from sidecar.knowledge import Known

LOG: Final = logging.getLogger(__name__)

BEACON_TIMEOUT_S: Final = 0.5
"""How long a beacon may wait for the guard before the door takes it anyway: the guard checks ages itself."""

NO_GUARD_RETRY_S: Final = 30.0
"""Until a tool that said UNIMPLEMENTED is asked again."""

NO_GUARD: Final = "the tool has no guard, and its catalog has guarded methods"
"""What `/ready` says of a tool that lost its guard."""

OUTBOX_TIMEOUT_S: Final = 5.0
FENCE_TIMEOUT_S: Final = 10.0


class GuardLink:
    """Our end of `licet.v1.GuardService`.

    Args:
        channel: The connection to the tool's socket.
    """

    def __init__(self, channel: aio.Channel) -> None:
        self._stub: guard_pb2_grpc.GuardServiceAsyncStub = guard_pb2_grpc.GuardServiceStub(channel)
        self._absent_until = 0.0
        self._missing = False
        self.trouble = "the guard has no beacon yet"
        """Why the guard does not hold the newest beacon; empty when it does."""

    @property
    def absent(self) -> bool:
        """Whether the tool said that it has no guard."""
        return time.monotonic() < self._absent_until

    def reason(self, catalog: Catalog | None) -> str:
        """Return why the guard is not ready for the methods of `catalog`; empty when it is.

        A tool that needs no guard may have none; one whose guard was left out refuses nothing by itself.
        """
        if not self._missing:
            return self.trouble
        methods = () if catalog is None else catalog.methods.values()
        if any(version.guarded for method in methods for version in method.all()):
            return NO_GUARD
        return ""

    async def hand_over(self, known: Known) -> None:
        """Give the guard a beacon, and what it points at when the guard lacks that; never raises."""
        if self.absent:
            return
        request = guard_pb2.BeaconRequest(beacon=known.signed)
        answer = await self._beacon(request)
        if answer is None:
            return
        self._missing = False
        if not _holds(answer, known):
            request.keyset.CopyFrom(known.keyset_signed)
            if known.revocations_signed is not None:
                request.revocations.CopyFrom(known.revocations_signed)
            answer = await self._beacon(request) or answer
        self._note("" if answer.accepted else f"the guard refused the beacon: {answer.reason}")

    async def outbox(self, acked: int, limit: int) -> tuple[guard_pb2.LedgerChange, ...]:
        """Return ledger changes that were not relayed yet; empty when there is no guard or no connection."""
        if self.absent:
            return ()
        try:
            request = guard_pb2.OutboxRequest(acked=acked, limit=limit)
            return tuple((await self._stub.Outbox(request, timeout=OUTBOX_TIMEOUT_S)).changes)
        except aio.AioRpcError as error:
            self._failed(error)
            return ()

    async def fence(self, request: guard_pb2.FenceRequest) -> guard_pb2.FenceResponse:
        """Return the guard's answer; raises `grpc.aio.AioRpcError`."""
        return await self._stub.Fence(request, timeout=FENCE_TIMEOUT_S)

    async def _beacon(self, request: guard_pb2.BeaconRequest) -> guard_pb2.BeaconResponse | None:
        try:
            return await self._stub.Beacon(request, timeout=BEACON_TIMEOUT_S)
        except aio.AioRpcError as error:
            self._failed(error)
            return None

    def _failed(self, error: aio.AioRpcError) -> None:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            self._absent_until = time.monotonic() + NO_GUARD_RETRY_S
            self._missing = True
            self._note("")
            return
        self._note(f"the guard does not answer: {error.code().name}")

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log(LOG, logging.WARNING, "guard.trouble", trouble=trouble)
        self.trouble = trouble


def _holds(answer: guard_pb2.BeaconResponse, known: Known) -> bool:
    return (
        answer.accepted
        and answer.keyset_version == known.keys.version
        and answer.revocations_seq == known.revocations.seq
    )
