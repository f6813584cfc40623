"""The tool, over its Unix socket: one connection, no retries, nothing sent that was not verified.

Guaranteed: what goes to the tool is our own encoding of the arguments, the permit, the approvals, the
attempt and the trace context, and nothing else of what the caller sent. `sent` is False only when no
connection stood, so no byte can have left. Not guaranteed: that an answer comes; the caller of `call` gets
UNAVAILABLE or DEADLINE_EXCEEDED as the tool's status then, and `outcome_of` calls that UNKNOWN.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
from grpc import aio

from licet import metadata
from licet.tracing import inject
from licet.v1 import statement_pb2
from sidecar.exchange import OK, Pairs, ToolAnswer
from sidecar.parts import Forward
from sidecar.status import licet_reason

MAX_REPLY_BYTES: Final = 16 * 1024 * 1024
"""The largest reply message that is passed on."""

CONNECT_TIMEOUT_S: Final = 1.0
"""How long a call waits for a connection that does not stand."""

CHANNEL_OPTIONS: Final = (
    ("grpc.enable_retries", 0),  # a retry below us would be a second effect
    ("grpc.max_receive_message_length", MAX_REPLY_BYTES),
    ("grpc.max_send_message_length", -1),  # what we send was limited when it came in
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.default_authority", "tool"),
    ("grpc.enable_http_proxy", 0),
)

_STATUS_DETAILS: Final = "grpc-status-details-bin"
UNSENT: Final = ToolAnswer(code=grpc.StatusCode.UNAVAILABLE.value[0], sent=False)
"""What a call ends as for which no connection stood."""


class SocketTool:
    """A tool behind a Unix socket.

    Args:
        socket: Path of the socket; it need not exist yet.
    """

    def __init__(self, socket: Path) -> None:
        self.address: Final = f"unix:{socket}"
        self.channel = aio.insecure_channel(self.address, options=CHANNEL_OPTIONS)
        self._unary: dict[str, Any] = {}
        self._stream: dict[str, Any] = {}
        self._watch: asyncio.Task[None] | None = None
        self._state = grpc.ChannelConnectivity.IDLE

    def start(self) -> None:
        """Connect, and stay connected."""
        self._watch = asyncio.get_running_loop().create_task(self._watched())

    async def close(self) -> None:
        """Close the connection."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self.channel.close()

    @property
    def reachable(self) -> bool:
        """Whether a connection stands now."""
        return self._state is grpc.ChannelConnectivity.READY

    async def call(self, forward: Forward) -> ToolAnswer:
        """Make the call; never raises for what the tool or the connection did."""
        if not self.reachable and not await self.ready():
            return UNSENT
        send, body = forward.request.send, b""
        rpc = self._method(forward.permit.method.path, streaming=send is not None)(
            forward.permit.arguments.canonical, timeout=forward.timeout_ms / 1000, metadata=_to_tool(forward)
        )
        try:
            if send is None:
                body = await rpc
            else:
                async for message in rpc:
                    await send(message)
        except aio.AioRpcError as error:
            return _failed(error)
        return answer_of(
            OK, "", body, _pairs(await rpc.initial_metadata()), _pairs(await rpc.trailing_metadata())
        )

    def _method(self, path: str, *, streaming: bool) -> Any:
        """Return what calls a path; grpcio takes long to make one."""
        made = self._stream if streaming else self._unary
        method = made.get(path)
        if method is None:
            make = self.channel.unary_stream if streaming else self.channel.unary_unary
            method = made[path] = make(path)
        return method

    async def ready(self) -> bool:
        """Return whether a connection stands, after a moment's wait; False proves that nothing was sent."""
        if self.reachable:
            return True
        try:
            await asyncio.wait_for(self.channel.channel_ready(), CONNECT_TIMEOUT_S)
        except TimeoutError:
            return False
        return True

    async def _watched(self) -> None:
        while True:
            self._state = self.channel.get_state(try_to_connect=True)
            await self.channel.wait_for_state_change(self._state)


class _Metadata(aio.Metadata):
    """Pairs as they are: grpcio builds lists by key of them, and reads them back, on each call."""

    def __init__(self, pairs: Pairs) -> None:
        super().__init__()
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pairs)


def _to_tool(forward: Forward) -> _Metadata:
    return _Metadata(tuple(pairs_to_tool(forward)))


def pairs_to_tool(forward: Forward) -> list[tuple[str, str | bytes]]:
    """Return all that goes to the tool beside the arguments: permit, approvals, attempt and trace context."""
    permit = forward.permit
    pairs: list[tuple[str, str | bytes]] = [(metadata.PERMIT, signed_bytes(permit.signed))]
    pairs.extend((metadata.APPROVAL, approval) for approval in permit.approvals)
    pairs.append((metadata.ATTEMPT, forward.attempt))
    if forward.trace is not None:
        pairs.extend(inject(forward.trace))
    return pairs


def signed_bytes(signed: statement_pb2.Signed) -> bytes:
    """Return a statement as it travels; its payload is the bytes that were verified."""
    return signed.SerializeToString(deterministic=True)


def _failed(error: aio.AioRpcError) -> ToolAnswer:
    trailers = _pairs(error.trailing_metadata())
    return answer_of(
        error.code().value[0], error.details() or "", b"", _pairs(error.initial_metadata()), trailers
    )


def answer_of(code: int, message: str, body: bytes, initial: Pairs, trailers: Pairs) -> ToolAnswer:
    """Return what a tool answered, with its guard's word and licet's reason read out of the trailers."""
    effects: list[str] = []
    details: list[bytes] = []
    for key, value in trailers:
        if key == metadata.EFFECT and isinstance(value, str):
            effects.append(value)
        elif key == _STATUS_DETAILS and isinstance(value, bytes):
            details.append(value)
    return ToolAnswer(
        code=code,
        message=message,
        body=body,
        metadata=initial,
        trailers=trailers,
        effect=effects[0] if len(effects) == 1 else "",
        reason=licet_reason(details[0]) if len(details) == 1 else "",
    )


def _pairs(found: Any) -> Pairs:
    return tuple(found) if found is not None else ()
