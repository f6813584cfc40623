"""A step that can never run again asks nobody: it hears SPENT where it would wait for people."""

import pytest

from licet.refusal import Reason
from licet.v1.approvals_pb2 import HOLD_STATE_LIFTED, HOLD_STATE_SUPERSEDED
from licet.v1.decision_pb2 import DECISION_TYPE_DENY
from licet.v1.hold_pb2 import Hold
from licet.v1.spend_pb2 import OUTCOME_EXECUTED, OUTCOME_FAILED_NO_EFFECT
from tests.integration.decider.test_holds import desk_of, held
from tests.integration.decider.test_rounds import outcome, write
from tests.worlds.decisions import Ground, House, furnish, order, refund

pytestmark = pytest.mark.asyncio

LARGE = refund(minor=82_000)


async def hears(house: House, call_id: str) -> tuple[int, str]:
    response = await house.decide(LARGE, call_id=call_id)
    return response.decision, response.refusal.reason


SPENT = (DECISION_TYPE_DENY, Reason.SPENT)


async def test_an_executed_step_whose_facts_changed_asks_nobody_and_one_without_effect_does(
    house: House,
) -> None:
    desk = await desk_of(house)
    for call_id, ended in (("ran", OUTCOME_EXECUTED), ("failed", OUTCOME_FAILED_NO_EFFECT)):
        await desk.answer(await held(house, call_id=call_id), "lena")
        permit = house.permit(await house.decide(LARGE, call_id=call_id))
        await write(house, permit, "outcome", outcome(house, permit, ended))
    asked = {one.hold for one in await desk.holds()}
    house.finance.orders["O1"] = order(amount_minor=1_000_000, version=2)
    assert await hears(house, "ran") == SPENT
    assert {one.hold for one in await desk.holds()} == asked
    again = await held(house, call_id="failed")
    assert again.SerializeToString() not in asked


async def test_a_hold_left_open_by_a_step_that_ran_waits_for_nobody_any_more(house: House) -> None:
    desk = await desk_of(house)
    before = house.finance.orders["O1"]
    await desk.answer(await held(house), "lena")
    permit = house.permit(await house.decide(LARGE))
    house.finance.orders["O1"] = order(amount_minor=1_000_000, version=2)
    left = await held(house)
    assert left.SerializeToString(deterministic=True) in {
        one.hold for one in await desk.holds(open_only=True)
    }
    await write(house, permit, "outcome", outcome(house, permit, OUTCOME_EXECUTED))
    states = [one.state for one in await desk.holds() if Hold.FromString(one.hold).spend_id == left.spend_id]
    assert states.count(HOLD_STATE_SUPERSEDED) == 2, "the one that was lifted waits for nobody either"
    house.finance.orders["O1"] = before
    assert await hears(house, "call-1") == SPENT
    states = [one.state for one in await desk.holds() if Hold.FromString(one.hold).spend_id == left.spend_id]
    assert sorted(states) == [HOLD_STATE_LIFTED, HOLD_STATE_SUPERSEDED]
    assert left.SerializeToString(deterministic=True) not in {
        one.hold for one in await desk.holds(open_only=True)
    }


async def test_a_reserve_alone_spends_a_step_of_an_unguarded_tool(ground: Ground) -> None:
    """There is no other round at such a tool, however it ended."""
    tools = ground.policy / "tools.yaml"
    tools.write_text(tools.read_text().replace("guarded: true", "unguarded: idempotency_key"))
    ground.build_catalog()
    house = await furnish(ground)
    try:
        desk = await desk_of(house)
        await desk.answer(await held(house), "lena")
        permit = house.permit(await house.decide(LARGE))
        house.finance.orders["O1"] = order(amount_minor=1_000_000, version=2)
        await held(house)  # nobody has spent it yet
        await write(house, permit, "reserve", b"whatever lies there")
        assert await hears(house, "call-1") == SPENT
        await held(house, call_id="another")
    finally:
        await house.close()
