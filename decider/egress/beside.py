"""The egress check of a running decider: no caller's arguments hold up the calls of others.

Guaranteed: what is read on the event loop is within `AT_ONCE`; whatever takes more is read in one thread
beside it, one call after another, and RE2 gives the interpreter up while it searches. What would have to wait
behind `MAX_WAITING` others is not read, and says so (`egress:unchecked`).
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from decider.egress.check import Allowed, Report, inspect
from decider.egress.reading import AT_ONCE
from licet.call import Arguments

MAX_INLINE_BYTES: Final = 4 << 10
"""Arguments up to this size are tried on the event loop, in bytes."""

MAX_WAITING: Final = 500
"""How many calls wait for the thread at once; each takes its caller's quota by its size."""


class Beside:
    """The thread, and who waits for it. For one event loop at a time."""

    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix="egress")
        self._max_waiting, self._waiting = max_waiting, 0

    async def inspect(self, arguments: Arguments, *, allowed: Allowed | None = None) -> Report:
        """Return what the arguments of a call hold that may have to stay inside."""
        if len(arguments.canonical) <= MAX_INLINE_BYTES:
            report = inspect(arguments, allowed=allowed, bounds=AT_ONCE)
            if report.whole:
                return report
        if self._waiting >= self._max_waiting:
            return Report((), whole=False)
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, lambda: inspect(arguments, allowed=allowed))
        finally:
            self._waiting -= 1
