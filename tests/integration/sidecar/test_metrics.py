"""What a door counts, scraped from a real one: passed and refused apart, spends timed, nobody named."""

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from licet import metrics
from licet.tracing import TraceContext
from sidecar.meter import DoorMeter
from sidecar.workers import Workers
from tests.integration.sidecar.test_process import Served
from tests.integration.test_black_hole import MAX_SHUTDOWN_S, BlackHole
from tests.worlds.mint import refund
from tests.worlds.rig import Rig
from tests.worlds.scrape import samples, text, total

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("sidecar_metrics")]

TRACE = TraceContext("a" * 32, "b" * 16)
TRIES = 3


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    await rig.start(sidecars=0)
    yield rig
    await rig.stop()


async def test_a_door_counts_what_it_let_through_and_what_it_refused(rig: Rig) -> None:
    door = await rig.add_sidecar(metrics_listen="127.0.0.1:0")
    order = rig.order()
    body = refund(order_id=order)
    permit = rig.permit(body)
    assert await rig.call(permit, body=body.SerializeToString(), sidecar=door) == "passed"
    assert await rig.call(permit, body=body.SerializeToString(), sidecar=door) == "SPENT"
    assert await rig.call(body=body.SerializeToString(), sidecar=door) == "NO_PERMIT"
    found = await asyncio.to_thread(samples, door.metrics_port)
    calls = "licet_door_calls_total"
    assert total(found, calls) == 3
    assert total(found, calls, enforcement="passed", reason="none", outcome="EXECUTED") == 1
    assert total(found, calls, enforcement="refused", reason="SPENT", outcome="none") == 1
    assert total(found, calls, enforcement="refused", reason="NO_PERMIT") == 1
    assert total(found, "licet_door_duration_seconds_count", enforcement="passed") == 1
    assert 0 < total(found, "licet_door_duration_seconds_sum") < 60
    assert total(found, "licet_spend_duration_seconds_count", reason="none") == 1
    assert total(found, "licet_spend_duration_seconds_count") >= 1
    assert 0 <= total(found, "licet_beacon_age_seconds") < 60
    assert {one.labels["licet_spool"] for one in found if one.name == "licet_spool_depth"} == {
        "journal",
        "outcome",
    }


async def test_scraped_text_names_no_order_no_step_and_no_caller(rig: Rig) -> None:
    door = await rig.add_sidecar(metrics_listen="127.0.0.1:0")
    order = rig.order()
    body = refund(order_id=order)
    assert await rig.call(rig.permit(body), body=body.SerializeToString(), sidecar=door) == "passed"
    said = await asyncio.to_thread(text, door.metrics_port)
    assert "licet_door_calls_total{" in said
    assert [word for word in (order, "spiffe://", "task_", "call_", "order:") if word in said] == []


async def test_a_reason_that_a_tool_invents_is_no_label_of_its_own() -> None:
    running = metrics.configure("test", None, "127.0.0.1:0")
    meter = DoorMeter(running)
    counted: dict[str, Any] = {"enforcement": "passed", "seconds": 0.1, "trace": TRACE}
    meter.concluded(reason="order_O1_is_cursed", outcome="FAILED_NO_EFFECT", **counted)
    meter.concluded(reason="PRECONDITION_FAILED", outcome="FAILED_NO_EFFECT", **counted)
    meter.concluded(reason="", outcome="UNKNOWN", **counted)
    found = await asyncio.to_thread(samples, running.port)
    running.shutdown()
    reasons = {one.labels["licet_reason"] for one in found if one.name == "licet_door_calls_total"}
    assert reasons == {"OTHER", "PRECONDITION_FAILED", "none"}
    assert total(found, "licet_spend_unknown_outcomes_total") == 1


async def test_a_door_whose_metrics_address_is_taken_does_not_start(rig: Rig) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="Address already in use"),
    ):
        await rig.add_sidecar(metrics_listen=f"127.0.0.1:{taken.getsockname()[1]}")


@pytest.mark.parametrize(("port", "expected"), [(9100, [9100, 9101]), (0, [0, 0])])
async def test_each_worker_is_scraped_at_a_port_of_its_own(rig: Rig, port: int, expected: list[int]) -> None:
    workers = Workers(rig.settings(metrics_listen=f"127.0.0.1:{port}", workers=2))
    told = [workers._own(index)["LICET_METRICS_LISTEN"] for index in range(2)]
    assert told == [f"127.0.0.1:{one}" for one in expected]


async def test_a_door_whose_collector_is_silent_lets_calls_through_and_ends_in_time(rig: Rig) -> None:
    hole = BlackHole()
    try:
        took: list[float] = []
        while not took or (took[-1] >= MAX_SHUTDOWN_S and len(took) < TRIES):  # a busy machine halts it, too
            served = await Served.start(rig, otlp_endpoint=hole.endpoint, metrics_endpoint=hole.endpoint)
            for _ in range(20):
                body = refund(order_id=rig.order())
                permit = rig.permit(body)
                assert await rig.call(permit, body=body.SerializeToString(), sidecar=served) == "passed"  # type: ignore[arg-type]
            await rig.until(lambda: hole.taken, lambda: "the collector was not asked")
            started = time.monotonic()
            served.process.send_signal(signal.SIGTERM)
            status, _ = await served.ended()
            assert status == 0
            took.append(time.monotonic() - started)
        assert took[-1] < MAX_SHUTDOWN_S, took
    finally:
        hole.close()
