"""What stops writes here, as events: a beacon that went stale, a store whose settings are not safe.

Guaranteed: one event when it begins, and the log says when it ends; not one for every refused call, which
has its own. Not guaranteed: that a state shorter than `LOOK_S` is seen.
"""

import asyncio
import logging
from typing import Final

from licet.beacon import MAX_AGE_MS
from licet.event import EventKind
from licet.journal import SpoolError
from licet.log import log
from licet.tier import CallClass
from sidecar.knowledge import Knowledge
from sidecar.parts import Journal

LOG: Final = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""Between two looks."""

STALE_MS: Final = MAX_AGE_MS[CallClass.WRITE]
"""From this age on, writes are refused."""


class Watch:
    """Looks until cancelled.

    Args:
        knowledge: What is current.
        journal: Where events go.
    """

    def __init__(self, knowledge: Knowledge, journal: Journal) -> None:
        self._knowledge = knowledge
        self._journal = journal
        self._begun: set[EventKind] = set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except SpoolError as error:
                log(LOG, logging.ERROR, "watch.unrecorded", error=str(error)[:200])

    async def look(self) -> None:
        """Say what has begun or ended since the last look."""
        known, age_ms = self._knowledge.known, self._knowledge.age_ms()
        if known is None or age_ms is None:
            return  # never began: readiness says so, and no call came through yet
        stale = (
            f"{age_ms} ms old: {self._knowledge.trouble or 'nothing newer came'}" if age_ms > STALE_MS else ""
        )
        unsafe = (
            "" if known.held.beacon.store_safe else "the decider found the spend stream's settings unsafe"
        )
        await self._note(EventKind.BEACON_STALE, stale)
        await self._note(EventKind.STORE_UNSAFE, unsafe)

    async def _note(self, kind: EventKind, detail: str) -> None:
        if bool(detail) is (kind in self._begun):
            return
        log(LOG, logging.WARNING, kind.value if detail else f"{kind.value}.over", detail=detail)
        if detail:
            await self._journal.append(kind, detail=detail)
            self._begun.add(kind)
        else:
            self._begun.discard(kind)
