"""The process's clocks, as the core's Protocol asks for them."""

from licet.clock import elapsed_ms, wall_ms


class SystemClock:
    """Unix time and elapsed time, in ms."""

    def now_ms(self) -> int:
        """Return Unix time in ms; may jump."""
        return wall_ms()

    def monotonic_ms(self) -> int:
        """Return ms of a clock that never goes back and goes on in a suspended machine."""
        return elapsed_ms()
