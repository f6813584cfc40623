"""The process's clocks, as the core's Protocol asks for them."""

import time


class SystemClock:
    """Unix time and the monotonic clock, in ms."""

    def now_ms(self) -> int:
        """Return Unix time in ms; may jump."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return ms of a clock that never goes back."""
        return time.monotonic_ns() // 1_000_000
