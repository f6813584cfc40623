"""How much one caller may ask: a token bucket each, taken before any work.

A decision costs one, and one more for each `REQUEST_BYTES` of its request; so does whatever else a caller
asks, of approvals and tasks. What it turns out to cost beside that is owed: one for each read of facts, one
for two holds that were listed, one for each `READ_BYTES` that the egress check read past `READ_FREE_BYTES`.
So a quota bounds work, about a millisecond of CPU for each token, and not only calls. Whom a door asks for
pays for it, from a bucket of its own at that door; the door does not, which needs its quota to learn what was
revoked. All that one door asks for together get `SPOKEN_FOR` times what one caller gets.

Guarantees: over any time, a caller gets at most `burst` plus `per_second` for each second, and what it owes
is taken from later ones; nobody owes more than `burst`; a call dearer than `burst` costs `burst`, so that
every call passes with a full bucket; what others ask takes nothing from it. Memory is bounded: callers that
have been quiet long enough to be full again are forgotten.
"""

from dataclasses import dataclass
from typing import Final

MAX_CALLERS: Final = 10_000
"""How many callers are remembered at once; beyond it the quiet ones are forgotten, then newcomers refused."""
REQUEST_BYTES: Final = 2 << 10
READ_BYTES: Final = 4 << 10
READ_FREE_BYTES: Final = 16 << 10
FACTS_COST: Final = 1
"""What a read of facts is owed for: a decision with facts takes about twice the CPU of one without."""
HOLDS_A_TOKEN: Final = 2
"""How many listed holds one is owed for: each takes three reads of the store, and its answers' signatures."""
SPOKEN_FOR: Final = 10
"""Callers that can use up their quotas by way of one door at once; a door might make any number up."""


def cost_of(request_bytes: int) -> int:
    """Return what a request of so many bytes costs before anything of it is read."""
    return 1 + request_bytes // REQUEST_BYTES


def cost_of_reading(read_bytes: int) -> int:
    """Return what a call owes for so many characters that the egress check read; an ordinary one nothing."""
    return max(0, read_bytes - READ_FREE_BYTES) // READ_BYTES


def spoken_for(caller: str, door: str) -> str:
    """Return the bucket of a caller that a door asks for."""
    return f"{caller} by way of {door}"


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_ms: int


class Quota:
    """The buckets of every caller."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_ms = per_second / 1_000
        self._burst = float(burst)
        self._buckets: dict[str, _Bucket] = {}

    def take(self, caller: str, monotonic_ms: int, cost: float = 1) -> bool:
        """Take `cost` for `caller`; False, and nothing taken, where it has used up its share."""
        bucket = self._buckets.get(caller)
        if bucket is None:
            if len(self._buckets) >= MAX_CALLERS:
                self._forget(monotonic_ms)
            if len(self._buckets) >= MAX_CALLERS:
                return False
            bucket = self._buckets[caller] = _Bucket(self._burst, monotonic_ms)
        self._fill(bucket, monotonic_ms)
        taken = min(float(cost), self._burst)
        if bucket.tokens < taken:
            return False
        bucket.tokens -= taken
        return True

    def owe(self, caller: str, cost: int) -> None:
        """Take `cost` of what `caller` gets later: its call was dearer than it looked."""
        bucket = self._buckets.get(caller)
        if bucket is not None:
            bucket.tokens = max(-self._burst, bucket.tokens - cost)

    def _fill(self, bucket: _Bucket, monotonic_ms: int) -> None:
        gained = (monotonic_ms - bucket.at_ms) * self._per_ms
        bucket.tokens, bucket.at_ms = min(self._burst, bucket.tokens + gained), monotonic_ms

    def _forget(self, monotonic_ms: int) -> None:
        for caller, bucket in list(self._buckets.items()):
            self._fill(bucket, monotonic_ms)
            if bucket.tokens >= self._burst:
                del self._buckets[caller]
