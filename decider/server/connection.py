"""One connection of a `UnaryServer`: bytes in, calls to their handlers, answers out.

Guaranteed: a call is answered once; one that its caller gives up, whose deadline passes or whose connection
ends is cancelled. What a call and a connection may make us hold is bounded. A fault of a handler ends its
call alone and says nothing of itself; what is no HTTP/2 ends its connection alone. Compressed messages are
not read.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import grpc
import ngh2

from decider.connections import MAX_CONNECTIONS
from decider.server.call import (
    OK_HEADERS,
    OK_TRAILERS,
    PREFIX_BYTES,
    Head,
    Headers,
    Misfit,
    framed,
    message_in,
    read_head,
    size_of,
    status_headers,
)
from decider.server.context import Aborted, CallContext
from licet.clock import wall_ms
from licet.intake import HALF_SENT_MS, Intake, bucket_of
from licet.log import log
from licet.peer import CERTIFICATE, TLS_VERSION, URI_SANS, certified_peer

logger = logging.getLogger(__name__)

MAX_STREAMS: Final = 1_000
"""Calls of a connection at once; a client keeps the next ones until others end."""
MAX_HELD_BYTES: Final = 32 << 20
"""What the unfinished messages of a connection may hold together; the call that is over it is refused."""
MAX_BLOCK_BYTES: Final = 64 << 10
"""Headers that end the connection; a call with more than `Limits.metadata_bytes` is refused alone."""
STREAM_WINDOW_BYTES: Final = 1 << 20
WINDOW_BYTES: Final = 8 << 20
RESETS: Final = (10_000, 500)
"""Calls that may be given up, at once and a second; more, and the connection ends (CVE-2023-44487)."""
QUIET_S: Final = 30.0
"""A connection that says nothing for so long is asked whether it is there …"""
GONE_S: Final = 20.0
"""… and is not, when it says nothing for this long after."""

Find = Callable[[str], Any]
"""Returns the handler of a path, None for nobody's."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may bring, in bytes, how long it may take to bring it, and how many connections stand."""

    message_bytes: int
    metadata_bytes: int
    half_sent_ms: int = HALF_SENT_MS
    connections: int = MAX_CONNECTIONS


@dataclass(slots=True)
class _Call:
    stream_id: int
    head: Head
    body: bytearray = field(default_factory=bytearray)
    task: "asyncio.Task[None] | None" = None
    timer: asyncio.TimerHandle | None = None
    half_sent: asyncio.TimerHandle | None = None
    """While its message is not whole."""
    answered: bool = False


class Connection(asyncio.Protocol):
    """Made for each connection; is in `known` while it stands."""

    def __init__(self, find: Find, limits: Limits, known: "set[Connection]", intake: Intake) -> None:
        self._find, self._limits, self._known, self._intake = find, limits, known, intake
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, _Call] = {}
        self._held = 0
        self._transport: Any = None
        self._peer = self._bucket = ""
        self._auth: Mapping[str, Iterable[bytes]] = {}
        self._paused = False
        self._heard_at = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._gone: Final = asyncio.Event()
        self._http: Final = ngh2.Connection(
            ngh2.Role.SERVER,
            ngh2.Configuration(max_inbound_header_list_size=MAX_BLOCK_BYTES, stream_reset_rate_limit=RESETS),
        )

    def connection_made(self, transport: Any) -> None:
        """Begin, where not too many stand; under TLS only with a peer that agreed on HTTP/2."""
        self._transport = transport
        if len(self._known) >= self._limits.connections:
            transport.abort()
            return
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            transport.abort()
            return
        if tls is not None:
            self._auth = auth_of(tls)
        self._peer = peer_of(transport.get_extra_info("peername"))
        self._bucket = bucket_of(certified_peer(self._auth, now_ms=wall_ms()), self._peer)
        self._known.add(self)
        self._heard_at = self._loop.time()
        self._watch = self._loop.call_later(QUIET_S, self._look)
        self._http.initiate_connection(
            {
                ngh2.Setting.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
                ngh2.Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
                ngh2.Setting.MAX_HEADER_LIST_SIZE: self._limits.metadata_bytes,
            }
        )
        self._http.set_local_window_size(WINDOW_BYTES)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._heard_at = self._loop.time()
        try:
            self._http.receive_data(data)
            for event in self._http.events():
                self._take(event)
        except ngh2.NGH2Error as error:
            log(logger, logging.WARNING, "server.no_http2", error=type(error).__name__, peer=self._peer)
            self._flush()
            self._transport.close()
            return
        self._flush()
        if not self._http.want_read and not self._http.want_write:
            self._transport.close()

    def pause_writing(self) -> None:
        """Keep what is to be sent until the peer reads."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on sending."""
        self._paused = False
        self._flush()

    def connection_lost(self, _error: Exception | None) -> None:
        """Cancel every call."""
        self._known.discard(self)
        if self._watch is not None:
            self._watch.cancel()
        while self._calls:
            self._leave(self._calls.popitem()[1])
        self._gone.set()

    def _take(self, event: Any) -> None:
        kind = type(event)
        if kind is ngh2.RequestReceived:
            self._begin(event.stream_id, event.headers, ended=event.end_stream)
        elif kind is ngh2.DataReceived or kind is ngh2.TrailersReceived:
            call = self._calls.get(event.stream_id)
            if call is not None and not call.answered:
                self._more(call, event)
        elif kind is ngh2.StreamClosed or kind is ngh2.StreamReset:
            call = self._calls.pop(event.stream_id, None)
            if call is not None:
                self._leave(call)

    def _begin(self, stream_id: int, headers: Headers, *, ended: bool) -> None:
        head = read_head(headers)
        if size_of(headers) > self._limits.metadata_bytes:
            head = Misfit(code=grpc.StatusCode.RESOURCE_EXHAUSTED, details="too much metadata")
        if isinstance(head, Misfit):
            plain = head.http_status == b"200"
            refusal = status_headers(head.code, head.details) if plain else [(b":status", head.http_status)]
            self._http.send_response(stream_id, refusal, end_stream=True)
            return
        call = self._calls[stream_id] = _Call(stream_id, head)
        if head.timeout_s is not None:
            call.timer = self._loop.call_later(head.timeout_s, self._late, call)
        if ended:
            self._handle(call)
        elif self._intake.enter(self._bucket):
            call.half_sent = self._loop.call_later(self._limits.half_sent_ms / 1_000, self._silent, call)
        else:
            self._end(call, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many half-sent calls")

    def _more(self, call: _Call, event: Any) -> None:
        if type(event) is ngh2.DataReceived:
            if not self._takes(call, event.data):
                details = f"a message of more than {self._limits.message_bytes} bytes, or too many at once"
                self._end(call, grpc.StatusCode.RESOURCE_EXHAUSTED, details)
                return
            if not event.end_stream:
                return
        self._handle(call)

    def _takes(self, call: _Call, data: bytes) -> bool:
        """Hold more of a message, unless that is too much of one, of a connection, of a peer or of all."""
        if (
            len(call.body) + len(data) > self._limits.message_bytes + PREFIX_BYTES
            or self._held + len(data) > MAX_HELD_BYTES
            or not self._intake.hold(self._bucket, len(data))
        ):
            return False
        call.body += data
        self._held += len(data)
        return True

    def _handle(self, call: _Call) -> None:
        handler = self._find(call.head.path)
        message = message_in(call.body)
        self._let_go(call)
        if handler is None or handler.unary_unary is None:
            self._end(call, grpc.StatusCode.UNIMPLEMENTED, "no such method")
        elif isinstance(message, Misfit):
            self._end(call, message.code, message.details)
        else:
            call.task = self._loop.create_task(self._run(call, handler, message))

    async def _run(self, call: _Call, handler: Any, message: bytes) -> None:
        read, write = handler.request_deserializer, handler.response_serializer
        try:
            request = read(message) if read is not None else message
        except Exception:  # noqa: BLE001 - whatever a parser raises, the message is none
            self._end(call, grpc.StatusCode.INTERNAL, "the message cannot be read")
            return
        try:
            context = CallContext(self._peer, self._auth, call.head.metadata)
            answer = await handler.unary_unary(request, context)
            body = framed(write(answer) if write is not None else answer)
        except Aborted as aborted:
            self._end(call, aborted.code, aborted.details, aborted.trailing)
        except Exception:
            log(logger, logging.ERROR, "server.fault", path=call.head.path[:200])
            logger.exception("server.fault")
            self._end(call, grpc.StatusCode.UNKNOWN, "a fault of the server")
        else:
            self._answer(call, body)

    def _answer(self, call: _Call, body: bytes) -> None:
        if self._is_first(call):
            with contextlib.suppress(ngh2.StreamProtocolError):  # it ended, and we have yet to hear of it
                self._http.send_response(call.stream_id, OK_HEADERS)
                self._http.send_data(call.stream_id, body)
                self._http.send_trailers(call.stream_id, OK_TRAILERS)
            self._flush()

    def _end(
        self,
        call: _Call,
        code: grpc.StatusCode,
        details: str,
        trailing: Iterable[tuple[str, str | bytes]] = (),
    ) -> None:
        if self._is_first(call):
            self._let_go(call)
            headers = status_headers(code, details, trailing)
            with contextlib.suppress(ngh2.StreamProtocolError):  # as above
                self._http.send_response(call.stream_id, headers, end_stream=True)
            self._flush()

    def _is_first(self, call: _Call) -> bool:
        """Tell whether a call may be answered, and note that it is."""
        if call.timer is not None:
            call.timer.cancel()
        first = not call.answered and not self._transport.is_closing()
        call.answered = True
        return first

    def _late(self, call: _Call) -> None:
        self._end(call, grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        self._leave(call)

    def _silent(self, call: _Call) -> None:
        """End a call whose message did not come, and its stream with it: the peer would keep the slot."""
        self._end(call, grpc.StatusCode.DEADLINE_EXCEEDED, "half a request, then silence")
        with contextlib.suppress(ngh2.NGH2Error):  # it ended, and we have yet to hear of it
            self._http.reset_stream(call.stream_id, ngh2.ErrorCode.NO_ERROR)
        self._flush()

    def _leave(self, call: _Call) -> None:
        """Cancel what still works on a call that nobody waits for."""
        call.answered = True
        self._let_go(call)
        if call.timer is not None:
            call.timer.cancel()
        if call.task is not None:
            call.task.cancel()

    def _let_go(self, call: _Call) -> None:
        """Hold nothing of a call any more, and count it as half-sent no more."""
        if call.half_sent is not None:
            call.half_sent.cancel()
            call.half_sent = None
            self._intake.leave(self._bucket, len(call.body))
        self._held -= len(call.body)
        call.body = bytearray()

    def _flush(self) -> None:
        if not self._paused and not self._transport.is_closing():
            data = self._http.data_to_send()
            if data:
                self._transport.write(data)

    def _look(self) -> None:
        """Ask a quiet peer whether it is there; end the connection of one that does not answer."""
        quiet_s = self._loop.time() - self._heard_at
        if quiet_s >= QUIET_S + GONE_S:
            self._transport.abort()
            return
        asked = quiet_s >= QUIET_S
        if asked:
            self._http.ping()
            self._flush()
        self._watch = self._loop.call_later(GONE_S if asked else QUIET_S - quiet_s, self._look)

    async def drain(self, grace_s: float) -> None:
        """Take no new calls, let those that run end within `grace_s`, cancel the rest, and close."""
        self._http.send_goaway()
        self._flush()
        running = [call.task for call in self._calls.values() if call.task is not None]
        if running:
            await asyncio.wait(running, timeout=grace_s)
        for call in self._calls.values():
            self._end(call, grpc.StatusCode.UNAVAILABLE, "the server stops")
            self._leave(call)
        self._transport.close()
        try:
            async with asyncio.timeout(1):
                await self._gone.wait()
        except TimeoutError:  # a peer that does not read cannot be told goodbye
            self._transport.abort()


def auth_of(tls: ssl.SSLObject) -> Mapping[str, Iterable[bytes]]:
    """Return what is known of a verified peer, under the names of gRPC's auth context."""
    names: Any = (tls.getpeercert() or {}).get("subjectAltName", ())
    whole = tls.getpeercert(binary_form=True)
    return {
        URI_SANS: tuple(str(name).encode() for kind, name in names if kind == "URI"),
        TLS_VERSION: ((tls.version() or "").encode(),),
        CERTIFICATE: () if whole is None else (ssl.DER_cert_to_PEM_cert(whole).encode(),),
    }


def peer_of(name: Any) -> str:
    """Return a peer's address as gRPC writes it."""
    host, port = name[:2]
    return f"ipv6:{quote(f'[{host}]')}:{port}" if ":" in host else f"ipv4:{host}:{port}"
