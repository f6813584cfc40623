"""One unary call as the wire has it: its head, its one message, its status. Pure.

Guaranteed: a `Head` is of a POST of gRPC, with metadata as the caller sent it; anything else is a `Misfit`,
which says how it is answered. Source: gRPC over HTTP/2 (`doc/PROTOCOL-HTTP2.md` of grpc).
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_from_bytes

import grpc

Metadata = tuple[tuple[str, str | bytes], ...]
Headers = Sequence[tuple[bytes, bytes]]

PREFIX_BYTES: Final = 5
"""Before a message: one byte that says whether it is compressed, four for its length."""
FIELD_BYTES: Final = 32
"""What a header field counts beside its name and value (RFC 9113, 6.5.2)."""

CONTENT: Final = b"application/grpc"
OK_HEADERS: Final = ((b":status", b"200"), (b"content-type", CONTENT))
OK_TRAILERS: Final = ((b"grpc-status", b"0"),)

_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_TRANSPORT: Final = frozenset({b"te", b"grpc-encoding", b"grpc-accept-encoding", b"accept-encoding"})
"""Headers of the transport itself, which no handler sees."""
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


@dataclass(frozen=True, slots=True)
class Misfit:
    """A request that is no usable call: its HTTP status, and its gRPC status where that is 200."""

    http_status: bytes = b"200"
    code: grpc.StatusCode = grpc.StatusCode.INTERNAL
    details: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """What the headers of a call say; `timeout_s` is None where the caller waits without end."""

    path: str
    metadata: Metadata
    timeout_s: float | None


def size_of(headers: Headers) -> int:
    """Return the size of headers as HTTP/2 counts it, in bytes."""
    return sum(len(name) + len(value) + FIELD_BYTES for name, value in headers)


def read_head(headers: Headers) -> Head | Misfit:
    """Return what the headers of a request say."""
    own: dict[bytes, bytes] = {}
    metadata: list[tuple[str, str | bytes]] = []
    for name, value in headers:
        if name[:1] == b":" or name in {b"content-type", b"grpc-timeout"}:
            own[name] = value
        elif name not in _TRANSPORT:
            read = _entries(name, value)
            if read is None:
                return Misfit(details="metadata cannot be read")
            metadata.extend(read)
    if own.get(b":method") != b"POST":
        return Misfit(http_status=b"405")
    content = own.get(b"content-type", b"")
    if not content.startswith(CONTENT) or content[len(CONTENT) :][:1] not in {b"", b"+", b";"}:
        return Misfit(http_status=b"415")
    timeout_s = None
    if b"grpc-timeout" in own:
        timeout_s = _seconds(own[b"grpc-timeout"])
        if timeout_s is None:
            return Misfit(details="the timeout cannot be read")
    path = own.get(b":path", b"").decode("ascii", "replace")  # what is no ASCII is no path of any service
    return Head(path, tuple(metadata), timeout_s)


def _seconds(value: bytes) -> float | None:
    digits, unit = value[:-1], _UNITS.get(value[-1:])
    return int(digits) * unit if unit is not None and len(digits) <= 8 and digits.isdigit() else None


def _entries(name: bytes, value: bytes) -> list[tuple[str, str | bytes]] | None:
    key = name.decode("ascii", "replace")
    if not name.endswith(b"-bin"):
        return [(key, value.decode("ascii") if value.isascii() else value)]
    try:
        parts = [part.strip() for part in value.split(b",")]
        return [(key, base64.b64decode(part + b"=" * (-len(part) % 4), validate=True)) for part in parts]
    except binascii.Error:
        return None


def message_in(body: bytes | bytearray) -> bytes | Misfit:
    """Return the one message of a whole body."""
    if len(body) < PREFIX_BYTES or int.from_bytes(body[1:PREFIX_BYTES], "big") != len(body) - PREFIX_BYTES:
        return Misfit(details="not one whole message")
    if body[0]:
        return Misfit(code=grpc.StatusCode.UNIMPLEMENTED, details="compressed messages are not read here")
    return bytes(memoryview(body)[PREFIX_BYTES:])


def framed(message: bytes) -> bytes:
    """Return a message as a body."""
    return b"\x00" + len(message).to_bytes(4, "big") + message


def status_headers(
    code: grpc.StatusCode, details: str, trailing: Iterable[tuple[str, str | bytes]] = ()
) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer that is a status alone."""
    headers = [*OK_HEADERS, (b"grpc-status", b"%d" % code.value[0])]
    if details:
        headers.append(
            (b"grpc-message", quote_from_bytes(details.encode("utf-8", "replace"), _PLAIN).encode())
        )
    for key, value in trailing:
        name, raw = key.encode("ascii"), value.encode("ascii") if isinstance(value, str) else value
        headers.append((name, base64.b64encode(raw).rstrip(b"=") if name.endswith(b"-bin") else raw))
    return headers
