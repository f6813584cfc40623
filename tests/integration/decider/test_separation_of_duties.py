"""Who has a hand in a call may not approve it: whoever handed it down, and whoever owns the agent."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from licet.v1.approvals_pb2 import HOLD_STATE_LIFTED
from tests.integration.decider.test_holds import desk_of, held
from tests.worlds.decisions import Ground, House, furnish
from tests.worlds.delegations import DelegationDesk

pytestmark = pytest.mark.asyncio

ANA = "ana@t1.example.com"


@pytest_asyncio.fixture
async def handed_down(ground: Ground) -> AsyncIterator[House]:
    """Ana's task, which she handed to omar and omar to the bot."""
    desk = await DelegationDesk.opened(ground, "omar", "refund-bot")
    first = await desk.grant("--to", "omar", "--max-cost", "USD:100000")
    last = await desk.narrow(first, key="delegator-omar")
    (ground.policy / "tasks.yaml").write_text(
        "tasks:\n"
        f'  task_789: {{agent: refund-bot, caller: agent/refund-bot, principal: "{ANA}",'
        f" tenant: t1, delegation: {last}}}\n"
        f'  task_plain: {{agent: refund-bot, caller: agent/refund-bot, principal: "{ANA}", tenant: t1}}\n'
    )
    made = await furnish(ground)
    try:
        yield made
    finally:
        await made.close()


async def test_delegator_may_not_approve_what_was_handed_down(handed_down: House) -> None:
    desk = await desk_of(handed_down)
    hold = await held(handed_down)
    assert {ANA, "omar"} <= set(hold.excluded_approvers)
    assert await desk.refused(hold, "omar") == "APPROVAL_INVALID"
    assert (await held(handed_down)).hold_id == hold.hold_id
    assert (await desk.answer(hold, "lena")).state == HOLD_STATE_LIFTED
    # the same person may approve what did not come through their hands
    plain = await held(handed_down, task_id="task_plain", call_id="plain")
    assert (await desk.answer(plain, "omar")).state == HOLD_STATE_LIFTED


async def test_owner_of_the_agent_may_not_approve_its_calls(house: House) -> None:
    policy = house.ground.policy
    schema = policy / "schema.cedarschema"
    text = schema.read_text()
    assert "entity Agent;" in text
    schema.write_text(text.replace("entity Agent;", "entity Agent { owner: String };"))
    (policy / "entities.yaml").write_text(
        "entities:\n  Agent:\n"
        "    refund-bot: {attributes: {owner: omar}}\n    support-bot: {attributes: {owner: lena}}\n"
    )
    desk = await desk_of(house)
    hold = await held(house)
    assert "omar" in hold.excluded_approvers
    assert await desk.refused(hold, "omar") == "APPROVAL_INVALID"
    assert (await desk.answer(hold, "lena")).state == HOLD_STATE_LIFTED
