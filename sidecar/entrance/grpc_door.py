"""Today's door: gRPC over TCP, unary and server streaming, in front of the transport-free core.

Guaranteed: every path reaches the core as it came, whatever it is; a body is read once, up to its limit,
for at most `BODY_TIMEOUT_S` or the caller's deadline, and no caller has more than its share of half-sent
calls; a refusal leaves as the status of its reason with ErrorInfo. Client streaming is refused by name. Not
guaranteed: that grpcio shows a header set over its own limit to us; it answers such a call itself, and no
event tells of it.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeAlias

import grpc
from grpc import aio

from licet.call import MAX_REQUEST_BYTES
from licet.clock import elapsed_ms, wall_ms
from licet.intake import HALF_SENT_MS, Intake, bucket_of
from licet.peer import certified_peer, development_peer
from licet.refusal import Reason, Refusal
from sidecar.entrance.outlet import Outlet, Unread
from sidecar.entrance.patience import within
from sidecar.exchange import OK, Pairs, Refused, Reply, Request
from sidecar.status import CODES, details_of

BODY_TIMEOUT_S: Final = HALF_SENT_MS / 1_000
"""How long a half-sent call may stay half-sent when its caller gave no deadline."""

MAX_METADATA_BYTES: Final = 16 * 1024
"""Of one call; grpcio refuses more by itself and less by chance from 8 KiB on."""

MAX_STREAMS: Final = 256
"""Calls at once on one connection."""

GRACE_MS: Final = 30_000
"""How long a keepalive ping may go unanswered, and the least time between two."""

HANDSHAKE_MS: Final = 5_000
"""How long a connection may take to become one: TLS, and the first settings of HTTP/2."""

MAX_CONNECTION_AGE_MS: Final = 600_000
"""After about so long a caller is asked to connect anew: with the certificate that it has then."""

SERVER_OPTIONS: Final = (
    # Past our own limit a body is refused by us, on record; past this one by grpcio, before it is read.
    ("grpc.max_receive_message_length", 6 * MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
    ("grpc.max_connection_age_ms", MAX_CONNECTION_AGE_MS),
    ("grpc.max_connection_age_grace_ms", MAX_CONNECTION_AGE_MS + GRACE_MS),  # longer than any tool may take
    ("grpc.keepalive_time_ms", GRACE_MS),
    ("grpc.keepalive_timeout_ms", GRACE_MS // 3),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", GRACE_MS // 3),
    ("grpc.http2.max_ping_strikes", 3),
)

UNREAD: Final = Refused(refusal=Refusal(Reason.OUTCOME_UNKNOWN, detail="the caller does not read"))
"""What a caller is told of a call that ran while it left replies unread: only what it lacks."""

Handle: TypeAlias = Callable[[Request], Awaitable[Reply]]
Identify: TypeAlias = Callable[[Any, Pairs], str]

_STATUS_DETAILS: Final = "grpc-status-details-bin"
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


def identify_certified(context: Any, _pairs: Pairs) -> str:
    """Return the peer of an mTLS connection."""
    return certified_peer(context.auth_context(), now_ms=wall_ms())


def identify_development(context: Any, pairs: Pairs) -> str:
    """Return the peer that a caller on this machine claims to be."""
    return development_peer(context.peer(), pairs)


class GrpcDoor(grpc.GenericRpcHandler):
    """Turns gRPC calls into requests of the core and its replies into gRPC answers.

    Args:
        handle: The core.
        identify: How a peer is known.
        streams: Returns the paths that stream from the server, as the catalog has them now.
    """

    def __init__(
        self,
        handle: Handle,
        identify: Identify,
        *,
        streams: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._handle = handle
        self._identify = identify
        self._streams = streams
        self._unread = Unread()
        self._intake = Intake()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Take every path; the core says which exist."""
        path: Any = handler_call_details.method
        text = path if isinstance(path, str) else path.decode("utf-8", "replace")
        if text in self._streams():
            return self.streaming(text)

        async def unary(messages: Any, context: Any) -> bytes:
            return await self._unary(text, messages, context)

        # No `partial`: grpcio asks of each call's handler what it is, and of a partial that takes long.
        return grpc.stream_unary_rpc_method_handler(unary)

    def streaming(self, path: str) -> Any:
        """Return the handler of a path that streams: a refusal comes as a status, after no message."""
        return grpc.stream_stream_rpc_method_handler(partial(self._stream, path))

    async def _unary(self, path: str, _messages: Any, context: Any) -> bytes:
        request = self._built(path, context, None)
        reply = await self._handle(request)
        if not isinstance(reply, Refused):
            caller = request.peer or bucket_of(request.peer, request.origin)
            if self._unread.takes(caller, len(reply.body), context):
                if reply.metadata:
                    await context.send_initial_metadata(reply.metadata)
                _set_status(reply, context)
                return reply.body
            reply = UNREAD
        _set_status(reply, context)
        return b""

    async def _stream(self, path: str, _messages: Any, context: Any) -> None:
        outlet = Outlet(context)
        reply = await self._handle(self._built(path, context, outlet.send))
        await outlet.over()
        _set_status(UNREAD if outlet.cut else reply, context)

    def _built(self, path: str, context: Any, send: Callable[[bytes], Awaitable[None]] | None) -> Request:
        """Return the request; one that cannot be built goes to the core as a fault, for its event."""
        try:
            return self._request(path, context, send)
        except Exception as fault:  # noqa: BLE001 # grpcio would tell the caller what went wrong in here
            return Request(
                path=path,
                metadata=(),
                peer="",
                origin="",
                deadline_ms=None,
                receive=_broken,
                send=send,
                fault=type(fault).__name__,
            )

    def _request(self, path: str, context: Any, send: Callable[[bytes], Awaitable[None]] | None) -> Request:
        pairs: Pairs = tuple(context.invocation_metadata() or ())
        peer = self._identify(context, pairs)
        remaining = context.time_remaining()
        deadline_ms = None if remaining is None else elapsed_ms() + int(remaining * 1000)
        return Request(
            path=path,
            metadata=pairs,
            peer=peer,
            origin="" if peer else context.peer(),
            deadline_ms=deadline_ms,
            receive=partial(self._receive, bucket_of(peer, context.peer()), context),
            send=send,
        )

    async def _receive(self, bucket: str, context: Any) -> bytes | Refusal:
        """Read the one message of a call, or say why there is none."""
        if not self._intake.enter(bucket):
            return Refusal(Reason.QUOTA_EXCEEDED, detail="too many half-sent calls", step=1)
        try:
            body = await within(BODY_TIMEOUT_S, context.read())
        except TimeoutError:
            return Refusal(Reason.DEADLINE, detail="half a request, then silence", step=1)
        finally:
            self._intake.leave(bucket)
        if body is aio.EOF:
            return Refusal(
                Reason.DEADLINE, detail="the caller went away before its request was whole", step=1
            )
        return bytes(body)


async def _broken() -> Refusal:
    return Refusal(Reason.INTERNAL, detail="the request could not be built", step=1)


def _set_status(reply: Reply, context: Any) -> None:
    """Set how the call ends; not by `context.abort`, whose bare Exception any broad except would eat."""
    if isinstance(reply, Refused):
        details = (_STATUS_DETAILS, details_of(reply.refusal, reply.safe))
        context.set_code(_CODES[CODES[reply.refusal.status]])
        context.set_details(reply.refusal.message)
        context.set_trailing_metadata((*reply.trailers, details))
        return
    if reply.code != OK:
        context.set_code(_CODES[reply.code])
        context.set_details(reply.message)
    if reply.trailers:
        context.set_trailing_metadata(reply.trailers)
