"""Outcomes on their way: sent from memory within 5 ms, written to disk only when no ack comes.

Guaranteed: what was `put` is sent until it is acked; when the store is away, slow or refuses, and when the
process is stopped, it goes into the durable queue and out from there, also in the next run, under the same
Msg-Id. Not
guaranteed: that a letter survives a kill -9 in the moment between its `put` and its ack. For an outcome
    that is no loss of truth: its absence means UNKNOWN, and a fence settles that. An event must not go this
    way.

Why: an fsync, its thread and the read-back cost a call more than all its checks.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from licet.journal import Letter, SpoolError
from licet.journal.queue import GATHER_S
from licet.log import log
from licet.streams import PubAck, StoreRefused

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


@dataclass(slots=True, eq=False)
class _OnWay:
    letter: Letter
    late: asyncio.TimerHandle | None = None
    ack: "asyncio.Future[PubAck] | None" = None


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
        self._on_way: dict[_OnWay, None] = {}  # in the order of their `put`, also at the stop
        self._unsent: deque[_OnWay] = deque()
        self._gathering: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._task = self._loop.create_task(self._send_loop())
        self.lost = 0
        """Letters that neither the store nor the disk took."""

    @property
    def depth(self) -> int:
        """How many letters have no ack yet."""
        return len(self._on_way) + self._durable.depth

    def put(self, letter: Letter) -> int:
        """Send `letter`; returns 0, for it has no position. Raises SpoolError when nothing takes it."""
        if len(self._on_way) >= MAX_ON_WAY or self._task.done():
            self._durable.put(letter)
            self._durable.sync_soon()
            return 0
        one = _OnWay(letter)
        one.late = self._loop.call_later(ACK_S, self._late, one)
        self._on_way[one] = None
        self._unsent.append(one)
        self._empty.clear()
        if self._gathering is None:
            self._gathering = self._loop.call_later(GATHER_S, self._gathered)
        return 0

    def sync_soon(self) -> None:
        """Do nothing: what must be durable is made so when it goes to disk."""

    async def close(self, drain_s: float = 5.0) -> bool:
        """Wait for acks, put what has none on disk, and let that drain; whether nothing is left."""
        self._wake.set()
        if self._on_way:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), min(drain_s, ACK_S))
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._gathering is not None:
            self._gathering.cancel()
        for one in tuple(self._on_way):
            self._keep(one, "stopping")
        return await self._durable.close(drain_s)

    def _gathered(self) -> None:
        """Send what came together: with the events of the same calls, in one write to the store."""
        self._gathering = None
        self._wake.set()

    async def _send_loop(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._unsent:
                one = self._unsent.popleft()
                if one in self._on_way:  # else it was late already and is on disk
                    await self._send(one)

    async def _send(self, one: _OnWay) -> None:
        letter = one.letter
        try:
            ack = await self._sends.begin(letter.subject, letter.body, msg_id=letter.msg_id)
        except Exception as error:  # noqa: BLE001 - the sending task must outlive a fault of one letter
            self._keep(one, str(error))
            return
        if one not in self._on_way:
            ack.cancel()
            return
        one.ack = ack
        ack.add_done_callback(partial(self._answered, one))

    def _answered(self, one: _OnWay, ack: "asyncio.Future[PubAck]") -> None:
        error = None if ack.cancelled() else ack.exception()
        if one not in self._on_way:
            return
        if error is None or (isinstance(error, StoreRefused) and self._settles(one.letter, error)):
            self._leave(one)
        else:
            self._keep(one, str(error))

    def _late(self, one: _OnWay) -> None:
        if one in self._on_way:
            self._keep(one, f"no ack within {ACK_S} s")

    def _leave(self, one: _OnWay) -> None:
        del self._on_way[one]
        if one.late is not None:
            one.late.cancel()
        if not self._on_way:
            self._empty.set()

    def _keep(self, one: _OnWay, why: str) -> None:
        self._leave(one)
        if one.ack is not None:
            one.ack.cancel()
        try:
            self._durable.put(one.letter)
            self._durable.sync_soon()
        except SpoolError as error:
            self.lost += 1
            log(LOG, logging.ERROR, "outcome.lost", why=why[:200], spool=str(error)[:200])
