"""A task's contract at a running decider: what it does not allow is denied, what needs a person is held."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY, DECISION_TYPE_HOLD
from tests.worlds.decisions import Ground, House, furnish, refund

pytestmark = pytest.mark.asyncio

TASKS = """
tasks:
  task_789: {agent: refund-bot, caller: agent/refund-bot, principal: "ana@t1.example.com", tenant: t1,
    contract: {allow: [refund, read_order], values: {refund: {order_id: [O1]}}}}
  task_reads: {agent: refund-bot, caller: agent/refund-bot, principal: "ana@t1.example.com", tenant: t1,
    contract: {allow: [read_order]}}
  task_drafts: {agent: refund-bot, caller: agent/refund-bot, principal: "ana@t1.example.com", tenant: t1,
    contract: {allow: [refund], autonomy: draft}}
  task_asks: {agent: refund-bot, caller: agent/refund-bot, principal: "ana@t1.example.com", tenant: t1,
    contract: {allow: [refund], approve: [refund], approver: finance-lead}}
"""


@pytest_asyncio.fixture
async def contracted(ground: Ground) -> AsyncIterator[House]:
    (ground.policy / "tasks.yaml").write_text(TASKS)
    made = await furnish(ground)
    try:
        yield made
    finally:
        await made.close()


async def test_refund_within_the_contract_gets_its_permit(contracted: House) -> None:
    assert (await contracted.decide()).decision == DECISION_TYPE_ALLOW


@pytest.mark.parametrize("task", ["task_reads", "task_drafts"])
async def test_what_the_contract_does_not_allow_is_denied_whatever_the_rules_say(
    contracted: House, task: str
) -> None:
    response = await contracted.decide(task_id=task)
    assert response.decision == DECISION_TYPE_DENY
    assert response.refusal.reason == "CONTRACT_REFUSED"
    [event] = await contracted.decisions()
    assert (event.kind, event.reason) == ("decision.denied", "CONTRACT_REFUSED")


async def test_bound_argument_with_another_value_is_denied(contracted: House) -> None:
    response = await contracted.decide(refund("O2"))
    assert response.decision == DECISION_TYPE_DENY
    assert response.refusal.reason == "CONTRACT_REFUSED"


async def test_what_needs_approval_is_held_for_the_contracts_approver(contracted: House) -> None:
    response = await contracted.decide(task_id="task_asks")
    assert response.decision == DECISION_TYPE_HOLD
    [need] = response.hold.requirements
    assert (need.rule_id, need.role, need.quorum) == ("task-contract", "finance-lead", 1)
