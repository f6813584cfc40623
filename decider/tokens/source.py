"""Where an issuer's key set comes from: a file, or a URL of its own.

Guarantees of `UrlSource`: https only, to the host that the settings name and nowhere else: no redirect is
followed, no proxy of the process's environment is used, and no address comes from a request or a token. One
read takes at most `TIMEOUT_S` in all, however slowly the other side sends, and `MAX_JWKS_BYTES`.
"""

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from decider.tokens.keys import MAX_JWKS_BYTES, KeysError

TIMEOUT_S: Final = 5.0
CHUNK_BYTES: Final = 16 << 10


class KeySource(Protocol):
    """Gives the bytes of a key set."""

    async def read(self) -> bytes:
        """Return the key set now. Raises `KeysError`."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A key set in a file, read anew each time."""

    path: Path

    async def read(self) -> bytes:
        """Return the file's bytes. Raises `KeysError`."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                return file.read(MAX_JWKS_BYTES + 1)
        except OSError as error:
            raise KeysError(f"`{self.path}` cannot be read: {error.strerror}") from None


def check_url(url: str) -> str:
    """Return `url` where a key set may be fetched from it. Raises `KeysError`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise KeysError(f"`{url}` is no URL: {error}") from None
    if parts.scheme != "https" or not parts.hostname or port == 0:
        raise KeysError(f"`{url}` must be an https URL")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise KeysError(f"`{url}` must have neither user nor fragment")
    return url


@dataclass(frozen=True, slots=True)
class UrlSource:
    """A key set behind an https URL; `ca_file`: whom its certificate comes from, None: the system's."""

    url: str
    ca_file: Path | None = None
    timeout_s: float = TIMEOUT_S

    async def read(self) -> bytes:
        """Return the body of a 200 answer. Raises `KeysError`."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> bytes:
        deadline = time.monotonic() + self.timeout_s
        parts = urlsplit(check_url(self.url))
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            connection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port or 443, timeout=self.timeout_s, context=context
            )
            connection.connect()
            cut = threading.Timer(max(0.0, deadline - time.monotonic()), _cut, (connection.sock,))
            cut.start()  # headers that come a byte at a time must end, too
            try:
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request("GET", path, headers={"Accept": "application/json"})
                with connection.getresponse() as answer:
                    if answer.status != http.client.OK:
                        raise KeysError(f"`{self.url}` answers {answer.status}; redirects are not followed")
                    return _body(answer, deadline)
            finally:
                cut.cancel()
                connection.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, KeysError):
                raise
            raise KeysError(f"`{self.url}` cannot be read: {type(error).__name__}") from None


def _cut(socket_: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket_.shutdown(socket.SHUT_RDWR)


def _body(answer: http.client.HTTPResponse, deadline: float) -> bytes:
    found = bytearray()
    while True:
        chunk = answer.read1(CHUNK_BYTES)
        if time.monotonic() >= deadline:  # an end that we made ourselves is no end of the text
            raise KeysError("the key set did not come in time")
        if not chunk:
            return bytes(found)
        found += chunk
        if len(found) > MAX_JWKS_BYTES:
            raise KeysError(f"the key set is larger than {MAX_JWKS_BYTES} bytes")
