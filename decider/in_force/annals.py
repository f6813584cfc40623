"""Puts on record what comes into force, what is refused, and which keys come or are revoked with it.

Not guaranteed: an event that the spool does not take; it is in the log, and what is in force is in force.
"""

import logging
from typing import Any

from decider.in_force.in_force import InForce
from licet.event import EventKind
from licet.journal import Journal, SpoolError
from licet.log import log

logger = logging.getLogger(__name__)


class Annals:
    """The events of one decider's configuration."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: InForce | None = None

    async def taken(self, in_force: InForce, detail: str) -> None:
        """Record what is in force from now on, and the keys that came or went with it."""
        await self._record(
            EventKind.BUNDLE_ACTIVATED,
            in_force.config_seq,
            detail,
            bundle_version=in_force.bundle.version,
            generation=in_force.generation,
        )
        known, self._known = self._known, in_force
        await self._record_keys(in_force, known)

    async def _record_keys(self, in_force: InForce, before: InForce | None) -> None:
        """Record each key that came or was revoked; at the start every revoked one, for nobody may have."""
        revoked = in_force.revoked_keys - (before.revoked_keys if before else frozenset())
        added = in_force.keys.keys.keys() - before.keys.keys.keys() if before else frozenset()
        for kind, key_ids in ((EventKind.KEY_ADDED, added), (EventKind.KEY_REVOKED, revoked)):
            for key_id in sorted(key_ids):
                await self._record(kind, in_force.config_seq, "", key_id=key_id)

    async def rejected(self, seq: int, detail: str) -> None:
        """Record that a configuration was refused."""
        await self._record(EventKind.BUNDLE_REJECTED, max(seq, 0), detail)

    async def _record(self, kind: EventKind, seq: int, detail: str, **fields: Any) -> None:
        try:
            await self._journal.append(kind, detail=detail, config_seq=seq, **fields)
        except SpoolError as error:
            log(logger, logging.ERROR, "event.lost", detail=str(error)[:300])
