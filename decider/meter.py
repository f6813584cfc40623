"""What a decider counts: decisions, failures apart from denials, durations, spools, and holds that wait.

Guaranteed: no label is chosen by a caller; a method that no catalog has counts under tier `none`. Counting
waits for nothing. Not guaranteed: that holds are exact: they are looked at every `LOOK_S` seconds, the newest
1000 of them.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from decider.approval.holds import Holds
from decider.approval.votes import HoldState, Tally, bench_of, tally
from decider.decision.record import KINDS
from decider.in_force.configuration import Configuration
from licet import telemetry
from licet.catalog import Catalog
from licet.journal import Journal, LeftOut
from licet.log import log
from licet.metrics import Metrics, Values
from licet.refusal import Refusal
from licet.streams import StreamsError
from licet.tracing import TraceContext
from licet.v1.decider_pb2 import DecideRequest, DecideResponse

logger = logging.getLogger(__name__)

LOOK_S: Final = 30.0
FAILED: Final = "failed"


class DecisionMeter:
    """Counts answers, and requests that wait for one.

    Args:
        metrics: Of this process.
        catalogs: By audience; where tiers come from.
    """

    def __init__(self, metrics: Metrics, catalogs: Mapping[str, Catalog]) -> None:
        self._decisions = metrics.counter(telemetry.METRIC_DECISIONS)
        self._failures = metrics.counter(telemetry.METRIC_DECISION_FAILURES)
        self._duration = metrics.histogram(telemetry.METRIC_DECISION_DURATION)
        self._catalogs = catalogs
        self._open = 0
        metrics.observe(telemetry.METRIC_OPEN_DECISIONS, lambda: {(): self._open})

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """Count a request as open until it ends, however it does."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    def answered(
        self,
        request: DecideRequest,
        answer: DecideResponse | Refusal,
        started_s: float,
        trace: TraceContext | None,
    ) -> None:
        """Count one answer; `started_s` is of `time.perf_counter`."""
        seconds = time.perf_counter() - started_s
        if isinstance(answer, Refusal):
            self._failures.add(1, str(answer.reason))
            self._duration.record(seconds, FAILED, trace=trace)
            return
        _, decision = KINDS[answer.decision]
        self._decisions.add(1, decision, answer.refusal.reason, self._tier(request))
        self._duration.record(seconds, decision, trace=trace)

    def _tier(self, request: DecideRequest) -> str:
        named = self._catalogs.get(request.audience)
        for catalog in self._catalogs.values() if named is None else (named,):
            versions = catalog.method(request.method)
            if versions is not None:
                return str(int(versions.current.tier))
        return telemetry.NONE


class HoldWatch:
    """Looks every `LOOK_S` seconds at how many holds wait for people, and since when.

    Args:
        holds: Where they lie.
        configuration: Against what answers are verified.
        metrics: Of this process; where nobody reads, nobody looks.
        wall_ms: Unix ms.
    """

    def __init__(
        self, holds: Holds, configuration: Configuration, metrics: Metrics, wall_ms: Callable[[], int]
    ) -> None:
        self._holds, self._configuration = holds, configuration
        self._metrics, self._wall_ms = metrics, wall_ms
        self._open = metrics.gauge(telemetry.METRIC_HOLDS_OPEN)
        self._age = metrics.gauge(telemetry.METRIC_HOLDS_AGE)
        self._used = metrics.gauge(telemetry.METRIC_CONFIG_USED)

    async def run(self) -> None:
        """Look until cancelled."""
        while self._metrics.on:
            try:
                await self.look()
            except StreamsError as error:
                log(logger, logging.WARNING, "holds.not_read", detail=str(error)[:300])
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look once. Raises `StreamsError`."""
        self._used.set(await self._holds.stream_used())
        in_force, now_ms = self._configuration.current, self._wall_ms()
        if in_force is None:
            return
        bench = bench_of(in_force, now_ms)
        waiting = []
        for stored_ms, stored in await self._holds.dated():
            first = tally(stored, (), bench)
            if isinstance(first, Refusal) or first.state is not HoldState.OPEN:
                continue  # past its end whatever people said: its answers need no reading
            found = tally(stored, await self._holds.answers(first.hold), bench)
            open_still = isinstance(found, Tally) and found.state is HoldState.OPEN
            if not open_still or await self._holds.is_superseded(first.hold):
                continue
            if not await self._holds.is_executed(first.hold, bench.keys, now_ms):
                waiting.append(max(0, now_ms - stored_ms))
        self._open.set(len(waiting))
        self._age.set(max(waiting, default=0) / 1000)


def observe(metrics: Metrics, journal: Journal, configuration: Configuration) -> None:
    """Show how much is spooled and whether the bundle in force only shadows; count payloads left out."""
    left_out = metrics.counter(telemetry.METRIC_PAYLOADS_LEFT_OUT)
    for reason in LeftOut:
        left_out.begin(str(reason))
    journal.tell_left_out(lambda reason: left_out.add(1, str(reason)))

    def shadow() -> Values:
        in_force = configuration.current
        return {} if in_force is None else {(): int(in_force.bundle.shadow)}

    metrics.observe(telemetry.METRIC_SHADOW, shadow)
    metrics.observe(telemetry.METRIC_SPOOL_DEPTH, lambda: {("journal",): journal.depth})
