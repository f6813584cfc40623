"""HTTP/2 by hand (RFC 9113), as an attacker writes it: frames in any order, of any content, never completed.

Only what is sent is complete; of what comes back, frames are kept raw. Header blocks are sent as literals
without indexing (RFC 7541 section 6.2.2), so that a server sees exactly these bytes.
"""

import asyncio
import base64
import contextlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INITIAL_WINDOW_SIZE: Final = 4
CANCEL: Final = 8
MOST: Final = 16_384
"""Bytes of a frame's payload that every server takes."""

Pairs = Iterable[tuple[str | bytes, str | bytes]]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame that came."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def block(pairs: Pairs) -> bytes:
    """Return a header block of literals."""
    return b"".join(b"\x00" + _string(name) + _string(value) for name, value in pairs)


def _string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return _integer(len(raw)) + raw


def _integer(number: int) -> bytes:
    """RFC 7541 section 5.1, prefix of 7 bits."""
    if number < 127:
        return bytes((number,))
    rest, found = number - 127, b"\x7f"
    while rest >= 128:
        found += bytes((rest % 128 + 128,))
        rest //= 128
    return found + bytes((rest,))


def call_headers(path: str | bytes, *more: tuple[str | bytes, str | bytes]) -> bytes:
    """Return the header block of a gRPC call."""
    return block(
        (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "door"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *more,
        )
    )


def binary(value: bytes) -> str:
    """Return a value of a `-bin` key as it travels."""
    return base64.b64encode(value).decode()


def message(body: bytes, *, compressed: bool = False) -> bytes:
    """Return a message as gRPC frames it: a flag, four bytes of length, the body."""
    return struct.pack(">BI", compressed, len(body)) + body


class Wire:
    """One connection. `frames` is everything that came; settings and pings are answered while it reads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.frames: list[Frame] = []
        self.ended = asyncio.Event()
        self._came = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._stream = -1

    @classmethod
    async def open(cls, port: int, settings: bytes = b"", *, reads: bool = True) -> Self:
        """Connect and greet; one that does not `reads` leaves everything that comes in the kernel."""
        wire = cls(*await asyncio.open_connection("127.0.0.1", port))
        await wire.send(PREFACE + frame(SETTINGS, 0, 0, settings))
        if reads:
            wire._reading = asyncio.ensure_future(wire._read())
        return wire

    async def send(self, raw: bytes) -> None:
        """Write; a connection that the other side closed swallows it."""
        with contextlib.suppress(OSError):
            self._writer.write(raw)
            await self._writer.drain()

    def next_stream(self) -> int:
        self._stream += 2
        return self._stream

    async def call(
        self, path: str | bytes, body: bytes, *more: tuple[str | bytes, str | bytes], raw: bool = False
    ) -> int:
        """Send one whole call; returns its stream."""
        stream = self.next_stream()
        await self.send(frame(HEADERS, END_HEADERS, stream, call_headers(path, *more)))
        sent = body if raw else message(body)
        assert len(sent) < 65_536, "more than the window that every connection begins with"
        while len(sent) > MOST:
            await self.send(frame(DATA, 0, stream, sent[:MOST]))
            sent = sent[MOST:]
        await self.send(frame(DATA, END_STREAM, stream, sent))
        return stream

    async def closed(self, stream: int, within_s: float = 60.0) -> bool:
        """Wait until the server ended a stream, or the connection; False when it did neither in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not (self.ended.is_set() or any(self.ends(one, stream) for one in self.frames)):
                    self._came.clear()
                    await self._came.wait()
                return True
        return False

    @staticmethod
    def ends(one: Frame, stream: int) -> bool:
        if one.kind == GOAWAY:
            return True
        final = one.kind == RST_STREAM or (one.kind in {HEADERS, DATA} and bool(one.flags & END_STREAM))
        return one.stream == stream and final

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(9)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                one = Frame(head[3], head[4], int.from_bytes(head[5:], "big"), payload)
                self.frames.append(one)
                if one.kind in {SETTINGS, PING} and not one.flags & ACK:
                    answer = b"" if one.kind == SETTINGS else payload
                    await self.send(frame(one.kind, ACK, 0, answer))
                self._came.set()
        except (asyncio.IncompleteReadError, OSError):
            self.ended.set()
            self._came.set()
