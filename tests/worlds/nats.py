"""A nats-server with the streams of one environment, its users, and ways to look into it and to get in its
way.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from licet.beacon import HeldBeacon, read_beacon
from licet.embedded.nats_accounts import SETUP, sidecar_user
from licet.embedded.nats_server import NatsServer
from licet.permit import DoorState, Permit, Presented, examine
from licet.refusal import Refusal
from licet.revocation import NONE
from licet.streams import (
    EMBEDDED_SIZES,
    Connection,
    Publisher,
    StoredMessage,
    StoreUnavailable,
    apply_streams,
    connect,
    read_seq,
    stream_info,
)
from licet.v1.statement_pb2 import Signed
from tests.worlds.guarded_tool import QuickMint
from tests.worlds.mint import AGENT, ENVIRONMENT, REFUND, now_ms, refund

TOOLS = ("finance", "crm")
Heard = TypeVar("Heard")


class NatsWorld:
    """One running server; connections it opened are closed with it."""

    def __init__(self, directory: Path) -> None:
        self.server = NatsServer(directory, environment=ENVIRONMENT, tools=TOOLS)
        self._open: list[Connection] = []
        self.setup: Connection

    async def start(self) -> None:
        self.server.start()
        self.setup = await self.connect(SETUP)
        await apply_streams(self.setup, ENVIRONMENT, sizes=EMBEDDED_SIZES)

    async def stop(self) -> None:
        for connection in self._open:
            with contextlib.suppress(Exception):
                await connection.close()
        self.server.stop()

    async def connect(self, user: str, url: str | None = None) -> Connection:
        connection = await connect(self.server.settings(user, url=url), f"test-{user}")
        self._open.append(connection)
        return connection

    async def sidecar(self, tool: str = "finance", url: str | None = None) -> Publisher:
        return await Publisher.open(await self.connect(sidecar_user(tool), url))

    async def messages(self, stream: str) -> list[StoredMessage]:
        info = await stream_info(self.setup, stream)
        assert info is not None
        numbers = range(info["state"]["first_seq"] or 1, info["state"]["last_seq"] + 1)
        found = [await read_seq(self.setup, stream, number) for number in numbers]
        return [message for message in found if message is not None]

    async def subjects(self) -> dict[str, set[str]]:
        """Return every subject that holds a message, by stream."""
        found: dict[str, set[str]] = {}
        for name in ("SPEND", "SPEND_LOG", "AUDIT", "LEDGER", "CONFIG", "BUDGET"):
            stream = f"LICET_{name}_{ENVIRONMENT}"
            found[stream] = {message.subject for message in await self.messages(stream)}
        return found

    async def until(self, stream: str, count: int) -> list[StoredMessage]:
        """Return the messages of `stream` once there are `count` of them; sits out a server that is away."""
        found: list[StoredMessage] = []
        async with asyncio.timeout(60):
            while len(found) < count:
                await asyncio.sleep(0.02)
                with contextlib.suppress(StoreUnavailable):
                    found = await self.messages(stream)
        return found


async def hears(
    say: Callable[[], Awaitable[None]], heard: asyncio.Queue[Heard], what: Callable[[Heard], bool]
) -> Heard:
    """Say something again until `what` was heard: return that.

    A message that no stream keeps is lost where nobody listens yet, and a server may learn of a listener in
    another account only after that one's flush came back.
    """
    async with asyncio.timeout(60):
        while True:
            await say()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    while not what(item := await heard.get()):
                        pass
                    return item


@contextlib.asynccontextmanager
async def nats_world(directory: Path) -> AsyncIterator[NatsWorld]:
    world = NatsWorld(directory)
    try:
        await world.start()
        yield world
    finally:
        await world.stop()


class Door:
    """What a door knows, and permits that it examined: the real thing, from a mint."""

    def __init__(self, mint: QuickMint) -> None:
        self.mint = mint
        self._said: dict[str, Any] = {}
        self.held = self.hold(mint.beacon())

    def hold(self, signed: Signed) -> HeldBeacon:
        now = now_ms()
        beacon = read_beacon(signed, self.mint.keyset, environment=ENVIRONMENT, now_ms=now)
        assert not isinstance(beacon, Refusal), beacon
        return HeldBeacon.received(beacon, now_ms=now, monotonic_ms=now)

    def says(self, **changes: Any) -> None:
        """Hold another beacon from now on."""
        self._said = changes
        self.again()

    def again(self) -> None:
        """Hold a new beacon that says what the last one said."""
        self.held = self.hold(self.mint.beacon(**self._said))

    def permit(self, **changes: Any) -> Permit:
        """Return a permit that came through checks 2 to 11."""
        body = refund().SerializeToString()
        now = now_ms()
        self.held = HeldBeacon(self.held.beacon, now, 0)
        state = DoorState(
            environment=ENVIRONMENT,
            audience=self.mint.audience,
            catalog=self.mint.catalog,
            keys=self.mint.keyset,
            revocations=NONE,
            beacon=self.held,
            k_tool=self.mint.k_tool,
            generation=self.held.beacon.generation,
        )
        raw = self.mint.permit(body=body, generation=self.held.beacon.generation, **changes)
        presented = Presented(REFUND, (raw,), (), body, AGENT)
        permit = examine(presented, state, now_ms=now, monotonic_ms=now)
        assert not isinstance(permit, Refusal), permit
        return permit


class Proxy:
    """A TCP proxy before the server that can lose what the server answers, or everything."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.swallow = False
        self.black_hole = False
        self._pairs: list[asyncio.StreamWriter] = []
        self._stopped = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._stopped = True
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        """Break every connection."""
        for writer in self._pairs:
            writer.close()
        self._pairs.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._port)
        self._pairs += (writer, upstream)
        if self._stopped:  # a client came back meanwhile; left open, it fails the test that collects it
            self.cut()
        await asyncio.gather(
            self._carry(reader, upstream, answers=False),
            self._carry(upstream_reader, writer, answers=True),
            return_exceptions=True,
        )

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        while block := await reader.read(65_536):
            if self.black_hole or (answers and self.swallow):
                continue
            writer.write(block)
            await writer.drain()
        writer.close()
