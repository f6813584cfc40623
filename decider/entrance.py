"""Where callers come in: one server for the whole life of a decider, whatever stands behind it just now.

Guaranteed: it listens before anything can be decided, and the waiting room answers until the services are let
in; from then on every call is theirs. `grpc.health.v1` says which of the two it is.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from decider.connections import HANDSHAKE_S, most_connections
from decider.credentials import server_credentials
from decider.health import Health
from decider.in_force.configuration import Configuration
from decider.service import MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, SERVER_OPTIONS
from decider.settings import DeciderSettings
from decider.whole import Whole
from licet.log import log
from licet.odd_path import keep_serving
from licet.port_file import tell_port

logger = logging.getLogger(__name__)


class Handlers(Protocol):
    """What finds the handler of a call; a `grpc.GenericRpcHandler` is one."""

    def service(self, details: grpc.HandlerCallDetails, /) -> Any:
        """Return the handler of a call, None for somebody else's."""


class Services(grpc.GenericRpcHandler):
    """Services that stand behind one handler; generated `add_…_to_server` functions take it for a server."""

    def __init__(self, *handlers: Handlers) -> None:
        self.handlers: Sequence[Handlers] = handlers
        """Who is asked for a call's handler, in this order; may be replaced while a server runs."""

    def add_generic_rpc_handlers(self, handlers: Sequence[Handlers]) -> None:
        """Serve these as well."""
        self.handlers = (*self.handlers, *handlers)

    def add_registered_method_handlers(self, _service: str, _handlers: object) -> None:
        """Take no note: the same handlers come by `add_generic_rpc_handlers`."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, None where nobody has one."""
        found = (handlers.service(details) for handlers in self.handlers)
        return next((handler for handler in found if handler is not None), None)


class Server(Protocol):
    """What serves calls; a `grpc.aio.Server` is one."""

    def add_generic_rpc_handlers(self, handlers: Sequence[Any], /) -> None:
        """Ask these for the handler of a call."""

    async def start(self) -> None:
        """Listen."""

    async def stop(self, grace: float, /) -> None:
        """Let open calls end, within `grace` seconds, and stop."""


class Entrance:
    """The server of one decider."""

    def __init__(self, settings: DeciderSettings, health: Health, waiting: Handlers) -> None:
        self._settings, self._health = settings, health
        self._services: Final = Services(waiting)
        self._server: Server | None = None
        self.port = 0

    async def listen(self) -> None:
        """Listen; until `let_in` the waiting room answers. Raises OSError, RuntimeError."""
        settings = self._settings
        if not settings.tls:
            log(logger, logging.WARNING, "identity.development", listen=settings.listen)
        self.port = self._take_ngh2() if settings.server == "ngh2" else self._take_grpcio()
        assert self._server is not None, "it has a port"
        handlers = Services(self._services)
        self._health.add_to(handlers)
        whole = handlers if settings.server == "ngh2" else Whole(handlers, settings.half_sent_ms)
        self._server.add_generic_rpc_handlers((whole,))
        await self._server.start()

    def _take_grpcio(self) -> int:
        settings = self._settings
        keep_serving()
        bounds = (
            ("grpc.max_allowed_incoming_connections", most_connections()),
            ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_S * 1_000)),
        )
        server = self._server = grpc.aio.server(options=(*SERVER_OPTIONS, *bounds))
        if settings.tls:
            return server.add_secure_port(settings.listen, server_credentials(settings))
        return server.add_insecure_port(settings.listen)

    def _take_ngh2(self) -> int:
        from decider.server import (
            Limits,
            UnaryServer,
            mutual_tls,
        )  # whoever stays with grpcio loads none of it

        settings = self._settings
        limits = Limits(MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, settings.half_sent_ms, most_connections())
        server = self._server = UnaryServer(limits)
        files = settings.tls_certificate_file, settings.tls_key_file, settings.tls_ca_file
        return server.take_port(settings.listen, mutual_tls(*files) if settings.tls else None)

    def let_in(self, services: Services, configuration: Configuration) -> None:
        """Let these answer from now on, and tell whoever waits for the port. Raises OSError."""
        self._services.handlers = services.handlers
        self._health.configuration = configuration
        tell_port(self._settings.port_file, self.port)

    async def close(self) -> None:
        """Let open calls end, within `drain_ms`, and stop listening."""
        if self._server is not None:
            await self._server.stop(self._settings.drain_ms / 1000)
