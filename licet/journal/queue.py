"""Messages that will reach JetStream although this process, the server or the network may go away in between.

`put` writes a letter to the spool: a kill of this process does not lose it, nor a loss of power once it is
acked or synced. Whoever must know waits in `synced` (one fsync for all who wait); a letter that nobody waits
for is acked within `2 * SYNC_S`, or a group fsync takes it: prompt acks spare the fsync.

A task of its own publishes in order and lets go of a letter when it is acked. After any failure it begins
again at the first without an ack: the order in the stream is that of `put` except after one.

A letter is sent at least once: acks are noted on disk every `NOTE_S`, so a kill sends again what was on its
way and what was acked since. Its Msg-Id keeps a repetition within the stream's deduplication window (120 s)
from being stored again; a repetition later than that is stored again, byte for byte the same.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from licet.journal.recent import Recent
from licet.journal.spool import Spool, SpoolBroken, SpoolFull
from licet.log import log
from licet.streams.errors import StoreRefused, StoreUnavailable
from licet.streams.publisher import PubAck, Publishing

logger = logging.getLogger(__name__)

WINDOW: Final = 256  # letters on their way at once
ACK_TIMEOUT_S: Final = 2.0
TICK_S: Final = 0.25
SYNC_S: Final = 0.025
"""Between two looks at letters that nobody waits for: one without ack by then is synced, and all after it."""
GATHER_S: Final = 0.005
"""How long a letter that nobody waits for may wait for others to go with: one write and one read for all."""
NOTE_S: Final = 0.01
"""How long an ack may wait to be noted on disk, so that many are noted at once."""
BACKOFF_S: Final = (0.1, 0.2, 0.5, 1.0)
CAP_BYTES: Final = 256 << 20
FULL_SHARE: Final = 0.9
"""`full` says so at this share of the cap; the rest is room for saying why."""
CROWDED_SHARE: Final = 0.5
"""`crowded` says so at this share of the cap; the rest is room for what was decided and done."""
MSG_ID_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Letter:
    """One message: where to, its `Nats-Msg-Id` (32 ASCII characters), and its bytes."""

    subject: str
    msg_id: str
    body: bytes

    def record(self) -> bytes:
        """Return it as the spool keeps it."""
        subject = self.subject.encode("ascii")
        msg_id = self.msg_id.encode("ascii")
        if len(msg_id) != MSG_ID_BYTES or len(subject) > 255:
            raise ValueError("a letter has a Msg-Id of 32 characters and a subject of at most 255")
        return bytes([len(subject)]) + subject + msg_id + self.body

    @classmethod
    def of(cls, record: bytes) -> Self:
        """Read it back."""
        start = 1 + record[0]
        body = start + MSG_ID_BYTES
        return cls(record[1:start].decode("ascii"), record[start:body].decode("ascii"), record[body:])


@dataclass(slots=True)
class _Sent:
    position: int
    letter: Letter
    ack: "asyncio.Future[PubAck]"
    at: float


def never_settled(_letter: Letter, _refused: StoreRefused) -> bool:
    """Say that no refusal settles a letter: it is tried again until it is stored."""
    return False


class DurableQueue:
    """One spool, one publisher, one sending task. `open` starts it; without a publisher it only keeps."""

    def __init__(
        self, spool: Spool, *, cap_bytes: int, window: int, settles: Callable[[Letter, StoreRefused], bool]
    ) -> None:
        self._spool = spool
        self._window = window
        self._cap_bytes = cap_bytes
        self._settles = settles
        self._publisher: Publishing | None = None
        self._loop = asyncio.get_running_loop()
        self._recent: Recent[Letter] = Recent()
        self._acked_to = spool.done
        self._sent_to = spool.done
        self._on_way: deque[_Sent] = deque()
        self._failed: str = ""
        self._broken: str = ""
        self._wake = asyncio.Event()
        self._closing = False
        self._settled = asyncio.Event()
        self._sync_waiters: list[asyncio.Future[None]] = []
        self._sync_wanted = asyncio.Event()
        self._gather_timer: asyncio.TimerHandle | None = None
        self._sync_timer: asyncio.TimerHandle | None = None
        self._sync_mark = 0
        self._note_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._ack_waiters: dict[int, list[asyncio.Future[PubAck]]] = {}
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="licet-spool")
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self.recovery = spool.recovery
        self.depth = spool.recovery.records

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        publisher: Publishing | None = None,
        cap_bytes: int = CAP_BYTES,
        window: int = WINDOW,
        settles: Callable[[Letter, StoreRefused], bool] = never_settled,
    ) -> Self:
        """Open the spool in `directory` and begin to publish what an earlier run left in it.

        Args:
            directory: of this queue alone.
            publisher: may come later, by `attach`.
            cap_bytes: how much may wait.
            window: how many letters may be on their way at once.
            settles: whether a refusal means that the letter need not be sent again.

        Raises:
            SpoolBroken: another process has the directory, or the disk refuses.
        """
        spool = await asyncio.to_thread(Spool.open, directory)
        queue = cls(spool, cap_bytes=cap_bytes, window=window, settles=settles)
        queue._tasks = (asyncio.create_task(queue._sync_loop()), asyncio.create_task(queue._send_loop()))
        queue._tick()
        if publisher is not None:
            queue.attach(publisher)
        return queue

    def attach(self, publisher: Publishing) -> None:
        """Publish through `publisher` from now on."""
        self._publisher = publisher
        self._wake.set()

    @property
    def depth_bytes(self) -> int:
        """How many bytes wait for their ack."""
        return self._spool.end - self._acked_to

    @property
    def full(self) -> bool:
        """Whether whoever asks should stop now: nine tenths of the cap are used, or the disk has failed."""
        return bool(self._broken) or self.depth_bytes >= FULL_SHARE * self._cap_bytes

    @property
    def crowded(self) -> bool:
        """Whether half of the cap is used: what can be told briefly should be."""
        return self.depth_bytes >= CROWDED_SHARE * self._cap_bytes

    def put(self, letter: Letter) -> int:
        """Write `letter` and return its position, which `acked` takes; a kill does not lose it any more.

        Raises:
            SpoolFull: the cap is reached.
            SpoolBroken: the disk refused; nothing was written.
        """
        if self._broken or self._closing:
            raise SpoolBroken(self._broken or "the queue is closed")
        record = letter.record()
        if self.depth_bytes + len(record) > self._cap_bytes:
            raise SpoolFull(f"{self.depth_bytes} bytes wait to be published, the cap is {self._cap_bytes}")
        begin = self._spool.end
        position = self._spool.append(record)
        self._recent.put(begin, position, letter)
        self.depth += 1
        if self._sync_timer is None:
            self._look_later(position)
        self._settled.clear()
        if self._gather_timer is None:
            self._gather_timer = self._loop.call_later(GATHER_S, self._gathered)
        return position

    async def synced(self) -> None:
        """Return once everything `put` so far is durable. Raises SpoolBroken."""
        if self._broken:
            raise SpoolBroken(self._broken)
        waiter = self._loop.create_future()
        self._sync_waiters.append(waiter)
        self._sync_wanted.set()
        await waiter

    def sync_soon(self) -> None:
        """Have everything `put` so far made durable in the background."""
        self._sync_wanted.set()

    async def acked(self, position: int, within_s: float) -> PubAck:
        """Return the ack of the letter at `position`; call it before anything else is awaited after `put`.

        Raises:
            StoreUnavailable: no ack within `within_s` seconds; the letter stays and will still be sent.
        """
        waiter: asyncio.Future[PubAck] = self._loop.create_future()
        self._ack_waiters.setdefault(position, []).append(waiter)
        self._wake.set()
        # Not `asyncio.timeout`: it costs several times this, on every decision and every spend.
        late = self._loop.call_later(within_s, self._too_late, waiter, within_s)
        try:
            return await waiter
        finally:
            late.cancel()
            waiters = self._ack_waiters.get(position, [])
            if waiter in waiters:
                waiters.remove(waiter)
            if not waiters:
                self._ack_waiters.pop(position, None)

    def _too_late(self, ack: "asyncio.Future[PubAck]", within_s: float) -> None:
        if not ack.done():
            ack.set_exception(StoreUnavailable(f"no ack within {within_s} s: {self._failed or 'no answer'}"))

    async def drained(self, within_s: float) -> bool:
        """Return whether everything was acked within `within_s` seconds."""
        if self.depth == 0:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._settled.wait()
        return self.depth == 0

    async def close(self, drain_s: float = 5.0) -> bool:
        """Wait at most `drain_s` seconds for acks, then stop; what is left is sent by the next run.

        Returns whether nothing is left.
        """
        if not self._broken:
            with contextlib.suppress(SpoolBroken):
                await self.synced()
        drained = await self.drained(drain_s)
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for timer in (self._gather_timer, self._sync_timer, self._note_timer, self._tick_timer):
            if timer is not None:
                timer.cancel()
        self._give_up("the queue is closed")
        await self._loop.run_in_executor(self._disk, self._close_spool)
        self._disk.shutdown()
        return drained

    def _close_spool(self) -> None:
        with contextlib.suppress(SpoolBroken):
            self._spool.finish(self._acked_to)
            self._spool.close()

    def _gathered(self) -> None:
        self._gather_timer = None
        self._wake.set()

    def _look_later(self, mark: int) -> None:
        """Look in a moment whether the letter that ends at `mark` is acked."""
        self._sync_mark = mark
        self._sync_timer = self._loop.call_later(SYNC_S, self._look)

    def _look(self) -> None:
        self._sync_timer = None
        if self._acked_to < self._sync_mark:
            self._sync_wanted.set()
        elif self._acked_to < self._spool.end:
            self._look_later(self._spool.end)

    async def _sync_loop(self) -> None:
        while True:
            await self._sync_wanted.wait()
            self._sync_wanted.clear()
            waiters, self._sync_waiters = self._sync_waiters, []
            files = self._spool.unsynced()
            try:
                await self._loop.run_in_executor(self._disk, self._spool.sync, files)
            except SpoolBroken as error:
                self._broken = str(error)
                log(logger, logging.ERROR, "spool.broken", detail=self._broken)
            for waiter in waiters:
                if not waiter.done() and self._broken:
                    waiter.set_exception(SpoolBroken(self._broken))
                elif not waiter.done():
                    waiter.set_result(None)

    def _tick(self) -> None:
        """Have the sending task look for missing acks and a server that came back."""
        self._wake.set()
        self._tick_timer = self._loop.call_later(TICK_S, self._tick)

    async def _send_loop(self) -> None:
        failures = 0
        while True:
            self._wake.clear()
            if self._on_way and time.monotonic() - self._on_way[0].at > ACK_TIMEOUT_S:
                self._failed = f"no ack within {ACK_TIMEOUT_S} s"
            if self._failed:
                self._give_up(self._failed)
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
                self._failed = ""
            done = self._acked_to
            try:
                await self._fill()
            except StoreUnavailable as error:
                self._failed = str(error)
                continue
            except Exception as error:  # noqa: BLE001 - the sending task must outlive a fault of one letter
                log(logger, logging.ERROR, "queue.fault", error=type(error).__name__, detail=str(error)[:300])
                self._failed = f"fault: {type(error).__name__}"
                continue
            await self._wake.wait()
            failures = 0 if self._acked_to > done else failures

    async def _fill(self) -> None:
        publisher = self._publisher
        if publisher is None or not publisher.connected:
            return
        while len(self._on_way) < self._window and not self._failed:
            kept = self._recent.at(self._sent_to)
            if kept is not None:
                await self._send(publisher, *kept)
                continue
            before = self._sent_to
            for position, record in self._spool.read(before):
                if len(self._on_way) >= self._window:
                    return
                await self._send(publisher, position, Letter.of(record))
            if self._sent_to == before:
                return

    async def _send(self, publisher: Publishing, position: int, letter: Letter) -> None:
        ack = await publisher.begin(letter.subject, letter.body, msg_id=letter.msg_id)
        entry = _Sent(position, letter, ack, time.monotonic())
        self._on_way.append(entry)
        self._sent_to = position
        ack.add_done_callback(partial(self._on_ack, entry))

    def _on_ack(self, entry: _Sent, ack: "asyncio.Future[PubAck]") -> None:
        if ack.cancelled():
            return
        error = ack.exception()
        if error is not None and not (isinstance(error, StoreRefused) and self._settles(entry.letter, error)):
            self._failed = str(error)
            self._wake.set()
            return
        if error is None:
            for waiter in self._ack_waiters.pop(entry.position, ()):
                if not waiter.done():
                    waiter.set_result(ack.result())
        self._advance()

    def _advance(self) -> None:
        finished = 0
        while self._on_way and self._on_way[0].ack.done() and self._is_settled(self._on_way[0]):
            finished = self._on_way.popleft().position
            self.depth -= 1
        if finished:
            self._acked_to = finished
            if self._note_timer is None:
                self._note_timer = self._loop.call_later(NOTE_S, self._note)
            if self._sent_to < self._spool.end:
                self._wake.set()
            if self.depth == 0:
                self._settled.set()

    def _note(self) -> None:
        self._note_timer = None
        self._spool.finish(self._acked_to)

    def _is_settled(self, entry: _Sent) -> bool:
        error = None if entry.ack.cancelled() else entry.ack.exception()
        if error is None:
            return not entry.ack.cancelled()
        return isinstance(error, StoreRefused) and self._settles(entry.letter, error)

    def _give_up(self, reason: str) -> None:
        """Forget what is on its way; it is sent again from the first letter that has no ack."""
        if self._on_way:
            log(logger, logging.WARNING, "queue.again", letters=len(self._on_way), detail=reason)
        while self._on_way:
            self._on_way.popleft().ack.cancel()
        self._sent_to = self._acked_to
