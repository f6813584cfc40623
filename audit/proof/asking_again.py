"""JetStream asked until it answers: over a connection that may be lost, for a bounded time, and said aloud.

Guarantees: a step is run again, on a new connection where the old one is gone, until it succeeds or until
`patience_s` seconds have passed since JetStream last answered; each wait is told, with what is waited for and
how long still. Then StoreUnavailable: nothing that was not read counts as read. A step must be safe to run
again. Refused credentials, and a subject that this user may not use, are raised at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from nats.errors import Error as NatsError

from licet.streams import CredentialsRefused, NatsSettings, StoreUnavailable, StreamsError, connect

if TYPE_CHECKING:
    from licet.streams import Connection

PATIENCE_S: Final = 60.0
"""A server that was killed reads its streams anew before it answers; large ones take tens of seconds."""
PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0)
"""Seconds between tries; the last one repeats."""

T = TypeVar("T")


class AskingAgain:
    """One user's way to JetStream. `tell` is given each wait, as a sentence."""

    def __init__(
        self,
        settings: NatsSettings,
        name: str,
        *,
        tell: Callable[[str], None] = lambda _: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._settings = settings
        self._name = name
        self._tell = tell
        self._patience_s = patience_s
        self._connection: Connection | None = None
        self._forbidden = ""

    async def ask(self, what: str, step: Callable[["Connection"], Awaitable[T]]) -> T:
        """Return what `step` returns; `what` names it to people. Raises StreamsError once patience ends."""
        clock = asyncio.get_running_loop().time
        end, tries = clock() + self._patience_s, 0
        while True:
            try:
                return await step(await self._connected())
            except CredentialsRefused:
                raise
            except StreamsError as error:
                if self._forbidden:
                    raise StoreUnavailable(self._forbidden) from error
                left = end - clock()
                if left <= 0:
                    waited = f"waited {self._patience_s:.0f} s for {what}, in vain"
                    raise StoreUnavailable(f"{waited}: {error}") from error
                self._tell(f"waiting for JetStream, {left:.0f} s more at most: {what}: {error}")
                await asyncio.sleep(min(PAUSES_S[min(tries, len(PAUSES_S) - 1)], left))
                tries += 1

    async def close(self) -> None:
        """Give the connection back. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(NatsError, OSError):
                await connection.close()

    async def _connected(self) -> "Connection":
        if self._connection is not None and not self._connection.is_connected:
            await self.close()
        if self._connection is None:
            self._connection = await connect(self._settings, self._name, forever=False)
            self._connection.listeners.append(self._note)
        return self._connection

    def _note(self, error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            self._forbidden = str(error)[:300]
