"""A process's own event log, and the durable queue it stands on."""

from licet.journal.journal import Journal, Sealing
from licet.journal.payloads import LeftOut
from licet.journal.queue import DurableQueue, Letter
from licet.journal.spool import Spool, SpoolBroken, SpoolError, SpoolFull

__all__ = [
    "DurableQueue",
    "Journal",
    "LeftOut",
    "Letter",
    "Sealing",
    "Spool",
    "SpoolBroken",
    "SpoolError",
    "SpoolFull",
]
