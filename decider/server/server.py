"""The server: its port, its handlers, its end. It has of `grpc.aio.Server` what our services use."""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import grpc

from decider.connections import HANDSHAKE_S
from decider.server.connection import Connection, Limits
from licet.intake import Intake

BACKLOG: Final = 1_024


@dataclass(frozen=True, slots=True)
class _Details(grpc.HandlerCallDetails):
    """Whose handler is asked for."""

    method: str
    invocation_metadata: tuple[()] = ()


class UnaryServer:
    """Serves unary calls on the loop it is started on. It wants a port and handlers before `start`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._handlers: tuple[Any, ...] = ()
        self._listening: socket.socket | None = None
        self._tls: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._connections: Final[set[Connection]] = set()
        self.intake: Final = Intake()
        """The half-sent calls of all connections."""

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        """Ask these, too, for the handler of a call, after those that came before."""
        self._handlers = (*self._handlers, *handlers)

    def take_port(self, address: str, tls: ssl.SSLContext | None = None) -> int:
        """Take `host:port`, port 0 for a free one, and return the port. Raises OSError."""
        host, _, port = address.rpartition(":")
        found = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, place = found[0][0], found[0][4]
        self._listening, self._tls = socket.socket(family, socket.SOCK_STREAM), tls
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(place)
        return int(self._listening.getsockname()[1])

    def _find(self, path: str) -> Any:
        found = (one.service(_Details(path)) for one in self._handlers)
        return next((handler for handler in found if handler is not None), None)

    def _connection(self) -> Connection:
        return Connection(self._find, self._limits, self._connections, self.intake)

    async def start(self) -> None:
        """Listen. Raises OSError."""
        assert self._listening is not None, "it has a port"
        self._server = await asyncio.get_running_loop().create_server(
            self._connection,
            sock=self._listening,
            backlog=BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=HANDSHAKE_S if self._tls is not None else None,
        )

    async def stop(self, grace_s: float) -> None:
        """Take no new connections and calls, let open calls end within `grace_s`, cancel the rest."""
        if self._server is not None:
            self._server.close()
        elif self._listening is not None:
            self._listening.close()
        await asyncio.gather(*(one.drain(grace_s) for one in tuple(self._connections)))
