"""The reserve of the configuration stream: room that calls cannot fill, for what is to be in force.

Holds and tasks lie beside the active configuration, and nothing there ever goes away. A stream that they had
filled would take no revocation. Guaranteed: who asks for `room` first stores nothing new once `SHARE` of the
stream is used, as its leader said at most `LOOK_MS` ago, with all that was stored by way of this reserve
since. Not guaranteed: what other processes stored within that moment.
"""

import asyncio
from typing import Final

from nats.aio.client import Client

from licet.clock import elapsed_ms
from licet.streams.api import stream_info
from licet.streams.errors import StoreUnavailable

SHARE: Final = 0.8
"""How much of the stream calls may fill; the rest is kept."""

LOOK_MS: Final = 1_000


class Reserve:
    """The reserve of one stream; asks its leader over `nc`."""

    def __init__(self, nc: Client, stream: str) -> None:
        self._nc, self._stream = nc, stream
        self._looking: Final = asyncio.Lock()
        self._looked_at_ms: int | None = None
        self._used = 0
        self._may_use: float | None = None

    async def room(self, size: int) -> None:
        """Return where `size` more bytes leave the reserve as it is.

        Raises:
            StoreUnavailable: they do not, or the leader gave no answer; nothing may be stored.
        """
        async with self._looking:
            now_ms = elapsed_ms()
            if self._looked_at_ms is None or now_ms - self._looked_at_ms >= LOOK_MS:
                await self._look()
                self._looked_at_ms = now_ms
        if self._may_use is not None and self._used + size > self._may_use:
            why = f"{SHARE:.0%} of `{self._stream}` are used, the rest is kept for configuration"
            raise StoreUnavailable(why, maybe_stored=False)
        self._used += size

    async def used(self) -> float:
        """Return which share of the stream is used, asked anew; 0 where it has no limit.

        Raises `StreamsError`.
        """
        async with self._looking:
            await self._look()
            self._looked_at_ms = elapsed_ms()
        return self._used * SHARE / self._may_use if self._may_use else 0.0

    async def _look(self) -> None:
        info = await stream_info(self._nc, self._stream)
        if info is None:
            raise StoreUnavailable(f"there is no stream `{self._stream}`", maybe_stored=False)
        limit = int(info["config"].get("max_bytes", -1))
        self._used, self._may_use = int(info["state"]["bytes"]), limit * SHARE if limit > 0 else None
