"""Waits for what nothing can be decided without: a connection to NATS, a configuration in force, its records.

None of it gives up: a cluster without a leader, a server that is away, streams that nobody made yet, a record
that is refused all pass by themselves or by somebody's hand. `tell` hears why it waits, each time it looks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from decider.in_force.configuration import Configuration
from licet.keys import KeySet
from licet.streams import Connection, NatsSettings, StoreUnavailable, StreamsError, connect

TRY_AGAIN_S: Final = 0.2
"""Between two looks, in seconds."""

CONNECT_WITHIN_S: Final = 10.0
"""How long one try to connect may take, in seconds."""

T = TypeVar("T")

Tell = Callable[[str], None]


async def connected(
    settings: NatsSettings, name: str, tell: Tell, *, within_s: float = CONNECT_WITHIN_S
) -> Connection:
    """Return a connection, whenever it can be had. Raises `CredentialsRefused`; OSError for a file."""
    way = partial(connect, settings, name, within_s=within_s)
    return await patiently(way, tell, passing=StoreUnavailable)


async def patiently(
    work: Callable[[], Awaitable[T]], tell: Tell, *, passing: type[StreamsError] = StreamsError
) -> T:
    """Return what `work` does once the store answers it; each try is a new one.

    `passing`: what is waited out; anything else is raised.
    """
    while True:
        try:
            return await work()
        except passing as error:
            tell(str(error))
        await asyncio.sleep(TRY_AGAIN_S)


async def first_configuration(
    configuration: Configuration,
    environment: str,
    tell: Tell,
    *,
    wall_ms: Callable[[], int],
    monotonic_ms: Callable[[], int],
) -> KeySet:
    """Return the key set of the first configuration: without it no catalog can be verified."""
    while True:
        read = await patiently(
            lambda: configuration.refresh(now_ms=wall_ms(), monotonic_ms=monotonic_ms()), tell
        )
        if read is not None:
            return read.in_force.keys
        refused = f"the record is refused: {configuration.refused}" if configuration.refused else ""
        why = refused or "run `licet policy activate`"
        tell(f"no configuration is in force in environment `{environment}`: {why}")
        await asyncio.sleep(TRY_AGAIN_S)
