"""What a decider counts, scraped from a real one: failed apart from denied, holds that wait, nobody named."""

import asyncio
import time
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio

from decider import meter
from licet.v1.hold_pb2 import APPROVAL_ANSWER_REJECT
from tests.integration.decider.test_holds import desk_of, held
from tests.worlds.decisions import REFUND_BOT, Ground, House, furnish, refund
from tests.worlds.scrape import samples, text, total

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def house(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(meter, "LOOK_S", 0.1)
    made = await furnish(ground, metrics_listen="127.0.0.1:0")
    try:
        yield made
    finally:
        await made.close()


async def test_denied_and_failed_are_counted_apart(house: House) -> None:
    await house.decide()
    await house.decide(refund("O3"), call_id="call-2")
    house.finance.answer = b"\xff"
    with pytest.raises(grpc.aio.AioRpcError):
        await house.decide(call_id="call-3")
    found = await asyncio.to_thread(samples, house.process.metrics_port)
    assert total(found, "licet_decisions_total", decision="allow", reason="none", tier="4") == 1
    assert total(found, "licet_decisions_total", decision="deny", tier="4") == 1
    assert total(found, "licet_decisions_total") == 2
    assert total(found, "licet_decision_failures_total", reason="FACTS_UNAVAILABLE") == 1
    assert total(found, "licet_decision_failures_total") == 1
    assert total(found, "licet_decision_duration_seconds_count", decision="failed") == 1
    assert total(found, "licet_decision_duration_seconds_count") == 3


async def test_a_method_that_a_caller_makes_up_is_no_label(house: House) -> None:
    await house.decide(method="/made.Up/Name", call_id="call-1")
    said = await asyncio.to_thread(text, house.process.metrics_port)
    assert 'licet_tier="none"' in said
    assert [word for word in ("made.Up", "task_789", "call-1", REFUND_BOT, "O1") if word in said] == []


async def test_a_request_is_open_until_it_is_answered(house: House) -> None:
    assert await shown(house, "licet_decision_open", 0)
    house.finance.may_answer = asyncio.Event()
    asking = [asyncio.ensure_future(house.decide(call_id=f"call-{number}")) for number in range(3)]
    assert await shown(house, "licet_decision_open", 3)
    house.finance.may_answer.set()
    await asyncio.gather(*asking)
    assert await shown(house, "licet_decision_open", 0)


async def test_holds_that_wait_are_counted_until_people_answer(house: House) -> None:
    desk = await desk_of(house)  # its probe waits too
    hold = await held(house)
    assert await shown(house, "licet_holds_open", 2)
    found = await asyncio.to_thread(samples, house.process.metrics_port)
    assert 0 < total(found, "licet_holds_oldest_age_seconds") < 60
    assert 0 < total(found, "licet_config_used") < 0.5
    assert total(found, "licet_decisions_total", decision="hold", reason="HELD") == 2
    await desk.answer(hold, "lena", APPROVAL_ANSWER_REJECT)
    assert await shown(house, "licet_holds_open", 1)


async def shown(house: House, name: str, value: float, within_s: float = 60) -> bool:
    """Return whether a gauge shows a value, waiting for it."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = await asyncio.to_thread(samples, house.process.metrics_port)
        if [one.value for one in found if one.name == name] == [value]:
            return True
        await asyncio.sleep(0.05)
    return False
