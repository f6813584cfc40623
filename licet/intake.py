"""Half-sent calls: who has how many of them open, and what they hold. Pure.

A call is half-sent from its headers until its message is whole. Whoever sends no more of it holds a slot and
what came so far; so each has `HALF_SENT_MS` for it, and nobody has more than a share at once. A door and a
decider count with the same numbers.

Guaranteed: of one bucket never more than `Share.calls` calls and `Share.held_bytes` bytes, of all together
never more than the `every` share; what one bucket has takes nothing from another until all is taken; memory
is bounded by the calls that are open. Not guaranteed: bytes where the transport does not show them (grpcio
keeps half a message to itself, up to its limit of a message).
"""

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import unquote

HALF_SENT_MS: Final = 10_000
"""From a call's headers to its whole message, where its caller's own deadline is not sooner."""

LOCAL: Final = "local"
"""The one bucket of whoever comes without identity from this machine."""

UNREADABLE: Final = "unknown address"
"""The one bucket of origins that are no address we know how to read."""

_IPV6_SITE_BITS: Final = 64
"""An IPv6 host has all addresses of its prefix to choose from."""


def bucket_of(peer: str, origin: str) -> str:
    """Return whose bucket a call takes from: its identity, else its address without the port.

    Args:
        peer: SPIFFE id, or empty.
        origin: As grpc spells it: `ipv4:192.0.2.1:50051`, `ipv6:%5B2001:db8::1%5D:50051`, `unix:`.

    Returns:
        The peer; or an IPv4 address, an IPv6 /64, `LOCAL` for a Unix socket or loopback, `UNREADABLE`.
    """
    if peer:
        return peer
    kind, _, where = unquote(origin).partition(":")
    if kind in ("unix", "unix-abstract"):
        return LOCAL
    try:
        address = ip_address(where.rpartition(":")[0].strip("[]").partition("%")[0])
    except ValueError:
        return UNREADABLE
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return LOCAL
    if isinstance(address, IPv6Address):
        site = IPv6Address(int(address) >> _IPV6_SITE_BITS << _IPV6_SITE_BITS)
        return f"{site}/{_IPV6_SITE_BITS}"
    return str(address)


@dataclass(frozen=True, slots=True)
class Share:
    """What may be half-sent at once."""

    calls: int
    held_bytes: int


EACH: Final = Share(1_000, 16 << 20)
"""Of one caller: as many calls as the default burst of a decider's quota lets it begin at once."""

EVERY: Final = Share(4_000, 64 << 20)
"""Of all callers together: a process has 256 MB where the chart's values stand."""


@dataclass(slots=True)
class _Held:
    calls: int = 0
    held_bytes: int = 0

    def fits(self, share: Share, calls: int, size: int) -> bool:
        return self.calls + calls <= share.calls and self.held_bytes + size <= share.held_bytes

    def add(self, calls: int, size: int) -> None:
        self.calls += calls
        self.held_bytes += size


class Intake:
    """The half-sent calls of one process.

    Args:
        each: The share of one bucket.
        every: The share of all.
    """

    def __init__(self, each: Share = EACH, every: Share = EVERY) -> None:
        self._each, self._every = each, every
        self._all = _Held()
        self._buckets: dict[str, _Held] = {}

    def enter(self, bucket: str) -> bool:
        """Note that a call begins; False, and nothing noted, where its share or all is taken."""
        held = self._buckets.get(bucket, _Held())
        if not (held.fits(self._each, 1, 0) and self._all.fits(self._every, 1, 0)):
            return False
        self._buckets[bucket] = held
        held.add(1, 0)
        self._all.add(1, 0)
        return True

    def hold(self, bucket: str, size: int) -> bool:
        """Note that a call which entered holds `size` bytes more; False, and nothing noted, past a share."""
        held = self._buckets[bucket]
        if not (held.fits(self._each, 0, size) and self._all.fits(self._every, 0, size)):
            return False
        held.add(0, size)
        self._all.add(0, size)
        return True

    def leave(self, bucket: str, size: int = 0) -> None:
        """Note that a call which entered, and held `size` bytes by then, is whole or over."""
        held = self._buckets[bucket]
        held.add(-1, -size)
        self._all.add(-1, -size)
        if not held.calls:
            del self._buckets[bucket]

    def __len__(self) -> int:
        return self._all.calls
