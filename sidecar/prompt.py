"""Outcomes on their way: sent at once from memory, written to disk only when no ack comes.

Guaranteed: what was `put` is sent until it is acked; when the store is away, slow or refuses, and when the
process is stopped, it goes into the durable queue and out from there, also in the next run, under the same
Msg-Id. Not
guaranteed: that a letter survives a kill -9 in the moment between its `put` and its ack. For an outcome
    that is no loss of truth: its absence means UNKNOWN, and a fence settles that. An event must not go this
    way.

Why: an fsync, its thread and the read-back cost a call more than all its checks.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from licet.journal import Letter, SpoolError
from licet.log import log
from licet.streams import PubAck, StoreRefused, StoreUnavailable

LOG: Final = logging.getLogger(__name__)

ACK_S: Final = 1.0
"""How long a letter waits for its ack before it goes to disk."""

MAX_ON_WAY: Final = 4_096
"""Letters in memory; further ones go to disk at once, so a dead store cannot fill memory."""


class Durable(Protocol):
    """Where letters go that were not acked at once."""

    @property
    def depth(self) -> int:
        """How many wait there."""

    def put(self, letter: Letter) -> int:
        """Write a letter; raises SpoolError."""

    def sync_soon(self) -> None:
        """Have it made durable."""

    async def close(self, drain_s: float = 5.0) -> bool:
        """Send what is there for at most `drain_s` seconds, then stop; whether nothing is left."""


class Sends(Protocol):
    """How letters go out."""

    async def begin(
        self, subject: str, body: bytes, *, msg_id: str | None = None
    ) -> "asyncio.Future[PubAck]":
        """Publish, and return the future of the ack; raises StoreUnavailable."""


class PromptQueue:
    """In front of a durable queue, with its face.

    Args:
        durable: Gets what was not acked at once.
        sends: The publisher.
        settles: Whether a refusal means that the letter need not be sent again.
    """

    def __init__(
        self, durable: Durable, sends: Sends, settles: Callable[[Letter, StoreRefused], bool]
    ) -> None:
        self._durable = durable
        self._sends = sends
        self._settles = settles
        self._loop = asyncio.get_running_loop()
        self._on_way: dict[asyncio.Task[None], None] = {}  # in the order of their `put`, also at the stop
        self.lost = 0
        """Letters that neither the store nor the disk took."""

    @property
    def depth(self) -> int:
        """How many letters have no ack yet."""
        return len(self._on_way) + self._durable.depth

    def put(self, letter: Letter) -> int:
        """Send `letter`; returns 0, for it has no position. Raises SpoolError when nothing takes it."""
        if len(self._on_way) >= MAX_ON_WAY:
            self._durable.put(letter)
            self._durable.sync_soon()
            return 0
        task = self._loop.create_task(self._send(letter))
        self._on_way[task] = None
        task.add_done_callback(self._on_way.pop)
        return 0

    def sync_soon(self) -> None:
        """Do nothing: what must be durable is made so when it goes to disk."""

    async def close(self, drain_s: float = 5.0) -> bool:
        """Wait for acks, put what has none on disk, and let that drain; whether nothing is left."""
        if self._on_way:
            await asyncio.wait(self._on_way, timeout=min(drain_s, ACK_S))
        for task in self._on_way:
            task.cancel()
        await asyncio.gather(*self._on_way, return_exceptions=True)
        return await self._durable.close(drain_s)

    async def _send(self, letter: Letter) -> None:
        try:
            ack = await self._sends.begin(letter.subject, letter.body, msg_id=letter.msg_id)
            await asyncio.wait_for(ack, ACK_S)
        except TimeoutError:
            self._keep(letter, f"no ack within {ACK_S} s")
        except StoreRefused as refused:
            if not self._settles(letter, refused):
                self._keep(letter, str(refused))
        except StoreUnavailable as error:
            self._keep(letter, str(error))
        except asyncio.CancelledError:
            self._keep(letter, "stopping")
            raise

    def _keep(self, letter: Letter, why: str) -> None:
        try:
            self._durable.put(letter)
            self._durable.sync_soon()
        except SpoolError as error:
            self.lost += 1
            log(LOG, logging.ERROR, "outcome.lost", why=why[:200], spool=str(error)[:200])
