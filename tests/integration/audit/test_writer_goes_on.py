"""The writer goes on after an exception that nobody foresaw, and passes over no batch."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from audit.store.sheet import EVENTS
from audit.store.stored import House
from audit.writing import writer as under_test
from audit.writing.writer import StreamWriter
from licet import metrics
from licet.streams import connect
from tests.worlds.scrape import samples

AUDIT = "LICET_AUDIT_dev"
FAILURES = "licet_audit_writer_failures_total"


@pytest.mark.asyncio
async def test_batch_that_cannot_be_encoded_once_is_written_later_and_none_is_lost(
    house: Any, event: Any, monkeypatch: Any, caplog: Any
) -> None:
    calls = []

    def encode(*given: Any) -> bytes:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("Value out of range")
        return EVENTS.encode(*given)

    monkeypatch.setattr(under_test, "UNEXPECTED_S", 0.05)
    await house.publish([event(number) for number in range(1, 101)])
    nc = await connect(house.nats.settings("audit-writer"), "test")
    counts = metrics.configure("test", None, "127.0.0.1:0")
    writer = StreamWriter(nc, house.store.address.client(), AUDIT, "test", 1000, metrics=counts)
    before = await asyncio.to_thread(samples, counts.port)
    writer._sheet = replace(EVENTS, encode=encode)
    with caplog.at_level(logging.ERROR):
        running = asyncio.create_task(writer.run(lambda: House("dev", "licet.local", None)))
        await house.until(house.stored(100))
        assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await nc.close()
    house.assert_exact(100)
    assert "writer.failed" in caplog.text
    after = await asyncio.to_thread(samples, counts.port)
    counts.shutdown()
    said = [
        [one.value for one in found if one.name == FAILURES and one.labels["licet_stream"] == AUDIT]
        for found in (before, after)
    ]
    assert said == [[0], [1]], "an alert must see the first failure as a rise"
