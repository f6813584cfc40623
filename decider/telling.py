"""Tells of what was only counted: every so often, and once more at the end."""

import asyncio
import logging
from typing import Final

from licet.flood import FloodRecord
from licet.journal import SpoolError
from licet.log import log

logger = logging.getLogger(__name__)

TELL_S: Final = 1.0
"""Between two looks at requests that were counted rather than told one by one, in seconds."""


async def telling(flood: FloodRecord) -> None:
    """Tell again and again, until cancelled."""
    while True:
        await asyncio.sleep(TELL_S)
        await tell(flood)


async def tell(flood: FloodRecord, *, last: bool = False) -> None:
    """Tell what was counted so far; what cannot be told now is told later, unless it is the last time."""
    try:
        await flood.tell(last=last)
    except SpoolError as error:
        log(logger, logging.ERROR, "decider.counts_untold", detail=str(error)[:300])
