"""The tool over a Unix socket, without grpcio's client: the same gRPC on the wire for a third of the CPU.

Guaranteed: as `tool.link`, whose contract tests this passes: what goes to the tool is our own encoding,
sent once; `sent` is False only when no connection stood or it took no request, so no byte can have left. The
guard's own service is still spoken to by grpcio, on a connection of its own.
"""

import asyncio
from binascii import b2a_base64
from functools import partial
from pathlib import Path
from typing import Final

import ngh2

from sidecar.exchange import ToolAnswer
from sidecar.parts import Forward
from sidecar.tool.http2 import Link, Rpc
from sidecar.tool.link import CONNECT_TIMEOUT_S, UNSENT, SocketTool, answer_of, pairs_to_tool

FIRST_PAUSE_S: Final = 0.05
LAST_PAUSE_S: Final = 0.5
"""Between two attempts to connect."""

_FIELDS: Final = (
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity"),
)


class Http2Tool(SocketTool):
    """A tool behind a Unix socket.

    Args:
        socket: Path of the socket; it need not exist yet.
    """

    def __init__(self, socket: Path) -> None:
        super().__init__(socket)
        self._path = str(socket)
        self._link: Link | None = None
        self._came = asyncio.Event()

    def start(self) -> None:
        """Connect, and stay connected."""
        self._watch = asyncio.get_running_loop().create_task(self._kept())

    async def close(self) -> None:
        """Close the connection."""
        await super().close()
        if self._link is not None:
            self._link.close()

    @property
    def reachable(self) -> bool:
        """Whether a connection stands now."""
        return self._link is not None and not self._link.lost.done()

    async def ready(self) -> bool:
        """Return whether a connection stands, after a moment's wait; False proves that nothing was sent."""
        if not self.reachable:
            self._came.clear()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await self._came.wait()
            except TimeoutError:
                return False
        return self.reachable

    async def call(self, forward: Forward) -> ToolAnswer:
        """Make the call; never raises for what the tool or the connection did."""
        if not self.reachable and not await self.ready():
            return UNSENT
        assert self._link is not None
        send = forward.request.send
        try:
            rpc = self._link.begin(
                _headers(forward), forward.permit.arguments.canonical, streaming=send is not None
            )
        except ngh2.NGH2Error:
            self._link.close()  # it takes nothing more: the next call has another
            return UNSENT
        rpc.expire_in(forward.timeout_ms / 1000)
        try:
            while not rpc.ended or (send is not None and rpc.messages):
                if send is not None and rpc.messages:
                    await send(rpc.take())
                else:
                    await rpc.moved()
        finally:
            rpc.abandon(1, "nobody waits any more")
        return _answer(rpc)

    async def _kept(self) -> None:
        pause = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            link = Link()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await loop.create_unix_connection(partial(_same, link), self._path)
                    await link.ready
            except asyncio.CancelledError:
                link.close()
                raise
            except (OSError, TimeoutError):
                link.close()
                await asyncio.sleep(pause)
                pause = min(2 * pause, LAST_PAUSE_S)
                continue
            if not link.lost.done():
                pause = FIRST_PAUSE_S
                self._link = link
                self._came.set()
                await asyncio.wait((link.lost,))
            await asyncio.sleep(pause)


def _same(link: Link) -> Link:
    return link


def _answer(rpc: Rpc) -> ToolAnswer:
    body = rpc.messages[0] if not rpc.code and not rpc.streaming else b""
    return answer_of(rpc.code, rpc.message, body, rpc.initial, rpc.trailing)


def _headers(forward: Forward) -> list[tuple[bytes, bytes]]:
    headers = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", forward.permit.method.path.encode()),
        (b":authority", b"tool"),
        (b"grpc-timeout", b"%dm" % max(1, forward.timeout_ms)),
        *_FIELDS,
    ]
    for key, value in pairs_to_tool(forward):
        if isinstance(value, bytes):
            headers.append((key.encode(), b2a_base64(value, newline=False).rstrip(b"=")))
        else:
            headers.append((key.encode(), value.encode("ascii")))
    return headers
