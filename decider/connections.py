"""How many connections a decider takes, and how long each may take to become one.

Guaranteed: beyond `most_connections` a new one is closed as soon as it came, and those that stand are served;
a quarter of the process's descriptors is left for NATS, spools and doors. With grpcio half-made ones count,
too, with ngh2 they are bounded by `HANDSHAKE_S` alone. Not guaranteed: a share for each caller; whoever holds
a certificate can hold them all, until it is revoked or a NetworkPolicy says who may come.
"""

import resource
from typing import Final

MAX_CONNECTIONS: Final = 2_048
"""Under TLS 20 to 45 KiB each while half made: 92 MB at most."""

HANDSHAKE_S: Final = 5.0


def most_connections(descriptors: int | None = None) -> int:
    """Return how many connections fit so many descriptors, None: those that this process may have."""
    if descriptors is None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, descriptors * 3 // 4))
