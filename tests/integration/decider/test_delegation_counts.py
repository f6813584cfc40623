"""Calls and money of delegations over time: booked by all deciders, on every link of a chain."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY, Decision
from licet.v1.spend_pb2 import Outcome
from tests.integration.decider.test_budgets import Ledger, ledger_of
from tests.integration.decider.test_holds import desk_of as approving
from tests.integration.decider.test_holds import held
from tests.integration.decider.test_two_deciders import second
from tests.worlds.decisions import GET_ORDER, TYPES, Ground, House, furnish, refund
from tests.worlds.delegations import DelegationDesk

__all__ = ["ledger_of"]

pytestmark = pytest.mark.asyncio

Opened = Callable[[Ground], Awaitable[Ledger]]
ONE_CALL = "\nbudgets:\n  everybody: {period: month, calls: 1}\n"
NOTE = """
notes:
  delegation-max-cost: {safe_reason: "what Ana handed down is used up", escalate_to: "ana@t1.example.com"}
"""


async def desk_of(ground: Ground) -> DelegationDesk:
    return await DelegationDesk.opened(ground, "support-bot", "refund-bot")


def reasons(answers: list[Any]) -> Counter[str]:
    return Counter(one.refusal.reason or "permitted" for one in answers)


@pytest.mark.negative(36)
async def test_of_many_calls_at_once_through_two_deciders_as_many_are_permitted_as_the_link_says(
    ground: Ground, ledger_of: Opened, tmp_path: Path
) -> None:
    """Two children share what their parent has: 3 and 4 of 5 calls, whoever of the two deciders is asked."""
    desk = await desk_of(ground)
    first = await desk.grant("--max-calls", "5", "--max-cost", "USD:100000")
    three = await desk.narrow(first, "--max-calls", "3")
    four = await desk.narrow(first, "--max-calls", "4")
    desk.tasks(task_three=three, task_four=four)
    house = await furnish(ground)
    other = await second(house, tmp_path)
    try:
        both = (house, other)
        answers = await asyncio.gather(
            *(
                both[at % 2].decide(
                    refund(minor=100),
                    call_id=f"call-{at}",
                    task_id="task_three" if at < 20 else "task_four",
                )
                for at in range(40)
            )
        )
        assert reasons(answers) == {"permitted": 5, "DELEGATION_EXCEEDED": 35}
        assert reasons(answers[:20])["permitted"] <= 3
        assert reasons(answers[20:])["permitted"] <= 4
        ledger = await ledger_of(ground)
        await ledger.check()
        used = {one.account.text: one.used for one in await ledger.book.every_balance()}
        assert used[f"delegation {first}: calls of support-bot from ana@t1.example.com"] == 5
        assert used[f"delegation {first}: USD of support-bot from ana@t1.example.com"] == 500
    finally:
        await other.channel.close()
        await other.process.stop()
        await house.close()


@pytest.mark.negative(36)
async def test_money_of_earlier_calls_counts_and_the_refusal_names_the_link_and_what_the_bundle_says(
    ground: Ground,
) -> None:
    desk = await desk_of(ground)
    manifest = ground.policy / "bundle.yaml"
    manifest.write_text(manifest.read_text().replace("\nnotes:\n", NOTE))
    first = await desk.grant("--max-cost", "USD:10000")
    desk.tasks(task_789=await desk.narrow(first, "--max-cost", "USD:9000"))
    house = await furnish(ground)
    try:
        assert (await house.decide(refund(minor=5_000), call_id="a")).decision == DECISION_TYPE_ALLOW
        refused = await house.decide(refund(minor=4_001), call_id="b")
        assert (refused.decision, refused.refusal.reason) == (DECISION_TYPE_DENY, "DELEGATION_EXCEEDED")
        assert "what Ana handed down is used up" in str(refused)
        assert "ana@t1.example.com" in str(refused)
        [event] = await house.decisions("b")
        assert list(event.rule_ids) == ["delegation-max-cost"]
        assert "5000 of 9000 are used, 4001 more were asked for" in event.detail
        # its lawful twin takes what is left, and then nothing is
        assert (await house.decide(refund(minor=4_000), call_id="c")).decision == DECISION_TYPE_ALLOW
        assert (await house.decide(refund(minor=1), call_id="d")).refusal.reason == "DELEGATION_EXCEEDED"
    finally:
        await house.close()


async def test_what_had_no_effect_is_given_back_and_what_was_executed_is_not(
    ground: Ground, ledger_of: Opened
) -> None:
    desk = await desk_of(ground)
    first = await desk.grant("--max-calls", "2")
    desk.tasks(task_789=await desk.narrow(first))
    house = await furnish(ground)
    try:
        ledger = await ledger_of(ground)
        for number, outcome in enumerate((Outcome.OUTCOME_EXECUTED, Outcome.OUTCOME_FAILED_NO_EFFECT)):
            answer = await house.decide(refund(minor=100), call_id=f"call-{number}")
            decision = Decision.FromString(answer.signed.payload)
            await ledger.door.reserve(answer.signed, decision)
            await ledger.door.outcome(decision, outcome)
        assert (await house.decide(refund(minor=1), call_id="x")).refusal.reason == "DELEGATION_EXCEEDED"
        await ledger.settle()
        settled = {
            one.account.text.split(": ")[1].split(" ")[0]: one for one in await ledger.book.every_balance()
        }
        assert (settled["calls"].booked, settled["calls"].settled) == (0, 1)
        assert (settled["USD"].booked, settled["USD"].settled) == (0, 100)
        assert (await house.decide(refund(minor=1), call_id="y")).decision == DECISION_TYPE_ALLOW
        assert (await house.decide(refund(minor=1), call_id="z")).refusal.reason == "DELEGATION_EXCEEDED"
        await ledger.check()
    finally:
        await house.close()


async def test_denied_call_and_the_same_step_again_cost_a_delegation_nothing(
    ground: Ground, ledger_of: Opened
) -> None:
    desk = await desk_of(ground)
    desk.tasks(task_789=await desk.narrow(await desk.grant("--max-calls", "1")))
    house = await furnish(ground)
    try:
        assert (await house.decide(refund("O3"), call_id="denied")).refusal.reason == "POLICY_DENIED"
        for _ in range(2):
            assert (await house.decide(refund(minor=1), call_id="same")).decision == DECISION_TYPE_ALLOW
        assert (await house.decide(refund(minor=1), call_id="next")).refusal.reason == "DELEGATION_EXCEEDED"
        ledger = await ledger_of(ground)
        assert {
            one.account.text.split(": ")[1].split(" ")[0]: one.used
            for one in await ledger.book.every_balance()
        } == {
            "calls": 1,
            "USD": 1,
        }
    finally:
        await house.close()


async def test_reads_count_as_calls_and_are_spent_so_that_their_end_is_known(ground: Ground) -> None:
    desk = await desk_of(ground)
    reading = ("--method", GET_ORDER, "--operation", "read_order", "--max-calls", "1")
    desk.tasks(task_789=await desk.narrow(await desk.grant(*reading)))
    house = await furnish(ground)
    try:
        body = TYPES("GetOrderRequest")(order_id="O1").SerializeToString()
        first = await house.decide(body, method=GET_ORDER, call_id="a")
        assert house.permit(first).spends
        again = await house.decide(body, method=GET_ORDER, call_id="b")
        assert again.refusal.reason == "DELEGATION_EXCEEDED"
        [event] = await house.decisions("b")
        assert list(event.rule_ids) == ["delegation-max-calls"]
    finally:
        await house.close()


@pytest.mark.negative(35)
async def test_hold_of_a_delegation_that_was_revoked_meanwhile_is_not_resumed(ground: Ground) -> None:
    desk = await desk_of(ground)
    first = await desk.grant("--max-cost", "USD:100000")
    desk.tasks(task_789=await desk.narrow(first), task_twin=await desk.narrow(first))
    house = await furnish(ground)
    try:
        people = await approving(house)
        holds = {task: await held(house, task_id=task, call_id=task) for task in ("task_789", "task_twin")}
        for hold in holds.values():
            await people.answer(hold, "lena")
        await desk.run("revoke", desk.resting["task_789"])
        asked = {task: await house.decide(refund(minor=82_000), task_id=task, call_id=task) for task in holds}
        assert asked["task_789"].refusal.reason == "DELEGATION_REVOKED"
        assert asked["task_twin"].decision == DECISION_TYPE_ALLOW
    finally:
        await house.close()


async def test_task_without_a_delegation_is_counted_for_nobody(
    house: House, ground: Ground, ledger_of: Opened
) -> None:
    assert (await house.decide()).decision == DECISION_TYPE_ALLOW
    assert await (await ledger_of(ground)).book.every_balance() == ()


async def test_what_a_budget_on_trial_would_stop_is_booked_on_its_links_all_the_same(
    ground: Ground,
) -> None:
    """Else a link under a used up budget of a bundle in stage shadow would have no end."""
    desk = await desk_of(ground)
    first = await desk.grant("--max-calls", "2")
    desk.tasks(task_789=await desk.narrow(first))
    manifest = ground.policy / "bundle.yaml"
    until = datetime.now(UTC).date() + timedelta(days=2)
    waived = f'stage: shadow\nwaiver: {{until: "{until}", reason: "a trial"}}'
    manifest.write_text(manifest.read_text().replace("stage: enforce", waived) + ONE_CALL)
    house = await furnish(ground)
    try:
        answers = [await house.decide(refund(minor=1), call_id=call_id) for call_id in "abc"]
        assert [one.refusal.reason for one in answers] == ["", "", "DELEGATION_EXCEEDED"]
        shadows = [(await house.decisions(call_id))[0].shadow_decision for call_id in "abc"]
        assert shadows == ["", "deny", ""]
    finally:
        await house.close()
