"""One HTTPS exchange with a server that the configuration names.

Guarantees: https only, with a verified certificate, to that host and nowhere else: no redirect is followed,
no proxy of the process's environment is used, and no address comes from a request. It takes `timeout_s` in
all, however slowly the other side sends, and reads at most `max_bytes`.
"""

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

CHUNK_BYTES: Final = 16 << 10
PORT: Final = 443


class HttpsError(Exception):
    """There is no answer; `str()` says why, without what was sent."""


def check_url(url: str) -> str:
    """Return `url` where it is plainly https. Raises `HttpsError`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise HttpsError(f"`{url}` is no URL: {error}") from None
    if parts.scheme != "https" or not parts.hostname or port == 0:
        raise HttpsError(f"`{url}` must be an https URL")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise HttpsError(f"`{url}` must have neither user nor fragment")
    return url


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to ask; `ca_file`: whom its certificate comes from, None: the system's."""

    url: str
    ca_file: Path | None = None
    timeout_s: float = 5.0
    max_bytes: int = 256 << 10


@dataclass(frozen=True, slots=True)
class Question:
    """What to send: a GET without a body, a POST with one."""

    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


def ask(endpoint: Endpoint, question: Question) -> tuple[int, bytes]:
    """Return status and body. Blocks. Raises `HttpsError`."""
    deadline = time.monotonic() + endpoint.timeout_s
    parts = urlsplit(check_url(endpoint.url))
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port or PORT, timeout=endpoint.timeout_s, context=context
        )
        connection.connect()
        cut = threading.Timer(max(0.0, deadline - time.monotonic()), _cut, (connection.sock,))
        cut.start()  # headers that come a byte at a time must end, too
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            method = "GET" if question.body is None else "POST"
            connection.request(method, path, body=question.body, headers=dict(question.headers))
            with connection.getresponse() as answer:
                return answer.status, _body(endpoint, answer, deadline)
        finally:
            cut.cancel()
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise HttpsError(f"`{endpoint.url}` gives no answer: {type(error).__name__}") from None


def _cut(socket_: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket_.shutdown(socket.SHUT_RDWR)


def _body(endpoint: Endpoint, answer: http.client.HTTPResponse, deadline: float) -> bytes:
    found = bytearray()
    while True:
        chunk = answer.read1(CHUNK_BYTES)
        if time.monotonic() >= deadline:  # an end that we made ourselves is no end of the text
            raise HttpsError(f"`{endpoint.url}` did not answer in time")
        if not chunk:
            return bytes(found)
        found += chunk
        if len(found) > endpoint.max_bytes:
            raise HttpsError(f"`{endpoint.url}` answers with more: larger than {endpoint.max_bytes} bytes")
