"""What a handler may ask of its call: the part of `grpc.aio.ServicerContext` that our services use."""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import grpc

from decider.server.call import Metadata


class Aborted(Exception):  # noqa: N818 - it ends a call, and is no error of anybody's
    """A handler ends its call with a status."""

    def __init__(self, code: grpc.StatusCode, details: str, trailing: Metadata = ()) -> None:
        super().__init__(details)
        self.code, self.details, self.trailing = code, details, trailing


class CallContext:
    """The context of one call."""

    __slots__ = ("_auth", "_metadata", "_peer")

    def __init__(self, peer: str, auth: Mapping[str, Iterable[bytes]], metadata: Metadata) -> None:
        self._peer, self._auth, self._metadata = peer, auth, metadata

    def peer(self) -> str:
        """Return where the call comes from, as gRPC writes it."""
        return self._peer

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return what the peer's certificate says, under gRPC's names; empty without TLS."""
        return self._auth

    def invocation_metadata(self) -> Metadata:
        """Return the caller's metadata."""
        return self._metadata

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        """End the call with a status."""
        raise Aborted(code, details)

    async def abort_with_status(self, status: Any) -> NoReturn:
        """End the call with a `grpc.Status`."""
        raise Aborted(status.code, status.details, tuple(status.trailing_metadata or ()))
