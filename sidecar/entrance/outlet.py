"""How replies leave: a caller that reads slowly, or not at all, holds back nobody but itself.

Guaranteed: the tool's stream runs to its end and its outcome is known, whether its caller reads, stalls or
has gone; what a caller did not take within `READ_S` of one call is dropped, and that call does not end OK,
so that nobody takes a part for the whole. What callers leave unread is bounded, each by its own share
(`MAX_UNREAD_BYTES`). Not guaranteed: that a call whose reply is not read ends; grpcio cuts no call, only
the caller, the connection's age (`sidecar.entrance.grpc_door`) and the process's end do.
"""

import asyncio
import time
from collections import Counter
from typing import Any, Final

READ_S: Final = 10.0
"""How long a call may wait for its caller to read, all its messages together."""

LARGE_BYTES: Final = 64 * 1024
"""A reply of more bytes does not fit the window that HTTP/2 begins with."""

MAX_UNREAD_BYTES: Final = 32 * 1024 * 1024
"""What large replies of one caller may come to while they are under way."""


class Unread:
    """Counts the large replies that are under way, by caller."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()

    def takes(self, caller: str, size: int, context: Any) -> bool:
        """Say whether one more reply may be sent; if so, it counts until its call is over."""
        if size <= LARGE_BYTES:
            return True
        if self._bytes[caller] and self._bytes[caller] + size > MAX_UNREAD_BYTES:
            return False
        self._bytes[caller] += size
        context.add_done_callback(lambda _: self._read(caller, size))
        return True

    def _read(self, caller: str, size: int) -> None:
        self._bytes[caller] -= size
        if self._bytes[caller] <= 0:
            del self._bytes[caller]


class Outlet:
    """Hands the messages of one stream to its caller.

    Args:
        context: The transport's end of the call.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._left_s = READ_S
        self._writing: asyncio.Future[None] | None = None
        self.cut = False
        """Whether a message was dropped: the caller has gone, or read too slowly."""

    async def send(self, message: bytes) -> None:
        """Hand over one message, or drop it when the caller does not take it."""
        if self.cut or self._context.done():
            self.cut = True
            return
        began = time.monotonic()
        self._writing = asyncio.ensure_future(self._context.write(message))
        await asyncio.wait((self._writing,), timeout=self._left_s)
        self._left_s = max(0.0, self._left_s - (time.monotonic() - began))
        if not self._writing.done() or self._writing.cancelled() or self._writing.exception() is not None:
            self.cut = True

    async def over(self) -> None:
        """Wait until the last message that was handed over is read, or its caller has gone.

        grpcio takes nothing more from us before that, not even a status.
        """
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
