"""The sequence that every ack must exceed: how a store that went back in time is noticed (3.6).

A restored volume has the old creation time and fewer messages, so the only witness is the numbering.
Guaranteed: an ack at or below what this process or its beacon had seen when the publish began stops
spending here until the generation grows. Not guaranteed: that this process is the one whose record falls
below; the decider, who reads the stream itself, must say `store_safe = false` for all when it finds fewer
messages than it knows of.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from licet.beacon import Beacon, HeldBeacon
from licet.log import log
from licet.streams import PubAck, Publishing

LOG: Final = logging.getLogger(__name__)


class Floor:
    """The sequence that every new ack must exceed, and whether one did not (PROTOCOL 3.6)."""

    def __init__(self) -> None:
        self._seen = 0
        self._generation = 0
        self._rolled_back = False

    @property
    def seen(self) -> int:
        """The largest sequence acked to this process in this generation."""
        return self._seen

    def begin(self, beacon: Beacon) -> int | None:
        """Return the floor for a publish that begins now, None while the store counts as rolled back.

        Taken before the publish: a beacon that comes while it is on its way may have counted it already.
        """
        if beacon.generation > self._generation:
            self._generation, self._seen, self._rolled_back = beacon.generation, 0, False
        return None if self._rolled_back else max(self._seen, beacon.spend_floor)

    def rises(self, seq: int, floor: int, generation: int) -> bool:
        """Take the sequence of an ack; False, and from now on, if it is not above the floor it began with."""
        if generation == self._generation:
            self._rolled_back = self._rolled_back or seq <= floor
            self._seen = max(self._seen, seq)
        return seq > floor and not self._rolled_back


class FloorWatch:
    """The publisher of outcomes: their acks, too, show a store that went back.

    Without it, outcomes that land first after a restore would lift the sequence over the floor unseen, and
    the next reserve would look lawful.
    """

    def __init__(self, publisher: Publishing, floor: Floor, beacon: Callable[[], HeldBeacon | None]) -> None:
        self._publisher = publisher
        self._floor = floor
        self._beacon = beacon

    @property
    def connected(self) -> bool:
        """Whether a publish has a chance right now."""
        return self._publisher.connected

    @property
    def reconnected_at_ms(self) -> int:
        """When the connection last came back, Unix ms."""
        return self._publisher.reconnected_at_ms

    async def publish(
        self, subject: str, body: bytes, *, msg_id: str | None = None, timeout: float = 2.0
    ) -> PubAck:
        """Publish, looking at no floor: reserves look themselves."""
        return await self._publisher.publish(subject, body, msg_id=msg_id, timeout=timeout)

    async def begin(
        self, subject: str, body: bytes, *, msg_id: str | None = None
    ) -> "asyncio.Future[PubAck]":
        """Publish, and hold the ack against the floor of this moment when it comes."""
        held = self._beacon()
        floor = self._floor.begin(held.beacon) if held is not None else None
        ack = await self._publisher.begin(subject, body, msg_id=msg_id)
        if held is not None and floor is not None:
            ack.add_done_callback(partial(self._look, floor, held.beacon.generation))
        return ack

    def _look(self, floor: int, generation: int, ack: "asyncio.Future[PubAck]") -> None:
        if ack.cancelled() or ack.exception() is not None or ack.result().duplicate:
            return  # a duplicate has the sequence of the first try, which may be long ago
        if not self._floor.rises(ack.result().seq, floor, generation):
            log(LOG, logging.ERROR, "spend.rolled_back", seq=ack.result().seq, floor=floor)
