"""Notices when holds run out unanswered: one `approval.expired` for each, and who waits for it is told.

What a decider did not live to tell of an answer is told by the same look (`decider.approval.told`).

Each decider looks every `LOOK_S` seconds; a marker beside the hold, written once, says that somebody told it.
Two deciders that look in the same moment may both tell it (events are at least once), a decider that dies in
between has it told by the next look. What the call itself then gets, HOLD_EXPIRED, does not wait for this.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from decider.approval.holds import Holds
from decider.approval.told import Teller
from decider.approval.votes import HoldState, Tally, bench_of, read_hold, tally
from decider.decision.record import hold_fields
from decider.in_force.configuration import Configuration
from decider.notices.announcer import Announcer
from decider.notices.notice import NoticeKind, notice_of
from licet.event import EventKind
from licet.journal import Journal, SpoolError
from licet.log import log
from licet.refusal import Refusal
from licet.streams import StreamsError
from licet.v1.hold_pb2 import Hold

logger = logging.getLogger(__name__)

LOOK_S: Final = 15.0


class ExpiryWatch:
    """Looks at the holds of one environment. `wall_ms`: Unix ms."""

    def __init__(
        self,
        holds: Holds,
        configuration: Configuration,
        journal: Journal,
        announcer: Announcer,
        wall_ms: Callable[[], int],
    ) -> None:
        self._holds, self._configuration, self._journal = holds, configuration, journal
        self._announcer, self._wall_ms = announcer, wall_ms
        self._teller = Teller(holds, journal, announcer)
        self._done: set[str] = set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
            except (StreamsError, SpoolError) as error:
                log(logger, logging.WARNING, "holds.not_read", detail=str(error)[:300])
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look once. Raises `StreamsError`, `SpoolError`."""
        for stored in await self._holds.listed():
            hold = read_hold(stored, self._wall_ms())
            if isinstance(hold, Refusal) or hold.hold_id in self._done:
                continue
            if self._wall_ms() >= hold.expires_at_ms:
                await self._ended(hold, stored)
                self._done.add(hold.hold_id)
        if self._configuration.current is not None:
            await self._teller.look(self._configuration.current, self._wall_ms())

    async def _ended(self, hold: Hold, stored: bytes) -> None:
        if await self._holds.is_marked(hold) or not await self._unanswered(hold, stored):
            return
        await self._journal.append_acked(EventKind.APPROVAL_EXPIRED, **hold_fields(hold))
        if await self._holds.mark(hold):
            self._announcer.tell(notice_of(NoticeKind.EXPIRED, hold))

    async def _unanswered(self, hold: Hold, stored: bytes) -> bool:
        """Tell whether it was still open in its last moment."""
        in_force = self._configuration.current
        if in_force is None:
            return False
        bench = replace(bench_of(in_force, self._wall_ms()), now_ms=hold.expires_at_ms - 1)
        found = tally(stored, await self._holds.answers(hold), bench)
        return isinstance(found, Tally) and found.state is HoldState.OPEN
