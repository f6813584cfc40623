"""The clocks of a running decider."""

import secrets
import time
from typing import Final

from decider.decision.parts import Clock
from licet.event import uuid7


def wall_ms() -> int:
    """Return Unix ms."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return ms of a clock that cannot be set back."""
    return time.monotonic_ns() // 1_000_000


SYSTEM_CLOCK: Final = Clock(wall_ms, monotonic_ms, lambda now_ms: uuid7(now_ms, secrets.token_bytes(10)))
