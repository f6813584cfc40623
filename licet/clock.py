"""The clocks of a running process: what time it is, and how much of it has passed.

Guaranteed: `elapsed_ms` never goes back, and goes on while the machine is suspended, where the system can
tell (CLOCK_BOOTTIME, Linux): what was fresh before is not fresh after. CLOCK_MONOTONIC stands still then. Not
guaranteed: that wall time is right, or goes forward; what `elapsed_ms` counts from, so that it means nothing
to another process; that a virtual machine that was stopped or restored knows for how long.

Nobody else asks the system for the time (`tests/unit/test_house.py`), but for timeouts, which are waits and
no validity: `time.monotonic`, `loop.time`, `time.perf_counter`.
"""

import time
from typing import Final

_ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def wall_ns() -> int:
    """Return Unix time in ns; may jump."""
    return time.time_ns()


def wall_us() -> int:
    """Return Unix time in µs; may jump."""
    return time.time_ns() // 1_000


def wall_ms() -> int:
    """Return Unix time in ms; may jump."""
    return time.time_ns() // 1_000_000


def elapsed_ms() -> int:
    """Return ms of a clock that never goes back and goes on in a suspended machine."""
    return time.clock_gettime_ns(_ELAPSED) // 1_000_000
