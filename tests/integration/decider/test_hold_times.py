"""Holds over time: approved after six hours, too late, too early, twice; and who is told."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import decider.process
from decider.clock import SYSTEM_CLOCK
from licet.permit import verify_permit
from licet.refusal import Refusal
from licet.statement import canonical
from licet.streams import connect
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY, DECISION_TYPE_HOLD
from licet.v1.hold_pb2 import Hold
from tests.integration.decider.test_holds import desk_of, held, plant
from tests.worlds.decisions import REFUND, TYPES, House, refund, start_house

pytestmark = pytest.mark.asyncio

HOUR_MS = 3_600_000


async def later(house: House, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the decider, and start it again as if so many hours had passed."""

    def wall_ms() -> int:
        return time.time_ns() // 1_000_000 + hours * HOUR_MS

    await house.channel.close()
    await house.process.stop()
    monkeypatch.setattr(decider.process, "wall_ms", wall_ms)
    monkeypatch.setattr(decider.process, "SYSTEM_CLOCK", replace(SYSTEM_CLOCK, wall_ms=wall_ms))
    again = await start_house(house.ground, house.finance)
    house.process, house.channel, house.stub = again.process, again.channel, again.stub


async def until(true: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = await true()
        if found:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(what)


async def test_approval_after_six_hours_and_a_restart_lifts_the_hold(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same call id after six hours: a full new decision, and a permit that begins then."""
    desk = await desk_of(house)
    hold = await held(house)
    await later(house, 6, monkeypatch)
    desk = type(desk)(house)
    assert (await held(house)).hold_id == hold.hold_id
    now_ms = time.time_ns() // 1_000_000 + 6 * HOUR_MS
    await desk.answer(hold, "lena", authenticated_at_ms=now_ms)
    response = await house.decide(refund(minor=82_000))
    permit = verify_permit(response.signed, house.ground.keys, now_ms=now_ms + 1_000)
    assert not isinstance(permit, Refusal)
    assert permit.hold_id == hold.hold_id
    assert permit.issued_at_ms >= now_ms
    assert await desk.refused(hold, "lena") == "APPROVAL_INVALID"


@pytest.mark.negative(37)
async def test_approval_that_comes_too_late_lifts_nothing_and_its_end_is_told_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its end: denied as HOLD_EXPIRED, one approval.expired, one notice; a new call id may try anew."""
    desk = await desk_of(house)
    hold = await held(house)
    other = await held(house, 90_000, call_id="answered")
    await desk.answer(other, "lena")
    tasks = house.ground.policy / "tasks.yaml"  # the task is given more time: it goes on, its hold does not
    tasks.write_text(tasks.read_text().replace("hours: 12", "hours: 23"))
    await later(house, 13, monkeypatch)
    desk = type(desk)(house)
    late = await house.decide(refund(minor=82_000))
    assert (late.decision, late.refusal.reason) == (DECISION_TYPE_DENY, "HOLD_EXPIRED")
    assert late.refusal.escalate_to == "desk@example.com"
    assert await desk.refused(hold, "lena", not_after_ms=hold.expires_at_ms + 24 * HOUR_MS) == "HOLD_EXPIRED"
    again = await house.decide(refund(minor=82_000))
    assert again.refusal.reason == "HOLD_EXPIRED"
    assert (await held(house, call_id="anew")).hold_id != hold.hold_id

    async def told() -> list[Any]:
        ended = [event for event in await house.events() if event.kind == "approval.expired"]
        assert all(
            event.hold_id != other.hold_id for event in ended
        )  # approved in time: it ran out for nobody
        return [event for event in ended if event.hold_id == hold.hold_id]

    [event] = await until(told, "no approval.expired came")
    assert (event.hold_id, list(event.rule_ids)) == (hold.hold_id, ["large"])
    await later(house, 13, monkeypatch)  # looks again, as a second decider would
    await held(house, call_id="anew-2")
    assert len(await told()) == 1


async def test_answer_that_a_decider_did_not_live_to_tell_is_told_once_by_the_next(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between storing it and its event; an answer that nobody signed is told by nobody."""
    desk = await desk_of(house)
    hold, other = await held(house), await held(house, 90_000, call_id="told")
    await desk.answer(other, "lena")
    forged = desk.signed(hold, "omar", key="approver-lena")
    await plant(house, hold, canonical(hold), {"lena": desk.signed(hold, "lena"), "omar": forged})
    await later(house, 1, monkeypatch)

    async def told() -> list[Any]:
        return [event for event in await house.events() if event.kind == "approval.voted"]

    async def both() -> bool:
        return len(await told()) >= 2

    await until(both, "nobody told it")
    await later(house, 1, monkeypatch)  # looks again, as a second decider would
    assert (await house.decide(refund(minor=82_000))).decision == DECISION_TYPE_ALLOW
    said = [(event.hold_id, *event.approvals, event.detail) for event in await told()]
    lifts = "approve as finance-lead, which lifts it"
    assert said == [(other.hold_id, "lena", lifts), (hold.hold_id, "lena", lifts)]


async def test_approver_hears_of_a_hold_on_the_subject_of_the_environment(house: House) -> None:
    await desk_of(house)
    nc = await connect(house.ground.nats.settings("desk"), "desk")
    try:
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def hear(message: Any) -> None:
            await heard.put(message.data)

        await nc.subscribe("licet.notice.dev.hold", cb=hear)
        await nc.flush()
        hold = await held(house)
        async with asyncio.timeout(60):
            said = json.loads(await heard.get())
        assert (said["type"], said["hold_id"]) == ("hold.requested", hold.hold_id)
    finally:
        await nc.close()


async def test_approval_before_there_is_a_hold_counts_for_nothing(house: House) -> None:
    """Early: signed for the very call that will be asked, stored nowhere, so the hold still waits."""
    desk = await desk_of(house)
    template = await held(house, 90_000, call_id="template")
    early = Hold()
    early.CopyFrom(template)
    early.hold_id = "b" * 32
    assert await desk.refused(early, "lena") == "APPROVAL_INVALID"
    response = await house.decide(refund(minor=82_000))
    assert response.decision == DECISION_TYPE_HOLD


OTHERS = {"reason": "damaged", "memo": "", "lines": [1], "kind": 1, "notes": {"ana": {}}}
"""A value for each argument that the catalog's sentence does not show."""


def with_other(name: str) -> bytes:
    """Return the approved refund with one more argument."""
    return refund(minor=82_000) + TYPES("IssueRefundRequest")(**{name: OTHERS[name]}).SerializeToString()


async def test_every_field_that_is_swapped_after_approval_is_another_hold(house: House) -> None:
    """Every argument, the task, the call id: what lena approved opens nothing but itself."""
    tasks = house.ground.policy / "tasks.yaml"
    same = '{agent: refund-bot, caller: agent/refund-bot, principal: "ana@t1.example.com", tenant: t1}'
    tasks.write_text(f"{tasks.read_text()}  task_800: {same}\n")
    await house.process.stop()
    again = await start_house(house.ground, house.finance)
    house.process, house.channel, house.stub = again.process, again.channel, again.stub
    desk = await desk_of(house)
    hold = await held(house)
    await desk.answer(hold, "lena")
    house.finance.orders["O2"] = house.finance.orders["O1"] | {"order_id": "O2"}
    swapped = (
        (refund(minor=82_001), {}),
        (refund("O2", minor=82_000), {}),
        (refund(minor=82_000), {"call_id": "call-2"}),
        (refund(minor=82_000), {"task_id": "task_800"}),
        *((with_other(name), {}) for name in OTHERS),
    )
    known = {field.name for field in TYPES("IssueRefundRequest").DESCRIPTOR.fields}
    assert known == {"order_id", "amount", *OTHERS}
    for body, fields in swapped:
        response = await house.decide(body, **fields)
        assert response.decision == DECISION_TYPE_HOLD, fields
        assert response.hold.hold_id != hold.hold_id
    other_currency = await house.decide(refund(minor=82_000, currency="JPY"))
    assert other_currency.decision == DECISION_TYPE_DENY
    told = [event for event in await house.events() if event.kind.startswith("decision.") and event.call_id]
    asked = [event for event in told if event.method == REFUND][-len(swapped) - 1 :]
    assert [event.kind for event in asked] == ["decision.held"] * len(swapped) + ["decision.denied"]
    assert len({event.hold_id for event in asked} - {"", hold.hold_id}) == len(swapped)
    assert (await house.decide(refund(minor=82_000))).decision == DECISION_TYPE_ALLOW
