"""An approver narrows a call instead of approving it: another hold, for somebody else, or no hold at all."""

import pytest
from typer.testing import CliRunner

from licet.cli import app
from licet.refusal import Reason
from licet.v1 import approvals_pb2
from licet.v1.bundle_pb2 import FieldChange
from licet.v1.decision_pb2 import DECISION_TYPE_DENY, DECISION_TYPE_HOLD, DECISION_TYPE_MODIFY
from licet.v1.hold_pb2 import APPROVAL_ANSWER_APPROVE, APPROVAL_ANSWER_EDIT, HoldChange
from licet.v1.statement_pb2 import Scalar
from tests.integration.decider.test_holds import desk_of, held
from tests.worlds.decisions import TYPES, House, refund

pytestmark = pytest.mark.asyncio

EDIT = APPROVAL_ANSWER_EDIT


def to(minor: int) -> list[FieldChange]:
    return [FieldChange(path="amount.minor", at_most=minor)]


@pytest.mark.negative(37)
async def test_edited_call_is_another_hold_that_its_editor_may_not_approve(house: House) -> None:
    """Earlier answers are void; what is permitted is what the second person approved, as edited."""
    desk = await desk_of(house, quorum=2)
    hold = await held(house)
    await desk.answer(hold, "lena")
    status = await desk.answer(hold, "omar", EDIT, changes=to(50_000))
    assert status.state == approvals_pb2.HOLD_STATE_EDITED
    assert await desk.refused(hold, "ana@t1.example.com") == "HOLD_EDITED"
    edited = await held(house)
    assert edited.hold_id != hold.hold_id
    assert edited.text == "Refund 500.00 USD for order O1"
    assert [(hold.amount_minor, hold.currency), list(hold.changes)] == [(82_000, "USD"), []]
    assert [(edited.amount_minor, edited.currency), list(edited.changes)] == [
        (50_000, "USD"),
        [HoldChange(path="amount.minor", asked="82000", now="50000")],
    ]
    assert "omar" in edited.excluded_approvers
    assert await desk.refused(edited, "omar") == "APPROVAL_INVALID"
    status = await desk.answer(edited, "lena")
    assert status.state == approvals_pb2.HOLD_STATE_OPEN, "her answer to the first hold is void"


async def test_edited_call_is_permitted_as_edited_once_another_person_approved(house: House) -> None:
    desk = await desk_of(house)
    hold = await held(house)
    await desk.answer(hold, "omar", EDIT, changes=to(50_000))
    edited = await held(house)
    await desk.answer(edited, "lena")
    response = await house.decide(refund(minor=82_000))
    assert response.decision == DECISION_TYPE_MODIFY
    assert TYPES("IssueRefundRequest").FromString(response.effective_request).amount.minor == 50_000
    permit = house.permit(response)
    assert (permit.hold_id, permit.spend_id) == (edited.hold_id, hold.spend_id)
    event = (await house.decisions())[-1]
    assert (event.kind, list(event.approvals)) == ("decision.modified", ["lena"])
    assert "approver-edit" in event.rule_ids
    assert event.detail == "changed amount.minor"

    small = await held(house, 90_000, call_id="small")
    await desk.answer(small, "omar", EDIT, changes=to(4_000))
    at_once = await house.decide(refund(minor=90_000), call_id="small")
    assert at_once.decision == DECISION_TYPE_MODIFY, "the rules need nobody for so little"
    assert house.permit(at_once).hold_id == ""


async def test_edit_may_not_make_another_call_of_it(house: House) -> None:
    desk = await desk_of(house)
    swaps = {
        "order": [FieldChange(path="order_id", set=Scalar(text="O3"))],
        "more": [FieldChange(path="amount.minor", set=Scalar(integer=99_000))],
        "currency": [FieldChange(path="amount.currency", set=Scalar(text="JPY"))],
        "nothing": to(1_000_000),
    }
    for call_id, changes in swaps.items():
        hold = await held(house, call_id=call_id)
        await desk.answer(hold, "lena", EDIT, changes=changes)
        denied = await house.decide(refund(minor=82_000), call_id=call_id)
        assert (denied.decision, denied.refusal.reason) == (DECISION_TYPE_DENY, Reason.POLICY_DENIED)
        (*_, event) = await house.decisions(call_id)
        assert "cannot be narrowed" in event.detail


async def test_edits_that_do_not_count_are_refused_and_leave_it_held(house: House) -> None:
    desk = await desk_of(house)
    hold = await held(house)
    for who, answer, changes, role in (
        ("ines", EDIT, to(1), "auditor"),
        ("ana@t1.example.com", EDIT, to(1), "finance-lead"),
        ("lena", EDIT, [], "finance-lead"),
        ("lena", APPROVAL_ANSWER_APPROVE, to(1), "finance-lead"),
    ):
        rule_ids = [] if role == "auditor" else ["large"]
        refused = await desk.refused(hold, who, answer, changes=changes, role=role, rule_ids=rule_ids)
        assert refused == "APPROVAL_INVALID", who
    assert (await held(house)).hold_id == hold.hold_id


async def test_command_line_edits_with_a_persons_own_key(house: House) -> None:
    import asyncio

    await desk_of(house)
    hold = await held(house)
    command = [
        *("approvals", "edit", hold.hold_id, "--at-most", "amount.minor=50000", "--yes"),
        *("--key", str(house.ground.keys_dir / "approver-omar.key")),
        *("--decider", f"127.0.0.1:{house.process.port}", "--identity", "spiffe://licet.local/dev/desk"),
    ]
    result = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert result.exit_code == 0, result.output
    assert "edited" in result.output
    response = await house.decide(refund(minor=82_000))
    assert response.decision == DECISION_TYPE_HOLD
    assert response.hold.text == "Refund 500.00 USD for order O1"
    for bad in (["--at-most", "amount.minor"], ["--at-most", "a=b"], ["--mask", "a", "--clear", "a"], []):
        result = await asyncio.to_thread(CliRunner().invoke, app, [*command[:3], *bad, *command[5:]])
        assert result.exit_code == 2, bad
