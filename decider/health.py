"""`grpc.health.v1` of a decider: serving while it can decide.

Written against the wire format, which is two messages and one enum, because the health package pins its own
protobuf. A decider serves when a configuration is in force and was read from the leader at most `MAX_AGE_MS`
ago.
"""

from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from decider.in_force.configuration import Configuration

MAX_AGE_MS: Final = 5_000
SERVING: Final = b"\x08\x01"
NOT_SERVING: Final = b"\x08\x02"


class Health:
    """Answers `Check` for every service name alike."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self.configuration: Configuration | None = None
        """What decisions are made under; None until they can be made."""

    @property
    def serving(self) -> bool:
        """Whether decisions can be made."""
        latest = self.configuration.latest if self.configuration is not None else None
        return latest is not None and self._monotonic_ms() - latest.read_at_ms <= MAX_AGE_MS

    async def _check(self, _request: bytes, _context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return SERVING if self.serving else NOT_SERVING

    def add_to(self, server: Any) -> None:
        """Serve `grpc.health.v1.Health/Check` on `server`."""
        handler: Any = grpc.unary_unary_rpc_method_handler(self._check)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
        )
