"""The outbox relay: what the tool's ledger says of itself, carried to the ledger stream.

Guaranteed: a row is acked to the guard only when the stream has it and every row before it; a row that is
relayed twice, also by two sidecars, is stored once (write-once subjects). Not guaranteed: how soon; a row
waits in the tool's own database until it can go.
"""

import asyncio
import contextlib
import logging
from typing import Final, Protocol

from licet.log import log
from licet.streams import StoreRefused, StoreUnavailable, subject_ledger
from licet.v1 import guard_pb2
from sidecar.store.spend import is_used_up

LOG: Final = logging.getLogger(__name__)

BATCH: Final = 200
"""Rows asked for at once."""

IDLE_S: Final = 0.25
"""Between two looks into an empty outbox; a call that had an effect makes it look within `PACE_S`."""

PACE_S: Final = 0.02
"""Between two looks that calls ask for: rows of calls that come fast are carried together."""

FAILED_S: Final = 1.0
"""After rows that could not be published."""


class Rows(Protocol):
    """Where rows come from."""

    async def outbox(self, acked: int, limit: int) -> tuple[guard_pb2.LedgerChange, ...]:
        """Return rows that were not relayed yet, in order; forget those up to `acked`."""


class Stream(Protocol):
    """Where rows go."""

    async def publish(self, subject: str, body: bytes, *, msg_id: str | None = None) -> object:
        """Return when it is stored; raise StoreRefused or StoreUnavailable."""


class OutboxRelay:
    """Carries rows until cancelled.

    Args:
        rows: The guard.
        stream: The publisher.
        environment: Environment.
        tool: Tool name.
    """

    def __init__(self, rows: Rows, stream: Stream, *, environment: str, tool: str) -> None:
        self._rows = rows
        self._stream = stream
        self._environment = environment
        self._tool = tool
        self._acked = 0
        self._poked = asyncio.Event()
        self.relayed = 0
        """Rows carried so far."""

    def poke(self) -> None:
        """Say that there is probably a row."""
        self._poked.set()

    async def run(self) -> None:
        """Relay until cancelled."""
        while True:
            self._poked.clear()
            pause = FAILED_S
            try:
                pause = await self.step()
            except (StoreRefused, StoreUnavailable) as error:
                log(LOG, logging.WARNING, "outbox.stuck", error=str(error)[:200])
            except Exception:
                LOG.exception("outbox.fault")
            if pause:
                await asyncio.sleep(PACE_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._poked.wait()

    async def step(self) -> float:
        """Carry one batch; return how long to wait before the next, seconds."""
        rows = await self._rows.outbox(self._acked, BATCH)
        results = await asyncio.gather(*(self._carry(row) for row in rows), return_exceptions=True)
        for row, result in zip(rows, results, strict=True):
            if isinstance(result, BaseException):
                raise result
            self._acked = max(self._acked, row.outbox_seq)
            self.relayed += 1
        return 0.0 if rows else IDLE_S

    async def _carry(self, row: guard_pb2.LedgerChange) -> None:
        subject = subject_ledger(self._environment, self._tool, row.outbox_seq)
        try:
            await self._stream.publish(subject, row.SerializeToString(deterministic=True))
        except StoreRefused as refused:
            if not is_used_up(refused):
                raise
