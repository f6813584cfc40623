"""How many calls a peer may make: one token bucket each, taken before any other work.

A peer without identity is its network address (`licet.intake.bucket_of`): a new source port buys no new
bucket.

Guaranteed: memory is bounded by `MAX_PEERS`, whatever identities or addresses a flood claims; a peer that
is forgotten starts with a full bucket again, so forgetting only ever happens to the peer seen longest ago.
Not guaranteed: fairness between peers, or a limit over several workers of one sidecar: each has its own
buckets.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from licet.refusal import Reason, Refusal

MAX_PEERS: Final = 10_000
"""Buckets kept; the peer seen longest ago is forgotten first."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_ms: int


class Quota:
    """Token buckets by peer.

    Args:
        per_second: Tokens that come back each second.
        burst: Tokens a full bucket holds; at least 1.
        max_peers: Buckets kept.

    Raises:
        ValueError: A quota that lets nothing through would look like an outage: ask for one that is positive.
    """

    def __init__(self, *, per_second: float, burst: int, max_peers: int = MAX_PEERS) -> None:
        if per_second <= 0 or burst < 1 or max_peers < 1:
            raise ValueError(
                "a quota needs a positive rate, a burst of at least 1 and room for at least 1 peer"
            )
        self._per_ms = per_second / 1000
        self._burst = float(burst)
        self._max_peers = max_peers
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, peer: str, *, monotonic_ms: int, cost: int = 1) -> Refusal | None:
        """Check 1: take `cost` tokens of `peer`, or refuse with QUOTA_EXCEEDED and take none.

        What comes to more than a full bucket takes one, less the token that a call has taken to come in.
        """
        bucket = self._buckets.get(peer)
        if bucket is None:
            if len(self._buckets) >= self._max_peers:
                self._buckets.popitem(last=False)
            bucket = self._buckets[peer] = _Bucket(self._burst, monotonic_ms)
        self._buckets.move_to_end(peer)
        earned = max(0, monotonic_ms - bucket.at_ms) * self._per_ms
        bucket.tokens = min(self._burst, bucket.tokens + earned)
        bucket.at_ms = monotonic_ms
        taken = 1.0 if cost == 1 else min(float(cost), self._burst - 1)
        if bucket.tokens < taken:
            return Refusal(Reason.QUOTA_EXCEEDED, step=1)
        bucket.tokens -= taken
        return None

    def __len__(self) -> int:
        return len(self._buckets)
