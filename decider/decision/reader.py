"""Calls the read methods of tools through their sidecars: one channel for each, opened at first use.

Plain unary gRPC with bytes in and out: the request is already encoded and the answer is parsed with the
catalog's descriptors, so no generated code of a tool is needed here. Retries are off; a read that fails is
tried again by whoever asks for the decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import grpc
import grpc.aio

from licet.metadata import DEV_IDENTITY, PERMIT
from licet.tls_relay import TlsRelay
from licet.tracing import TraceContext, inject

TIMEOUT_S: Final = 5.0
"""A tool that answers a read later than this has no facts for the decision: UNAVAILABLE."""
MAX_ANSWER_BYTES: Final = 1 << 20
NOT_FOUND: Final = "NOT_FOUND"
"""The status by which a tool says that it has no such resource. A door ends nothing with it by itself."""

_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class ReadFailed(Exception):  # noqa: N818 - the field's word
    """The tool gave no answer; `str()` says why, for operators, `status` with which status it ended."""

    def __init__(self, message: str, status: str = "UNAVAILABLE") -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Door:
    """Where a tool's sidecar listens. `relay` is mTLS to its SPIFFE id: facts come from nobody else."""

    address: str
    relay: TlsRelay | None = None


class ToolReader:
    """The sidecars by audience; `own_id` is sent as development identity, empty under mTLS."""

    def __init__(
        self,
        doors: Mapping[str, Door],
        *,
        own_id: str = "",
    ) -> None:
        self._doors = doors
        self._own_id = own_id
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def read(
        self, audience: str, method: str, body: bytes, permit: bytes, trace: TraceContext
    ) -> bytes:
        """Return the answer of a unary read method. Raises `ReadFailed`."""
        channel = self._channel(audience)
        metadata: list[tuple[str, str | bytes]] = [(PERMIT, permit), *inject(trace)]
        if self._own_id:
            metadata.append((DEV_IDENTITY, self._own_id))
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            method, request_serializer=bytes, response_deserializer=bytes
        )
        try:
            answer = await call(body, metadata=tuple(metadata), timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            # the code alone: what a tool writes beside it may hold what the call or the row holds
            raise ReadFailed(f"{method}: {error.code().name}", error.code().name) from error
        return bytes(answer)

    def address(self, audience: str) -> str:
        """Return where a tool's sidecar listens; empty where nobody said."""
        door = self._doors.get(audience)
        return door.address if door is not None else ""

    def _channel(self, audience: str) -> grpc.aio.Channel:
        found = self._channels.get(audience)
        if found is not None:
            return found
        door = self._doors.get(audience)
        if door is None:
            raise ReadFailed(f"no sidecar address for `{audience}`")
        if door.relay is None:
            made = grpc.aio.insecure_channel(door.address, options=_OPTIONS)
        else:
            door.relay.start()
            made = door.relay.channel(_OPTIONS)
        self._channels[audience] = made
        return made

    async def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            await channel.close(None)
        self._channels.clear()
        for door in self._doors.values():
            if door.relay is not None:
                await door.relay.close()
