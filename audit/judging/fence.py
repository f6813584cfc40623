"""Asks a tool's guard, through its sidecar, to close a round for good.

Guarantees: only the guard's own answer counts, and the sidecar writes it into the spend stream; this side
writes nothing. At most one question a round at a time, later ones further apart. Under mTLS a door is asked
only once its certificate is its authority's, names its address, and has the SPIFFE id of that tool's door;
the door for its part answers nobody but the reconciler. A certificate that was replaced is used from the next
question on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

import grpc

from licet import tls_relay
from licet.metadata import DEV_IDENTITY
from licet.tls_relay import TlsRelay
from licet.v1.guard_pb2 import FenceRequest, FenceResponse
from licet.v1.guard_pb2_grpc import GuardServiceStub
from licet.v1.statement_pb2 import Signed

TIMEOUT_S: Final = 5.0
FIRST_WAIT_US: Final = 1_000_000
LONGEST_WAIT_US: Final = 30_000_000


class FenceError(Exception):
    """No answer, or a refusal; the round is still open."""


class Fencer(Protocol):
    """Closes rounds."""

    async def fence(self, tool: str, reserve: bytes) -> FenceResponse:
        """Fence the round of this signed reserve record; raises FenceError."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Certificate chain, private key, and the authority that doors' certificates must come from; PEM."""

    chain: Path
    key: Path
    authority: Path

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Return authority, key and chain, as they are now; raises OSError."""
        return self.authority.read_bytes(), self.key.read_bytes(), self.chain.read_bytes()


class SidecarFencer:
    """Fences through the tools' sidecars.

    Args:
        addresses: sidecar address by tool.
        identity: the reconciler's SPIFFE id, shown as a development identity; empty under mTLS.
        certificate: mTLS; None on loopback under the development setting.
        doors: SPIFFE id of each tool's door; under mTLS.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        identity: str,
        certificate: CertificateFiles | None = None,
        doors: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._addresses = addresses
        self._metadata = ((DEV_IDENTITY, identity),) if identity else ()
        self._certificate, self._doors = certificate, doors
        self._relays: dict[str, TlsRelay] = {}
        self._shown: tuple[bytes, bytes, bytes] | None = None
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def fence(self, tool: str, reserve: bytes) -> FenceResponse:
        """Fence the round of this signed reserve record; raises FenceError."""
        address = self._addresses.get(tool)
        if address is None:
            raise FenceError(f"no sidecar address for tool `{tool}`: name it in LICET_TOOLS")
        channel = await self._channel(tool, address)
        request = FenceRequest(reserve=Signed.FromString(reserve))
        try:
            answer = await GuardServiceStub(channel).Fence(
                request, timeout=TIMEOUT_S, metadata=self._metadata
            )
        except grpc.aio.AioRpcError as error:
            trouble = self._relays[tool].trouble if tool in self._relays else ""
            raise FenceError(f"{error.code().name}: {trouble or error.details()}") from error
        assert isinstance(answer, FenceResponse)
        return answer

    async def _channel(self, tool: str, address: str) -> grpc.aio.Channel:
        if self._certificate is not None:
            try:
                now = self._certificate.read()
            except OSError as error:
                raise FenceError(f"`{error.filename}`: {error.strerror}") from error
            if now != self._shown:  # the first, or one that took the place of another
                await self.close()
                self._shown = now
        if tool not in self._channels:
            self._channels[tool] = (
                grpc.aio.insecure_channel(address)
                if self._certificate is None
                else self._relay(tool, address, self._certificate).channel(())
            )
        return self._channels[tool]

    def _relay(self, tool: str, address: str, certificate: CertificateFiles) -> TlsRelay:
        files = tls_relay.CertificateFiles(certificate.chain, certificate.key, certificate.authority)
        try:
            relay = TlsRelay(address, files, self._doors[tool], called=f"the door of `{tool}`")
        except OSError as error:  # they do not fit together
            raise FenceError(f"certificate: {error}") from error
        relay.start()
        self._relays[tool] = relay
        return relay

    async def close(self) -> None:
        """Close the channels; the next question opens its own."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()
        for relay in self._relays.values():
            await relay.close()
        self._relays.clear()


class Patience:
    """When to ask about a round again: 1 s after the first failure, doubling up to 30 s."""

    def __init__(self) -> None:
        self._waits: dict[tuple[str, int], tuple[int, int]] = {}

    def ready(self, spend_id: str, round: int, now_us: int) -> bool:
        """Whether this round may be asked about now."""
        return now_us >= self._waits.get((spend_id, round), (0, 0))[0]

    def failed(self, spend_id: str, round: int, now_us: int) -> int:
        """Note a failure; return how many there were."""
        _, failures = self._waits.get((spend_id, round), (0, 0))
        wait = min(FIRST_WAIT_US << min(failures, 10), LONGEST_WAIT_US)
        self._waits[spend_id, round] = (now_us + wait, failures + 1)
        return failures + 1

    def done(self, spend_id: str, round: int) -> None:
        """Forget a round."""
        self._waits.pop((spend_id, round), None)
