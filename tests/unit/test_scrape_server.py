"""The port where Prometheus scrapes takes nothing from the calls of the process it is in."""

import contextlib
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from wsgiref.simple_server import WSGIServer

import pytest
from prometheus_client import CollectorRegistry, Counter, make_wsgi_app

from licet import scrape_server
from licet.scrape_server import MAX_READERS, serve


@pytest.fixture
def server() -> Iterator[WSGIServer]:
    registry = CollectorRegistry()
    Counter("calls", "Calls.", registry=registry).inc()
    serving = serve("127.0.0.1", 0, make_wsgi_app(registry))
    yield serving
    serving.shutdown()
    serving.server_close()


def scraped(server: WSGIServer) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=60) as answer:
        return b"calls_total 1.0" in answer.read()


def silent(server: WSGIServer, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port), timeout=60))


def ended(connection: socket.socket) -> bool:
    with contextlib.suppress(ConnectionError):
        return connection.recv(1) == b""
    return True


def test_silence_takes_few_threads_and_ends(server: WSGIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape_server, "READ_S", 1.0)
    assert scraped(server)
    before = threading.active_count()
    with ExitStack() as stack:
        flood = [silent(server, stack) for _ in range(5 * MAX_READERS)]
        flood[0].sendall(b"GET /metr")
        assert all(ended(one) for one in flood)
        assert (
            threading.active_count() <= before + 2 * MAX_READERS
        )  # a reader has a thread, and its end another
    assert scraped(server)


@pytest.mark.parametrize(
    "said", [b"\x16\x03\x01\x00\xa5\n", b"GET\n\n", b"GET /metrics HTTP/9.9\r\n\r\n", b"\n"]
)
def test_what_is_no_http_ends_its_own_connection_alone(
    server: WSGIServer, said: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        connection = silent(server, stack)
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        while not ended(connection):
            pass
    assert scraped(server)
    assert capfd.readouterr() == ("", "")
