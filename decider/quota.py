"""How much one caller may ask: a token bucket each, taken before any work.

Guarantees: over any time, a caller gets at most `burst` plus `per_second` for each second; what others ask
takes nothing from it. Memory is bounded: callers that have been quiet long enough to be full again are
forgotten.
"""

from dataclasses import dataclass
from typing import Final

MAX_CALLERS: Final = 10_000
"""How many callers are remembered at once; beyond it the quiet ones are forgotten, then newcomers refused."""


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

    def take(self, caller: str, monotonic_ms: int) -> bool:
        """Take one for `caller`; False where it has used up its share."""
        bucket = self._buckets.get(caller)
        if bucket is None:
            if len(self._buckets) >= MAX_CALLERS:
                self._forget(monotonic_ms)
            if len(self._buckets) >= MAX_CALLERS:
                return False
            bucket = self._buckets[caller] = _Bucket(self._burst, monotonic_ms)
        self._fill(bucket, monotonic_ms)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _fill(self, bucket: _Bucket, monotonic_ms: int) -> None:
        gained = (monotonic_ms - bucket.at_ms) * self._per_ms
        bucket.tokens, bucket.at_ms = min(self._burst, bucket.tokens + gained), monotonic_ms

    def _forget(self, monotonic_ms: int) -> None:
        for caller, bucket in list(self._buckets.items()):
            self._fill(bucket, monotonic_ms)
            if bucket.tokens >= self._burst:
                del self._buckets[caller]
