"""Holds and approvals: one exact call, waiting for exactly these people, on record."""

import asyncio
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import grpc
import grpc.aio
import pytest

from licet.hold import Quota, check_approvals
from licet.keyfile import read_signing_key
from licet.metadata import DEV_IDENTITY
from licet.refusal import Refusal
from licet.statement import PayloadType, canonical
from licet.streams import connect
from licet.v1 import approvals_pb2, approvals_pb2_grpc
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY, DECISION_TYPE_HOLD
from licet.v1.hold_pb2 import (
    APPROVAL_ANSWER_APPROVE,
    APPROVAL_ANSWER_ESCALATE,
    APPROVAL_ANSWER_REJECT,
    Approval,
    Hold,
)
from tests.integration.decider.test_decide import reason_of
from tests.worlds.decisions import House, order, refund, start_house

pytestmark = pytest.mark.asyncio

ME = ((DEV_IDENTITY, "spiffe://licet.local/dev/desk"),)


class Desk:
    """People who answer, each with their own key."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.stub: Any = approvals_pb2_grpc.ApprovalServiceStub(house.channel)

    async def holds(self, *, open_only: bool = False) -> Any:
        request = approvals_pb2.ListHoldsRequest(open_only=open_only)
        return (await self.stub.ListHolds(request, metadata=ME, timeout=60)).holds

    def signed(self, hold: Hold, who: str, answer: int = APPROVAL_ANSWER_APPROVE, **changes: Any) -> Any:
        key = changes.pop("key", f"approver-{who}")
        fields: dict[str, Any] = {
            "version": 1,
            "environment": hold.environment,
            "hold_id": hold.hold_id,
            "hold_sha256": sha256(canonical(hold)).digest(),
            "spend_id": hold.spend_id,
            "call_digest": hold.call_digest,
            "generation": hold.generation,
            "approver": who,
            "role": "finance-lead",
            "answer": answer,
            "rule_ids": ["large"],
            "authenticated_method": "key",
            "authenticated_at_ms": now(),
            "not_after_ms": hold.expires_at_ms,
        } | changes
        signing = read_signing_key(self.house.ground.keys_dir / f"{key}.key")
        return signing.sign(PayloadType.APPROVAL, canonical(Approval(**fields)))

    async def send(self, signed: Any) -> Any:
        request = approvals_pb2.AnswerRequest(approval=signed)
        return (await self.stub.Answer(request, metadata=ME, timeout=60)).hold

    async def answer(self, hold: Hold, who: str, *args: Any, **changes: Any) -> Any:
        return await self.send(self.signed(hold, who, *args, **changes))

    async def refused(self, hold: Hold, who: str, *args: Any, **changes: Any) -> str:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await self.answer(hold, who, *args, **changes)
        return reason_of(error.value)


async def refused_answers(house: House, number: int) -> list[Any]:
    """Return the events of answers that did not count, once there are `number` of them."""
    async with asyncio.timeout(60):
        told: list[Any] = []
        while len(told) < number:
            told = [event for event in await house.events() if event.kind == "approval.refused"]
    assert {one.caller for one in told} == {ME[0][1]}
    return told


def now() -> int:
    return time.time_ns() // 1_000_000


async def desk_of(house: House, quorum: int = 1) -> Desk:
    policy = house.ground.policy
    hold = (
        f'@id("large") @hold("finance-lead:{quorum}")'
        ' forbid (principal, action == Action::"refund", resource)'
        " when { context.amount_minor > 10000 };\n"
    )
    (policy / "rules.cedar").write_text((policy / "rules.cedar").read_text() + hold)
    (policy / "bundle.yaml").write_text('version: 2\nescalate_to: "desk@example.com"\n')
    await house.ground.activate()
    house.finance.orders["O1"] = order(amount_minor=1_000_000)
    for _ in range(100):
        response = await house.decide(refund(minor=10_001), call_id="probe")
        if response.decision == DECISION_TYPE_HOLD:
            return Desk(house)
        await asyncio.sleep(0.05)
    raise AssertionError("the bundle with the hold never came into force")


async def held(house: House, minor: int = 82_000, **fields: Any) -> Hold:
    response = await house.decide(refund(minor=minor), **fields)
    assert (response.decision, response.refusal.reason) == (DECISION_TYPE_HOLD, "HELD")
    return response.hold


async def test_approved_call_goes_through_once_people_answered_and_says_who(house: House) -> None:
    desk = await desk_of(house)
    hold = await held(house)
    assert hold.text == "Refund 820.00 USD for order O1"
    assert '"amount_minor":1000000' in hold.facts_json
    status = await desk.answer(hold, "lena")
    assert (status.state, status.approvers) == (approvals_pb2.HOLD_STATE_LIFTED, ["lena"])
    response = await house.decide(refund(minor=82_000))
    permit = house.permit(response)
    assert (permit.hold_id, permit.spend_id) == (hold.hold_id, hold.spend_id)
    events = await house.events()
    kinds = [event.kind for event in events if event.hold_id == hold.hold_id]
    assert kinds == ["approval.requested", "decision.held", "approval.voted", "decision.allowed"]
    [allowed] = [event for event in events if event.kind == "decision.allowed" and event.hold_id]
    assert allowed.approvals == ["lena"]


async def test_approve_82_000_and_run_820_000_is_another_hold(house: House) -> None:
    desk = await desk_of(house)
    hold = await held(house)
    await desk.answer(hold, "lena")
    larger = await held(house, 820_000)
    assert larger.hold_id != hold.hold_id
    assert house.permit(await house.decide(refund(minor=82_000))).hold_id == hold.hold_id


async def test_facts_that_changed_since_make_another_hold(house: House) -> None:
    desk = await desk_of(house)
    hold = await held(house)
    await desk.answer(hold, "lena")
    before = house.finance.orders["O1"]
    house.finance.orders["O1"] = order(amount_minor=1_000_000, version=2)
    changed = await held(house)
    assert changed.hold_id != hold.hold_id

    async def states(*, open_only: bool) -> dict[str, int]:
        listed = [(Hold.FromString(one.hold), one.state) for one in await desk.holds(open_only=open_only)]
        return {one.hold_id: state for one, state in listed if one.spend_id == hold.spend_id}

    waits, replaced = approvals_pb2.HOLD_STATE_OPEN, approvals_pb2.HOLD_STATE_SUPERSEDED
    assert await states(open_only=False) == {hold.hold_id: replaced, changed.hold_id: waits}
    assert await states(open_only=True) == {changed.hold_id: waits}
    house.finance.orders["O1"] = before  # what lena approved is so again
    assert house.permit(await house.decide(refund(minor=82_000))).hold_id == hold.hold_id
    lifted = approvals_pb2.HOLD_STATE_LIFTED
    assert await states(open_only=False) == {hold.hold_id: lifted, changed.hold_id: replaced}
    assert await states(open_only=True) == {}


@pytest.mark.negative(37)
async def test_answers_that_do_not_count_are_refused_and_leave_it_held(house: House) -> None:
    desk = await desk_of(house)
    hold = await held(house)
    other = await held(house, 90_000, call_id="call-2")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("ana@t1.example.com", {}),
        ("ines", {}),
        ("ines", {"role": "auditor"}),
        ("lena", {"role": "fx-desk"}),
        ("lena", {"key": "approver-omar"}),
        ("lena", {"key": "decider"}),
        ("lena", {"not_after_ms": now() - 1}),
        ("lena", {"environment": "production"}),
        ("lena", {"generation": 2}),
        ("lena", {"call_digest": other.call_digest}),
        ("lena", {"spend_id": "f" * 32}),
        ("lena", {"hold_sha256": sha256(canonical(other)).digest()}),
        ("lena", {"hold_id": other.hold_id}),
        ("lena", {"hold_id": "0" * 32}),
        ("lena", {"rule_ids": ["large", "another"]}),
        ("lena", {"answer": 0}),
        ("lena", {"version": 2}),
        ("lena", {"authenticated_method": "because the customer called"}),
    ]
    for who, changes in cases:
        assert await desk.refused(hold, who, **changes) == "APPROVAL_INVALID", changes
    swapped = desk.signed(hold, "lena")
    swapped.payload = swapped.payload.replace(b"lena", b"omar")
    with pytest.raises(grpc.aio.AioRpcError):
        await desk.send(swapped)
    assert (await held(house)).hold_id == hold.hold_id
    told = await refused_answers(house, len(cases))  # one spoke of no hold that there is, one more was sent
    assert [one.hold_id for one in told] == [hold.hold_id] * 12 + [other.hold_id] + [hold.hold_id] * 5
    assert told[0].detail == "key `approver-ana@t1.example.com`: who asked for the call may not answer it"
    assert [told[place].reason for place in (5, -1)] == ["KEY_ROLE", "SIGNATURE_INVALID"]
    await desk.answer(hold, "lena")
    assert (await house.decide(refund(minor=82_000))).decision == DECISION_TYPE_ALLOW
    assert (await held(house, 90_000, call_id="call-2")).hold_id == other.hold_id


async def test_quorum_of_two_needs_two_people(house: House) -> None:
    desk = await desk_of(house, quorum=2)
    hold = await held(house)
    assert (await desk.answer(hold, "lena")).state == approvals_pb2.HOLD_STATE_OPEN
    assert await desk.refused(hold, "lena") == "APPROVAL_INVALID"
    assert (await held(house)).hold_id == hold.hold_id
    [twice] = await refused_answers(house, 1)
    assert (twice.hold_id, twice.reason) == (hold.hold_id, "APPROVAL_INVALID")
    assert twice.detail == "key `approver-lena`: the approver has answered already"
    status = await desk.answer(hold, "omar")
    assert (status.state, status.approvers) == (approvals_pb2.HOLD_STATE_LIFTED, ["lena", "omar"])
    assert (await house.decide(refund(minor=82_000))).decision == DECISION_TYPE_ALLOW


async def test_one_reject_ends_it_whoever_else_approved(house: House) -> None:
    desk = await desk_of(house, quorum=2)
    hold = await held(house)
    await desk.answer(hold, "lena")
    status = await desk.answer(hold, "omar", APPROVAL_ANSWER_REJECT)
    assert status.state == approvals_pb2.HOLD_STATE_REJECTED
    response = await house.decide(refund(minor=82_000))
    assert (response.decision, response.refusal.reason) == (DECISION_TYPE_DENY, "HOLD_REJECTED")
    assert await desk.refused(hold, "ana@t1.example.com") == "HOLD_REJECTED"
    assert [one.reason for one in await refused_answers(house, 1)] == ["HOLD_REJECTED"]


async def plant(house: House, place: Hold, record: bytes, answers: Mapping[str, Any] = {}) -> None:
    """Write what nobody checks into the place of a hold, as whoever can write into the store."""
    nc = await connect(house.ground.nats.settings("decider"), "test")
    task = sha256(place.task_id.encode()).hexdigest()[:32]
    subject = f"licet.config.dev.hold.{task}.{place.hold_id}"
    await nc.jetstream().publish(f"{subject}.record", record)
    for who, signed in answers.items():
        person = sha256(who.encode()).hexdigest()[:32]
        await nc.jetstream().publish(f"{subject}.answer.{person}", canonical(signed))
    await nc.close()


async def refused_as(house: House) -> tuple[str, ...]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await house.decide(refund(minor=82_000))
    return reason_of(error.value), error.value.code().name


async def test_what_was_planted_in_the_place_of_a_hold_is_shown_to_nobody_and_lets_nothing_through(
    house: House,
) -> None:
    desk = await desk_of(house)
    hold = await held(house)
    other = await held(house, 20_000, call_id="call-2")
    status = await desk.answer(other, "lena")
    told_otherwise, of_1, endless = Hold(), Hold(), Hold()
    for made, changes in (
        (told_otherwise, {"text": "Refund 1.00 USD for order O1"}),
        (of_1, {"version": 1}),
        (endless, {"expires_at_ms": now() + 48 * 3_600_000}),
    ):
        made.CopyFrom(hold)
        made.MergeFrom(Hold(**changes))
        await plant(house, hold, canonical(made))
        assert await refused_as(house) == ("INTERNAL", "INTERNAL")
        shown = [Hold.FromString(one.hold) for one in await desk.holds()]
        assert hold.hold_id not in {one.hold_id for one in shown}
        assert await desk.refused(made, "lena") == "APPROVAL_INVALID"
    lifted = {"somebody": status.approvals[0]}  # a lawful hold, lifted: of another call
    await plant(house, hold, status.hold, lifted)
    assert await refused_as(house) == ("INTERNAL", "INTERNAL")
    await plant(house, hold, canonical(hold))
    assert await held(house) == hold
    await desk.answer(hold, "lena")
    assert (await house.decide(refund(minor=82_000))).decision == DECISION_TYPE_ALLOW


async def test_escalating_lifts_nothing(house: House) -> None:
    desk = await desk_of(house)
    hold = await held(house)
    assert (await desk.answer(hold, "lena", APPROVAL_ANSWER_ESCALATE)).state == approvals_pb2.HOLD_STATE_OPEN
    assert await desk.refused(hold, "lena") == "APPROVAL_INVALID"
    assert (await desk.answer(hold, "omar")).state == approvals_pb2.HOLD_STATE_LIFTED


async def test_same_hold_asked_again_is_one_record_and_one_request(house: House) -> None:
    desk = await desk_of(house)
    first, second = await held(house), await held(house)
    assert first == second
    [record] = [one for one in await desk.holds(open_only=True) if Hold.FromString(one.hold) == first]
    assert [need.role for need in record.missing] == ["finance-lead"]
    await asyncio.sleep(0.3)
    requested = [
        e for e in await house.events() if e.kind == "approval.requested" and e.hold_id == first.hold_id
    ]
    assert len(requested) == 1


async def test_decider_restarted_between_hold_and_approval_has_lost_nothing(house: House) -> None:
    await desk_of(house)
    hold = await held(house)
    await house.process.stop()
    again = await start_house(house.ground, house.finance)
    house.process, house.channel, house.stub = again.process, again.channel, again.stub
    assert (await held(house)).hold_id == hold.hold_id
    await Desk(house).answer(hold, "lena")
    assert house.permit(await house.decide(refund(minor=82_000))).hold_id == hold.hold_id


async def test_privileged_permit_carries_approvals_that_a_door_can_verify(house: House) -> None:
    tools = house.ground.policy / "tools.yaml"
    tools.write_text(tools.read_text().replace("tier: 4", "tier: 5\n    approvers: {finance-lead: 2}"))
    house.ground.build_catalog()
    await house.process.stop()
    again = await start_house(house.ground, house.finance)
    house.process, house.channel, house.stub = again.process, again.channel, again.stub
    desk = Desk(house)
    response = await house.decide()
    assert response.decision == DECISION_TYPE_HOLD
    for who in ("lena", "omar"):
        await desk.answer(response.hold, who, rule_ids=["catalog-approvers"])
    response = await house.decide()
    permit = house.permit(response)
    proofs = [canonical(proof) for proof in response.approvals]
    quotas = (Quota("finance-lead", 2),)
    assert check_approvals(proofs, permit, quotas, house.ground.keys, now_ms=now()) == ("lena", "omar")
    assert isinstance(check_approvals(proofs[:1], permit, quotas, house.ground.keys, now_ms=now()), Refusal)


async def test_holds_are_shown_to_known_peers_only(house: House) -> None:
    desk = await desk_of(house)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await desk.stub.ListHolds(approvals_pb2.ListHoldsRequest(), timeout=60)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_command_line_shows_and_signs(house: House) -> None:
    from typer.testing import CliRunner

    from decider.approval.cli import app

    await desk_of(house)
    hold = await held(house)
    where = ["--decider", f"127.0.0.1:{house.process.port}", "--identity", ME[0][1]]
    key = ["--key", str(house.ground.keys_dir / "approver-lena.key")]

    async def run(*words: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, app, [*words, *where])

    listed = await run("list")
    assert hold.hold_id[:12] in listed.stdout
    assert "1 × finance-lead (large)" in listed.stdout
    shown = await run("show", hold.hold_id[:8], "--json")
    assert '"text": "Refund 820.00 USD for order O1"' in shown.stdout
    missing = await run("approve", "ffff", "--yes", *key)
    assert (missing.exit_code, "0 holds begin with" in missing.output) == (1, True)
    other = await run("approve", hold.hold_id, "--yes", "--as", "omar", *key)
    assert (other.exit_code, "not valid" in other.output) == (1, True)
    done = await run("approve", hold.hold_id, "--yes", *key)
    assert (done.exit_code, "lifted" in done.output) == (0, True)
    assert (await house.decide(refund(minor=82_000))).decision == DECISION_TYPE_ALLOW
