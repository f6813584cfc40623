"""A collector that accepts and never answers: nothing waits for it, nothing grows, and the process ends."""

import asyncio
import contextlib
import os
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from licet import metrics, telemetry, tracing
from licet.metrics import Metrics
from licet.tracing import Tracing

WITHIN_S = tracing._EXPORT_TIMEOUT_MS / 1000
"""Whoever waited for an export would wait at least so long."""
MAX_SHUTDOWN_S = 5.0
MAX_GROWTH_BYTES = 20 << 20
WARM = 6_000
"""Spans that fill the queue: what is held from then on may not grow."""


class BlackHole:
    """Takes connections and whatever comes, and says nothing."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.taken: list[socket.socket] = []
        self._taking = threading.Thread(target=self._take, daemon=True)
        self._taking.start()

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.taken.append(self._server.accept()[0])

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._taking.join()
        self._server.close()
        for connection in self.taken:
            connection.close()


@pytest.fixture
def hole() -> Iterator[BlackHole]:
    made = BlackHole()
    yield made
    made.close()


def call(spans: Tracing, counts: metrics.Histogram) -> float:
    """Leave what one call at the door leaves; return the seconds that it took."""
    started = time.perf_counter()
    recording = spans.record()
    root = recording.span("fin.v1.Finance/IssueRefund")
    for name in (telemetry.SPAN_PERMIT_VERIFY, telemetry.SPAN_PERMIT_SPEND):
        recording.span(name, under=root).end()
    recording.close()
    counts.record(0.01, "passed", "EXECUTED", trace=root.context)
    return time.perf_counter() - started


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_waits_and_nothing_grows_while_the_collector_is_silent(hole: BlackHole) -> None:
    hold_out(hole, 4)


def hold_out(hole: BlackHole, seconds: float) -> None:
    """Leave what calls leave for so long; assert that nothing waited or grew, and that the end is soon.

    Whoever waited would do so at each call, since the queue is full; a busy machine halts one now and then.
    """
    spans, running = begin(hole)
    counts = running.histogram(telemetry.METRIC_DOOR_DURATION)
    taken = [call(spans, counts) for _ in range(WARM)]
    calls, slow = len(taken), sum(one >= WITHIN_S for one in taken)
    before, end = resident(), time.monotonic() + seconds
    while time.monotonic() < end:
        taken = [call(spans, counts) for _ in range(100)]
        calls, slow = calls + len(taken), slow + sum(one >= WITHIN_S for one in taken)
        time.sleep(0.005)
    grown = resident() - before
    print(f"{calls} calls, {slow} of {WITHIN_S:.0f} s or more, {grown / (1 << 20):.1f} MiB grown")  # noqa: T201 - figures
    assert hole.taken, "it was asked"
    assert slow <= calls / 1000
    assert grown <= MAX_GROWTH_BYTES
    assert ends_soon(hole, spans, running)


def begin(hole: BlackHole) -> tuple[Tracing, Metrics]:
    return tracing.configure("test", hole.endpoint), metrics.configure("test", hole.endpoint, None)


def ends_soon(hole: BlackHole, spans: Tracing, running: Metrics) -> bool:
    """Whether the end comes within `MAX_SHUTDOWN_S`, in one of three tries: a busy machine halts it, too."""
    for _ in range(3):
        started = time.monotonic()
        end_together(spans, running)
        took = time.monotonic() - started
        print(f"ended in {took:.2f} s")  # noqa: T201 - as above
        if took < MAX_SHUTDOWN_S:
            return True
        spans, running = begin(hole)
        counts = running.histogram(telemetry.METRIC_DOOR_DURATION)
        for _ in range(WARM):
            call(spans, counts)
    return False


def end_together(spans: Tracing, running: Metrics) -> None:
    """Stop both as the parts do: side by side."""

    async def both() -> None:
        await asyncio.gather(asyncio.to_thread(spans.shutdown), asyncio.to_thread(running.shutdown))

    asyncio.run(both())


def test_a_scrape_is_answered_while_the_collector_is_silent(hole: BlackHole) -> None:
    from tests.worlds.scrape import samples, total

    running = metrics.configure("test", hole.endpoint, "127.0.0.1:0")
    running.counter(telemetry.METRIC_DECISION_FAILURES).add(3, "STORE_UNAVAILABLE")
    times = []
    for _ in range(5):
        started = time.perf_counter()
        assert total(samples(running.port), "licet_decision_failures_total") == 3
        times.append(time.perf_counter() - started)
    assert statistics.median(times) < WITHIN_S
    running.shutdown()
