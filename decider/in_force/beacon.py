"""Says every second what is current: a signed beacon on core NATS, and to whoever asks.

Guarantees: a beacon is signed only after a leader read of the configuration that began at most
`MAX_READ_AGE_MS` ago; a decider that cannot read NATS signs nothing, so it can never say *fresh*. It says
what is in force, never what a refused record wished for. Not guaranteed: that anybody hears it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from decider.in_force.configuration import Configuration
from decider.in_force.in_force import InForce
from licet.beacon import Beacon, beacon_payload
from licet.log import log
from licet.statement import PayloadType, SigningKey, canonical
from licet.streams import (
    Connection,
    SpendMemory,
    StreamsError,
    check_streams,
    spend_position,
    stream_spend,
    stream_spend_log,
    subject_beacon,
)
from licet.v1.statement_pb2 import Signed

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
RETRY_S: Final = 0.25
MAX_READ_AGE_MS: Final = 1_000


class BeaconPublisher:
    """Reads, signs and publishes in a loop; `newest` is what `GetBeacon` serves."""

    def __init__(
        self,
        nc: Connection,
        configuration: Configuration,
        key: SigningKey,
        environment: str,
        *,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._nc = nc
        self._configuration = configuration
        self._key = key
        self._environment = environment
        self._wall_ms, self._monotonic_ms = wall_ms, monotonic_ms
        self._memory = SpendMemory()
        self._silent = False
        self.newest: Signed | None = None

    async def run(self) -> None:
        """Publish until cancelled; a failure is logged once and tried again, faster than every second."""
        while True:
            try:
                sent = await self.publish_once()
                self._silent = self._silent and not sent
            except (StreamsError, OSError) as error:
                sent = False
                if not self._silent:
                    log(logger, logging.ERROR, "beacon.silent", detail=str(error)[:300])
                self._silent = True
            await asyncio.sleep(INTERVAL_S if sent else RETRY_S)

    async def publish_once(self) -> bool:
        """Read, sign and publish one beacon; False where nothing is in force yet. Raises `StreamsError`."""
        read = await self._configuration.refresh(now_ms=self._wall_ms(), monotonic_ms=self._monotonic_ms())
        if read is None:
            return False
        beacon = await self._beacon(read.in_force)
        if self._monotonic_ms() - read.read_at_ms > MAX_READ_AGE_MS:
            return False  # the reads took too long: what they found may be old by now
        signed = self._key.sign(PayloadType.BEACON, beacon_payload(beacon))
        self.newest = signed
        await self._nc.publish(subject_beacon(self._environment), canonical(signed))
        return True

    async def _beacon(self, in_force: InForce) -> Beacon:
        issued_at_ms = self._wall_ms()  # before the reads: the age that others measure includes them
        position = await spend_position(self._nc, self._environment)
        spend_streams = frozenset({stream_spend(self._environment), stream_spend_log(self._environment)})
        problems = await check_streams(self._nc, self._environment, only=spend_streams)
        for problem in problems:
            log(logger, logging.ERROR, "store.unsafe", detail=str(problem))
        config = in_force.config
        same_store = self._memory.look(position, config.generation)
        if not same_store:
            seen = {"last_seq": position.last_seq, "floor": self._memory.floor}
            log(logger, logging.ERROR, "store.rolled_back", **seen)
        return Beacon(
            environment=self._environment,
            issued_at_ms=issued_at_ms,
            config_seq=in_force.config_seq,
            generation=config.generation,
            bundle_version=in_force.bundle.version,
            bundle_sha256=config.bundle_sha256,
            keyset_version=config.keyset_version,
            keyset_sha256=config.keyset_sha256,
            revocations_seq=config.revocations_seq,
            revocations_sha256=config.revocations_sha256,
            spend_floor=self._memory.floor,
            spend_log_origin_seq=position.log_origin_seq,
            store_safe=same_store and not problems,
        )
