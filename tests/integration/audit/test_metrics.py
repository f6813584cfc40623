"""How far behind the store is and what it will never have, as Prometheus reads it."""

import asyncio
from typing import Any

import pytest

from audit.writing.writer import Position, StreamWriter
from licet import metrics
from licet.embedded.ports import free_port
from tests.integration.audit.test_writer import AUDIT, stored
from tests.worlds.scrape import samples, total


@pytest.mark.asyncio
async def test_a_writer_shows_its_lag_by_stream(house: Any, event: Any) -> None:
    port = free_port()
    house.start_writer(LICET_METRICS_LISTEN=f"127.0.0.1:{port}")
    await house.publish([event(n) for n in range(1, 11)])
    await house.until(house.stored(10))

    def caught_up() -> bool:
        lags = {
            one.labels["licet_stream"]: one.value
            for one in samples(port)
            if one.name == "licet_audit_stream_lag"
        }
        return lags == {f"LICET_{name}_dev": 0 for name in ("AUDIT", "SPEND_LOG", "LEDGER", "PAYLOAD")}

    await house.until(caught_up)


@pytest.mark.asyncio
async def test_a_gap_is_counted_by_message_and_its_whole_twin_is_not(store: Any, event: Any) -> None:
    running = metrics.configure("test", None, "127.0.0.1:0")
    nothing: Any = None  # reporting reads no stream
    writer = StreamWriter(nothing, store.client, AUDIT, "holder", 10, metrics=running)
    writer._report_gap(Position(1, 2), stored(event, 3, 5))
    assert total(await asyncio.to_thread(samples, running.port), "licet_audit_gaps_total") == 0
    writer._report_gap(Position(3, 5), stored(event, 8, 9))
    found = await asyncio.to_thread(samples, running.port)
    running.shutdown()
    assert total(found, "licet_audit_gaps_total", stream=AUDIT) == 2
