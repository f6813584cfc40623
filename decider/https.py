"""One HTTPS exchange with a server that the configuration names.

Guarantees: https only, with a verified certificate, to that host and nowhere else: no redirect is followed,
no proxy of the process's environment is used, and no address comes from a request. A name that leads to an
address inside is not asked unless the configuration says that it may. It takes `timeout_s` with the look-up
of the name, however slowly name server and other side answer, and reads at most `max_bytes`.
"""

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from decider.resolver import Place, Resolver

CHUNK_BYTES: Final = 16 << 10
PORT: Final = 443
MIN_WAIT_S: Final = 0.05
_NAT64: Final = IPv6Network("64:ff9b::/96")


_RESOLVER: Final = Resolver()


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
    """Where to ask.

    `ca_file`: whom its certificate comes from, None: the system's. `private`: its name may lead to an address
    that is not of the public network; an address in the URL itself may in any case.
    """

    url: str
    ca_file: Path | None = None
    timeout_s: float = 5.0
    max_bytes: int = 256 << 10
    private: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What to send: a GET without a body, a POST with one."""

    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


def ask(endpoint: Endpoint, question: Question) -> tuple[int, bytes]:
    """Return status and body. Blocks. Raises `HttpsError`."""
    deadline = time.monotonic() + endpoint.timeout_s
    parts = urlsplit(check_url(endpoint.url))
    host, port = parts.hostname or "", parts.port or PORT
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
        context.set_alpn_protocols(["http/1.1"])
        wait_s = max(0.0, deadline - time.monotonic())
        plain = _connected(_addresses(endpoint, host, port, wait_s), deadline)
        secure = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
        cut = threading.Timer(max(0.0, deadline - time.monotonic()), _cut, (secure,))
        cut.start()  # a handshake and headers that come a byte at a time must end, too
        try:
            secure.do_handshake()
            connection = http.client.HTTPSConnection(host, port, context=context)
            connection.sock = secure
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            method = "GET" if question.body is None else "POST"
            connection.request(method, path, body=question.body, headers=dict(question.headers))
            with connection.getresponse() as answer:
                return answer.status, _body(endpoint, answer, deadline)
        finally:
            cut.cancel()
            secure.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise HttpsError(f"`{endpoint.url}` gives no answer: {type(error).__name__}") from None


def is_inside(address: str) -> bool:
    """Tell whether an IP address is none of the public network, also one of IPv4 that IPv6 carries."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        carried = found.ipv4_mapped or found.sixtofour
        if found in _NAT64:
            carried = IPv4Address(int(found) & 0xFFFFFFFF)
        found = carried or found
    return not found.is_global or found.is_multicast


def _never(address: str) -> bool:
    """Tell whether no name may lead there at all: to what clouds tell their machines, or to nobody."""
    found = ip_address(address.partition("%")[0])
    carried = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    found = carried or found
    return found.is_link_local or found.is_multicast or found.is_unspecified


def _addresses(endpoint: Endpoint, host: str, port: int, wait_s: float) -> list[Place]:
    """Return where to connect. What is looked at is what is connected to: no second answer of a resolver."""
    listed = _RESOLVER.places(host, port, wait_s)
    with contextlib.suppress(ValueError):
        ip_address(host)
        return listed  # an address in the configuration itself says where it leads
    for _, (address, _) in listed:
        if _never(address) or (is_inside(address) and not endpoint.private):
            raise HttpsError(f"`{endpoint.url}` leads to {address}, which is inside: say `private: true`")
    return listed


def _connected(addresses: list[Place], deadline: float) -> socket.socket:
    trouble = OSError("no address")
    for family, place in addresses:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.settimeout(max(MIN_WAIT_S, deadline - time.monotonic()))
        try:
            made.connect(place)
        except OSError as error:
            made.close()
            trouble = error
        else:
            return made
    raise trouble


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
