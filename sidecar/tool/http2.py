"""One HTTP/2 connection to a tool, as gRPC speaks it, with unary and server-streaming calls on it.

Guaranteed: a request is submitted once and never again; every call ends, by the tool's status, by its
deadline (DEADLINE_EXCEEDED) or by the end of the connection (UNAVAILABLE); a reply message is at most
`MAX_REPLY_BYTES`; what a slow taker leaves untaken holds back its own stream alone, at most `UNTAKEN_BYTES`
and one window. Not guaranteed: that a call which ended by deadline or connection had no effect.

Knows no permit: `sidecar.tool.http2_link` says what is sent.
"""

import asyncio
import contextlib
from binascii import a2b_base64
from collections import deque
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote

import ngh2

from sidecar.exchange import Pairs
from sidecar.tool.link import MAX_REPLY_BYTES

UNTAKEN_BYTES: Final = 1024 * 1024
"""What may wait of one stream before its tool is held back."""

STREAM_WINDOW: Final = 256 * 1024
CONNECTION_WINDOW: Final = 2**31 - 1
"""Of streams together: each is bounded by its own."""

MAX_HEADER_BYTES: Final = 256 * 1024
"""Of one header block of the tool; a larger one ends the connection."""

CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE = 1, 2, 4, 8, 13, 14
"""Status codes, as in `google.rpc.Code`."""

_RESET_CODES: Final[dict[int, int]] = {
    ngh2.ErrorCode.REFUSED_STREAM: UNAVAILABLE,
    ngh2.ErrorCode.CANCEL: CANCELLED,
    ngh2.ErrorCode.ENHANCE_YOUR_CALM: RESOURCE_EXHAUSTED,
}
_HEAD: Final = 5
"""Bytes before a message: whether it is compressed, and its length."""

_TRANSPORT_KEYS: Final = frozenset(
    {"content-type", "grpc-status", "grpc-message", "grpc-encoding", "grpc-accept-encoding"}
)
_CONFIGURATION: Final = ngh2.Configuration(
    auto_window_update=False,
    max_inbound_header_list_size=MAX_HEADER_BYTES,
    max_inbound_header_count=4_096,
    max_continuations=64,
)
_SETTINGS: Final = {
    ngh2.Setting.ENABLE_PUSH: 0,
    ngh2.Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
    ngh2.Setting.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
}


class Rpc:
    """One call on a link, until `ended`."""

    __slots__ = (
        "_buffer",
        "_link",
        "_timer",
        "code",
        "ended",
        "initial",
        "message",
        "messages",
        "owed",
        "stream_id",
        "streaming",
        "trailing",
        "untaken",
        "waiter",
    )

    def __init__(self, link: "Link", stream_id: int, *, streaming: bool) -> None:
        self._link = link
        self.stream_id = stream_id
        self.streaming = streaming
        self._buffer = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self.messages: deque[bytes] = deque()
        self.initial: Pairs = ()
        self.trailing: Pairs = ()
        self.code = UNKNOWN
        self.message = ""
        self.ended = False
        self.untaken = 0
        self.owed = 0
        self.waiter: asyncio.Future[None] | None = None

    async def moved(self) -> None:
        """Wait until a message came or the call ended."""
        self.waiter = asyncio.get_running_loop().create_future()
        try:
            await self.waiter
        finally:
            self.waiter = None

    def take(self) -> bytes:
        """Return the next message; the tool may send as much more."""
        message = self.messages.popleft()
        self.untaken -= len(message)
        if self.owed and self.untaken <= UNTAKEN_BYTES:
            self._link.consumed(self.stream_id, self.owed)
            self.owed = 0
        return message

    def expire_in(self, seconds: float) -> None:
        """End with DEADLINE_EXCEEDED after so long."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def end(self, code: int, message: str = "") -> None:
        """End the call, unless it has ended."""
        if self.ended:
            return
        self.ended = True
        self.code, self.message = code, message
        if self._timer is not None:
            self._timer.cancel()
        self._wake()

    def abandon(self, code: int, message: str) -> None:
        """End the call, and tell the tool that nobody waits for the rest."""
        if not self.ended:
            self._link.reset(self.stream_id)
            self.end(code, message)

    def on_headers(self, headers: Iterable[tuple[bytes, bytes]], *, end_stream: bool) -> None:
        """Take the head of a reply; it may be all of it."""
        try:
            fields, pairs = _read(headers)
        except ValueError:
            self.abandon(INTERNAL, "metadata that is none")
            return
        if end_stream:
            self._finish(fields, pairs)
        elif fields.get(":status") != "200":
            self.abandon(UNKNOWN, f"HTTP status {fields.get(':status', '')[:16]}")
        elif fields.get("grpc-encoding", "identity") != "identity":
            self.abandon(INTERNAL, "a reply in an encoding that was not asked for")
        else:
            self.initial = pairs

    def on_trailers(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Take the end of a reply."""
        try:
            self._finish(*_read(headers))
        except ValueError:
            self.abandon(INTERNAL, "metadata that is none")

    def on_data(self, data: bytes) -> None:
        """Take a part of the body."""
        if self.streaming and self.untaken > UNTAKEN_BYTES:
            self.owed += len(data)
        else:
            self._link.consumed(self.stream_id, len(data))
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _HEAD and not self.ended:
            length = int.from_bytes(buffer[1:_HEAD], "big")
            if buffer[0]:
                self.abandon(INTERNAL, "a compressed message that was not asked for")
            elif length > MAX_REPLY_BYTES:
                self.abandon(RESOURCE_EXHAUSTED, f"a reply of {length} bytes")
            elif not self.streaming and self.messages:
                self.abandon(INTERNAL, "a second message of one reply")
            elif len(buffer) < _HEAD + length:
                return
            else:
                self.messages.append(bytes(buffer[_HEAD : _HEAD + length]))
                del buffer[: _HEAD + length]
                self.untaken += length
                if self.streaming:
                    self._wake()

    def on_closed(self, error_code: int) -> None:
        """The stream is gone; without a status that is no success."""
        if error_code:
            self.end(_RESET_CODES.get(error_code, INTERNAL), f"the tool ended the call: {error_code}")
        else:
            self.end(UNKNOWN, "the reply ended without a status")

    def _finish(self, fields: dict[str, str], pairs: Pairs) -> None:
        self.trailing = pairs
        said = fields.get("grpc-status", "")
        code = int(said) if said.isascii() and said.isdecimal() and len(said) <= 2 else UNKNOWN
        if not code and (self._buffer or (not self.streaming and len(self.messages) != 1)):
            self.end(INTERNAL, "not one whole reply")
        else:
            self.end(code if code <= 16 else UNKNOWN, unquote(fields.get("grpc-message", "")))

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def _expire(self) -> None:
        self.abandon(DEADLINE_EXCEEDED, "the tool did not answer in time")


class Link(asyncio.Protocol):
    """A connection. `ready` is done once the tool said its settings; `lost` once it takes no more calls."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._http = ngh2.Connection(ngh2.Role.CLIENT, _CONFIGURATION)
        self._transport: Any = None
        self._calls: dict[int, Rpc] = {}
        self._flush_soon = False
        self._paused = False
        self.ready: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()

    # --- calls

    def begin(self, headers: Iterable[tuple[bytes, bytes]], body: bytes, *, streaming: bool) -> Rpc:
        """Submit a request; what it raises, it raises before anything was submitted.

        Raises:
            NGH2Error: this connection takes no more requests.
        """
        if self.lost.done():
            raise ngh2.ConnectionClosingError("this connection takes no more requests")
        stream_id = self._http.send_request(headers)
        rpc = self._calls[stream_id] = Rpc(self, stream_id, streaming=streaming)
        try:
            self._http.send_data(stream_id, b"\0" + len(body).to_bytes(4, "big") + body, end_stream=True)
        except ngh2.NGH2Error:
            rpc.abandon(INTERNAL, "the request could not be sent whole")
        self._flush()
        return rpc

    def consumed(self, stream_id: int, size: int) -> None:
        """Let the tool send as much again."""
        try:
            self._http.acknowledge_received_data(size, stream_id)
        except (ngh2.NGH2Error, ValueError):
            return  # the connection has ended
        self._flush()

    def reset(self, stream_id: int) -> None:
        """Tell the tool that nobody waits for a call any more."""
        if self._calls.pop(stream_id, None) is not None:
            with contextlib.suppress(ngh2.NGH2Error):  # of a stream or connection that ended just now
                self._http.reset_stream(stream_id, ngh2.ErrorCode.CANCEL)
            self._flush()

    def close(self) -> None:
        """Close the connection; its calls end as UNAVAILABLE."""
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio

    def connection_made(self, transport: Any) -> None:
        """Begin HTTP/2."""
        self._transport = transport
        self._http.initiate_connection(_SETTINGS)
        self._http.set_local_window_size(CONNECTION_WINDOW)
        self._flush()

    def connection_lost(self, _error: Exception | None) -> None:
        """End every call."""
        self._transport = None
        self._retire()
        calls, self._calls = self._calls, {}
        for rpc in calls.values():
            rpc.end(UNAVAILABLE, "the connection to the tool ended")

    def data_received(self, data: bytes) -> None:
        """Take what the tool says."""
        try:
            self._http.receive_data(data)
            for event in self._http.events():
                take = _TAKERS.get(type(event))
                if take is not None:
                    take(self, event)
        except ngh2.NGH2Error:
            self.close()
            return
        self._flush()

    def pause_writing(self) -> None:
        """Let what is to be sent wait where it can be reset."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on."""
        self._paused = False
        self._flush()

    # --- inside

    def take_data(self, event: ngh2.DataReceived) -> None:
        """Take a part of a body."""
        rpc = self._calls.get(event.stream_id)
        if rpc is not None:
            rpc.on_data(event.data)
        else:  # of a call that nobody waits for: it must not use up the connection's window
            self.consumed(event.stream_id, len(event.data))

    def take_head(self, event: ngh2.ResponseReceived) -> None:
        """Take the head of a reply."""
        rpc = self._calls.get(event.stream_id)
        if rpc is not None:
            rpc.on_headers(event.headers, end_stream=event.end_stream)

    def take_trailers(self, event: ngh2.TrailersReceived) -> None:
        """Take the end of a reply."""
        rpc = self._calls.get(event.stream_id)
        if rpc is not None:
            rpc.on_trailers(event.headers)

    def take_closed(self, event: ngh2.StreamClosed) -> None:
        """Take the end of a stream."""
        rpc = self._calls.pop(event.stream_id, None)
        if rpc is not None:
            rpc.on_closed(event.error_code)

    def take_settings(self, _event: ngh2.SettingsReceived) -> None:
        """Take what the tool says of itself: it is there."""
        if not self.ready.done():
            self.ready.set_result(None)

    def take_goaway(self, _event: ngh2.GoAwayReceived) -> None:
        """Take that the tool wants no more calls here."""
        self._retire()

    def _retire(self) -> None:
        """Take no more calls; those that are open go on while the connection stands."""
        for future in (self.ready, self.lost):
            if not future.done():
                future.set_result(None)

    def _flush(self) -> None:
        """Write soon, with all else that this turn of the loop has to say."""
        if not self._flush_soon:
            self._flush_soon = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._flush_soon = False
        if self._transport is None or self._paused:
            return
        data = self._http.data_to_send()
        if data:
            self._transport.write(data)
        if not self._http.want_read and not self._http.want_write:
            self._transport.close()  # whatever speaks there speaks no HTTP/2, or all is said


_TAKERS: Final[dict[type, Any]] = {
    ngh2.ResponseReceived: Link.take_head,
    ngh2.DataReceived: Link.take_data,
    ngh2.TrailersReceived: Link.take_trailers,
    ngh2.StreamClosed: Link.take_closed,
    ngh2.SettingsReceived: Link.take_settings,
    ngh2.GoAwayReceived: Link.take_goaway,
}


def _read(headers: Iterable[tuple[bytes, bytes]]) -> tuple[dict[str, str], Pairs]:
    """Return the transport's own fields, and the metadata; raises ValueError for what is none."""
    fields: dict[str, str] = {}
    pairs: list[tuple[str, str | bytes]] = []
    for raw_key, raw_value in headers:
        key = raw_key.decode("ascii")
        if key.startswith(":") or key in _TRANSPORT_KEYS:
            fields[key] = raw_value.decode("ascii", "replace")
        elif key.endswith("-bin"):
            pairs.extend((key, _unpacked(part)) for part in raw_value.split(b","))
        else:
            pairs.append((key, raw_value.decode("latin-1")))
    return fields, tuple(pairs)


def _unpacked(text: bytes) -> bytes:
    return a2b_base64(text.strip() + b"=" * (-len(text.strip()) % 4))
