"""What a door counts: calls and their durations, spends and theirs, beacon age, spool depths.

Guaranteed: nothing here waits, and no label is chosen by a caller or a tool: a reason that is not in licet's
list counts as `OTHER`. Not guaranteed: that a count is read; every call has its event all the same.
"""

import time
from collections.abc import Callable
from typing import Final

from licet import telemetry
from licet.journal import Journal
from licet.metrics import Metrics, Values
from licet.permit import Permit
from licet.refusal import Reason, Refusal
from licet.tracing import TraceContext
from sidecar.knowledge import Knowledge
from sidecar.outcome import Outcome
from sidecar.parts import Reserved, Spend
from sidecar.store.link import Store

OTHER: Final = "OTHER"
"""A reason that a tool gave and that is none of licet's."""

_REASONS: Final = frozenset(reason.value for reason in Reason)
_FAULT: Final = "fault"


class DoorMeter:
    """Counts calls as they end.

    Args:
        metrics: Of this process.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._calls = metrics.counter(telemetry.METRIC_DOOR_CALLS)
        self._duration = metrics.histogram(telemetry.METRIC_DOOR_DURATION)
        self._unknown = metrics.counter(telemetry.METRIC_UNKNOWN_OUTCOMES)
        self._unknown.begin()

    def concluded(
        self, *, enforcement: str, reason: str, outcome: str, seconds: float, trace: TraceContext
    ) -> None:
        """Count one call that has ended."""
        known = reason if not reason or reason in _REASONS else OTHER
        self._calls.add(1, enforcement, known, outcome)
        self._duration.record(seconds, enforcement, outcome, trace=trace)
        if outcome == Outcome.UNKNOWN.value:
            self._unknown.add(1)


class TimedSpend:
    """A store of spends whose reserves are timed.

    Args:
        spend: Does the work.
        metrics: Of this process.
    """

    def __init__(self, spend: Spend, metrics: Metrics) -> None:
        self._spend = spend
        self._duration = metrics.histogram(telemetry.METRIC_SPEND_DURATION)

    async def reserve(self, permit: Permit, *, attempt: str) -> Reserved | Refusal:
        """Use the step up, or say why not."""
        started, reason = time.perf_counter(), _FAULT
        try:
            result = await self._spend.reserve(permit, attempt=attempt)
            reason = result.reason.value if isinstance(result, Refusal) else ""
            return result
        finally:
            self._duration.record(time.perf_counter() - started, reason)

    def outcome(self, permit: Permit, *, attempt: str, outcome: Outcome, status_code: int) -> None:
        """Spool the outcome record."""
        self._spend.outcome(permit, attempt=attempt, outcome=outcome, status_code=status_code)


def observe(
    metrics: Metrics, knowledge: Knowledge, journal: Journal, store: Store, open_calls: Callable[[], int]
) -> None:
    """Show the age of the beacon, what is spooled and how many calls are open, whenever somebody reads."""

    def beacon_age() -> Values:
        age_ms = knowledge.age_ms()
        return {} if age_ms is None else {(): age_ms / 1000}

    def depths() -> Values:
        return {("journal",): journal.depth, ("outcome",): store.waiting_outcomes}

    metrics.observe(telemetry.METRIC_BEACON_AGE, beacon_age)
    metrics.observe(telemetry.METRIC_SPOOL_DEPTH, depths)
    metrics.observe(telemetry.METRIC_OPEN_CALLS, lambda: {(): open_calls()})
