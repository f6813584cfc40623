"""The loop breaker in a decider: what repeats itself is denied, with its rule; a polled method is not."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW
from tests.worlds.decisions import GET_ORDER, TYPES, Ground, House, furnish, refund

pytestmark = pytest.mark.asyncio

LOOPS = "loops: {same: 2, alternating: 2, junk: 3, probes: 3, empty: 4}\n"


@pytest_asyncio.fixture
async def house(ground: Ground) -> AsyncIterator[House]:
    manifest, tools = ground.policy / "bundle.yaml", ground.policy / "tools.yaml"
    manifest.write_text(manifest.read_text() + LOOPS)
    said = '    say: "Read order {order_id}"\n'
    assert said in tools.read_text()
    tools.write_text(tools.read_text().replace(said, said + "    polls: true\n"))
    ground.build_catalog()
    made = await furnish(ground)
    yield made
    await made.close()


async def test_what_repeats_itself_is_denied_and_what_is_polled_is_not(house: House) -> None:
    answers = [await house.decide(call_id=f"same-{at}") for at in range(4)]
    assert [one.refusal.reason for one in answers] == ["", "", "LOOP_BROKEN", "LOOP_BROKEN"]
    assert answers[2].refusal.safe_reason == "the same call again and again: the loop was broken"
    [event] = await house.decisions("same-2")
    assert (event.kind, list(event.rule_ids)) == ("decision.denied", ["loop-same"])
    assert event.detail == "the same call 3 times within 600 s"
    for _ in range(5):  # the same step asked for again is no loop: it has one effect
        assert (await house.decide(call_id="same-0")).decision == DECISION_TYPE_ALLOW
    # another task is another matter, and so is a method that is meant to be polled
    other = await house.decide(call_id="other", task_id="task_791")
    assert other.refusal.reason == "TENANT_MISMATCH"
    body = TYPES("GetOrderRequest")(order_id="O1").SerializeToString()
    for at in range(10):
        polled = await house.decide(body, method=GET_ORDER, call_id=f"poll-{at}")
        assert polled.decision == DECISION_TYPE_ALLOW


async def test_two_calls_in_turn_and_a_junk_field_that_changes_are_denied(house: House) -> None:
    for at, minor in enumerate((1, 2, 1)):
        assert (await house.decide(refund(minor=minor), call_id=f"turn-{at}")).refusal.reason == ""
    assert (await house.decide(refund(minor=2), call_id="turn-3")).refusal.reason == "LOOP_BROKEN"
    [event] = await house.decisions("turn-3")
    assert list(event.rule_ids) == ["loop-alternating"]
    junk = [
        refund(minor=3) + TYPES("IssueRefundRequest")(reason=f"try {at}").SerializeToString()
        for at in range(4)
    ]
    answers = [await house.decide(body, call_id=f"junk-{at}") for at, body in enumerate(junk)]
    assert [one.refusal.reason for one in answers] == ["", "", "", "LOOP_BROKEN"]
    [event] = await house.decisions("junk-3")
    assert list(event.rule_ids) == ["loop-junk"]
    assert (await house.decide(refund(minor=4), call_id="work")).decision == DECISION_TYPE_ALLOW


async def test_a_ceiling_is_not_felt_for_and_empty_answers_end(house: House) -> None:
    for minor in (5_003, 5_002, 5_001):
        denied = await house.decide(refund(minor=minor), call_id=f"probe-{minor}")
        assert denied.refusal.reason == "POLICY_DENIED"
    found = await house.decide(refund(minor=5_000), call_id="found")
    assert found.refusal.reason == "LOOP_BROKEN"
    [event] = await house.decisions("found")
    assert list(event.rule_ids) == ["loop-probes"]
    assert "5" not in found.refusal.safe_reason  # no number that a prober could use
    search = TYPES("SearchPolicyRequest")(query="refunds").SerializeToString()
    asked = {"method": "/fin.v1.Finance/SearchPolicy", "call_id": "empty"}
    stopped = await house.decide(search, **asked, empty_in_a_row=4)
    assert stopped.refusal.reason == "LOOP_BROKEN"
    assert (await house.decide(search, **asked, empty_in_a_row=3)).decision == DECISION_TYPE_ALLOW
