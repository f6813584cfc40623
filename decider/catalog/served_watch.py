"""Keeps looking at what tools serve, and puts each method that begins or ceases to drift on record."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Final

from decider.catalog.served import Drift
from licet.catalog import Catalog
from licet.event import EventKind
from licet.journal import Journal, SpoolError
from licet.log import log
from licet.streams import StreamsError

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How often the files are looked at, in seconds."""


@contextlib.asynccontextmanager
async def watching(drift: Drift, catalogs: Mapping[str, Catalog], journal: Journal) -> AsyncIterator[None]:
    """Look at once, so that no call is decided before, then every `LOOK_S` until the block ends."""
    await _look(drift, catalogs, journal)
    task = asyncio.create_task(_looking(drift, catalogs, journal))
    try:
        yield
    finally:
        while not task.done():  # before Python 3.12 a cancel can be swallowed
            task.cancel()
            await asyncio.wait({task}, timeout=LOOK_S)


async def _looking(drift: Drift, catalogs: Mapping[str, Catalog], journal: Journal) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            await _look(drift, catalogs, journal)
        except Exception:  # what was found last stays: a fault here must not end the looking
            logger.exception("decider.drift_fault")


async def _look(drift: Drift, catalogs: Mapping[str, Catalog], journal: Journal) -> None:
    for change in await asyncio.to_thread(drift.look, catalogs):
        detail = change.how or "is served as listed again"
        level = logging.WARNING if change.how else logging.INFO
        log(logger, level, "catalog.drift", tool=change.tool, method=change.method, detail=detail)
        try:
            await journal.append(
                EventKind.CATALOG_DRIFT, tool=change.tool, method=change.method, detail=detail
            )
        except (StreamsError, SpoolError) as error:
            log(logger, logging.ERROR, "catalog.drift_not_recorded", detail=str(error)[:300])
