"""Where Prometheus scrapes: HTTP for a few readers at once, each for a moment.

Guaranteed: whoever connects and says nothing, or a byte now and then, or does not read, is cut after
`READ_S`; more than `MAX_READERS` at once are turned away; so nobody at this port takes the process's threads,
memory or descriptors, which its calls need. Not guaranteed: that a lawful reader gets through while others
take every place; calls are what must.
"""

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

MAX_READERS: Final = 16
"""Connections at once, a thread each."""

READ_S: Final = 10.0
"""From a connection to its end: Prometheus's own timeout."""


class _Server(WSGIServer):
    """A thread for each connection, and few of them."""

    request_queue_size = 128

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._places = threading.BoundedSemaphore(MAX_READERS)
        super().__init__(*arguments, **named)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or turn away."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        threading.Thread(target=self._answer, args=(request, client_address), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a reader that was cut, or sent no HTTP, is no fault of ours."""

    def _answer(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(READ_S, _cut, (request,))
        end.daemon = True
        end.start()
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - whatever a reader sends ends its own connection alone
            self.handle_error(request, client_address)
        finally:
            end.cancel()
            self._places.release()
            self.shutdown_request(request)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Write no line for each scrape."""


def serve(host: str, port: int, application: "WSGIApplication") -> WSGIServer:
    """Serve what Prometheus reads, in a thread; port 0 takes a free one. Raises OSError for a taken one."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    kind = _Server6 if family is socket.AF_INET6 else _Server
    server = make_server(host, port, application, kind, _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)
