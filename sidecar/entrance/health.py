"""Liveness and readiness over HTTP, apart from the door: a probe has no client certificate.

`/live`: the process runs its loop. `/ready`: every subsystem is well, else 503 with a reason for each that
is not. Guaranteed: neither path says anything about calls. Not guaranteed: that a ready door lets a call
through.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Final

MAX_REQUEST_BYTES: Final = 2_048
REQUEST_TIMEOUT_S: Final = 2.0

MAX_PROBES: Final = 1_000
"""Connections at once; more are closed: calls need three quarters of the descriptors."""

_TEXTS: Final = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


class HealthServer:
    """Answers probes.

    Args:
        reasons: Subsystem to why it is not ready; an empty text means that it is.
    """

    def __init__(self, reasons: Callable[[], Mapping[str, str]]) -> None:
        self._reasons = reasons
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, host: str, port: int, *, shared: bool = False) -> int:
        """Listen, beside other processes when `shared`; return the port."""
        self._server = await asyncio.start_server(
            self._answer, host.strip("[]"), port, limit=MAX_REQUEST_BYTES, reuse_port=shared or None
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= MAX_PROBES:
            writer.close()
            return
        self._open += 1
        try:
            await self._probed(reader, writer)
        finally:
            self._open -= 1

    async def _probed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            writer.close()
            return
        code, body = self._respond(head.split(b" ", 2)[1:2])
        text = json.dumps(body, sort_keys=True).encode()
        writer.write(
            f"HTTP/1.1 {code} {_TEXTS[code]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode()
            + text
        )
        writer.close()

    def _respond(self, path: list[bytes]) -> tuple[int, dict[str, object]]:
        match path:
            case [b"/live"]:
                return 200, {"live": True}
            case [b"/ready"]:
                reasons = {name: reason or "ok" for name, reason in self._reasons().items()}
                ready = all(reason == "ok" for reason in reasons.values())
                return (200 if ready else 503), {"ready": ready, "subsystems": reasons}
            case _:
                return 404, {"error": "use /live or /ready"}
