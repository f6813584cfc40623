"""The flaws of approvals at the door stand in tests/worlds/permit_flaws.py; here is what they do not show."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from licet.hold import (
    MAX_APPROVALS,
    UNNAMED,
    Quota,
    Requirement,
    Vote,
    check_approvals,
    hold_id,
    hold_id_1,
    named_hold,
    open_requirements,
    read_approval,
    requirements_of,
)
from licet.refusal import Reason, Refusal
from licet.revocation import RevocationKind, Revocations
from licet.strict import canonical
from licet.v1.hold_pb2 import ApprovalAnswer, Hold, HoldChange, HoldCost, HoldRequirement
from tests.worlds import permit as world
from tests.worlds.permit import ENVIRONMENT, KEYS, NOW, REQUIREMENTS

DIGEST = bytes(range(32))
HELD = world.hold(world.wipe_decision())
NEEDS = st.lists(
    st.builds(Requirement, st.text(max_size=3), st.text(max_size=3), st.integers(1, 3)), max_size=3
)


def test_hold_id_is_the_one_of_the_protocol() -> None:
    """Computed once apart from this code: another language must come to the same."""
    assert hold_id_1("a" * 32, DIGEST, REQUIREMENTS, "{}") == "ad2af1ee682d648c2ceea4c44edc92d9"


@given(NEEDS, NEEDS, st.text(max_size=3), st.text(max_size=3))
def test_different_reasons_or_facts_are_different_holds(
    one: list[Requirement], other: list[Requirement], facts: str, shown: str
) -> None:
    def key(needs: list[Requirement]) -> list[tuple[str, str, int]]:
        return sorted((need.rule_id, need.role, need.quorum) for need in needs)

    same = (key(one), facts) == (key(other), shown)
    assert (hold_id_1("s", DIGEST, one, facts) == hold_id_1("s", DIGEST, other, shown)) is same


def test_order_of_rules_does_not_change_the_hold() -> None:
    assert hold_id_1("s", DIGEST, REQUIREMENTS, "") == hold_id_1("s", DIGEST, REQUIREMENTS[::-1], "")


SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.CPPTYPE_STRING: st.text(max_size=3),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 3),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 3),
    FieldDescriptor.CPPTYPE_INT64: st.integers(0, 3),
}
MESSAGES: dict[str, st.SearchStrategy[Any]] = {
    "HoldRequirement": st.builds(
        HoldRequirement,
        rule_id=st.text(max_size=2),
        role=st.text(max_size=2),
        quorum=st.integers(0, 2),
    ),
    "HoldCost": st.builds(HoldCost, name=st.text(max_size=2), amount=st.integers(-1, 1)),
    "HoldChange": st.builds(
        HoldChange, path=st.text(max_size=2), asked=st.text(max_size=2), now=st.text(max_size=2)
    ),
}


def value_of(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    one = MESSAGES[field.message_type.name] if field.message_type else SCALARS[field.cpp_type]
    if field.type == FieldDescriptor.TYPE_BYTES:
        one = st.binary(max_size=3)
    return st.lists(one, max_size=2) if field.is_repeated else one


@pytest.mark.parametrize("name", [field.name for field in Hold.DESCRIPTOR.fields])
@given(data=st.data())
def test_whatever_a_hold_says_names_it_but_its_end_and_its_trace(name: str, data: st.DataObject) -> None:
    """Every field there is, those added later too: one that is left out of the id must stand in UNNAMED."""
    strategies = {field.name: value_of(field) for field in Hold.DESCRIPTOR.fields}
    said = data.draw(st.fixed_dictionaries(strategies))
    one = Hold(**said)
    other = Hold(**said | {name: data.draw(strategies[name])})
    same = name in UNNAMED or canonical(one) == canonical(other)
    assert (hold_id(one) == hold_id(other)) is same


def test_hold_id_of_version_2_is_that_of_the_bytes_without_three_fields() -> None:
    """Made here without protobuf: version, id, environment, text, end and trace."""
    front, text = b"\x08\x02", b"\x1a\x03dev" + b"\x6a\x02hi"
    made = front + b"\x12\x01x" + text + b"\x78\x07" + b"\xa2\x01\x01t"
    assert canonical(Hold.FromString(made)) == made
    named = sha256(b"licet-hold-v2\0" + front + text).hexdigest()[:32]
    assert hold_id(Hold.FromString(made)) == named


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"text": "Tidy B1", "hold_id": HELD.hold_id}, "not that of its contents"),
        ({"version": 1}, "version 1: make the call again"),
        ({"version": 3}, "version 3"),
    ],
)
def test_record_that_is_misnamed_or_of_another_version_is_no_hold(changes: dict[str, Any], why: str) -> None:
    refusal = named_hold(canonical(world.hold(world.wipe_decision(), **changes)))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.APPROVAL_INVALID
    assert why in refusal.detail
    assert named_hold(canonical(HELD)) == HELD
    assert isinstance(named_hold(b"\xff"), Refusal)


def vote(approver: str, role: str, **changes: Any) -> Vote:
    proof = world.proof(HELD, world.approval(HELD, approver, role, **changes))
    read = read_approval(proof, KEYS, environment=ENVIRONMENT, now_ms=NOW)
    assert isinstance(read, Vote), read
    return read


def test_vote_round_trips() -> None:
    read = vote("ada", "lead")
    assert (read.hold, read.key_id, read.approval.approver) == (HELD, "ada", "ada")
    assert requirements_of(read.hold) == REQUIREMENTS


def test_rejection_is_a_vote_that_lifts_nothing() -> None:
    """The decider reads it and ends the hold; the door refuses it."""
    rejection = vote("ada", "lead", answer=ApprovalAnswer.APPROVAL_ANSWER_REJECT)
    assert open_requirements([rejection]) == REQUIREMENTS


def test_hold_is_lifted_by_the_last_vote() -> None:
    ada, cyd = vote("ada", "lead"), vote("cyd", "security")
    assert open_requirements([ada]) == REQUIREMENTS[1:]
    assert open_requirements([ada, cyd]) == ()


def test_one_person_counts_once_for_a_rule() -> None:
    held = world.hold(
        world.wipe_decision(),
        requirements=[{"rule_id": "r", "role": "lead", "quorum": 2}],
        excluded_approvers=[],
    )

    def read(approver: str) -> Vote:
        proof = world.proof(held, world.approval(held, approver, "lead"))
        result = read_approval(proof, KEYS, environment=ENVIRONMENT, now_ms=NOW)
        assert isinstance(result, Vote), result
        return result

    assert open_requirements([read("ada"), read("ada")]) != ()
    assert open_requirements([read("ada"), read("bob")]) == ()


def test_votes_for_two_holds_or_none_are_the_caller_s_fault() -> None:
    other = vote("ada", "lead")
    approval = world.approval(world.hold(world.wipe_decision(), text="other"), "ada", "lead")
    with pytest.raises(ValueError, match="exactly one hold"):
        open_requirements([other, replace(other, approval=approval)])
    with pytest.raises(ValueError, match="exactly one hold"):
        open_requirements([])


def test_approval_of_a_revoked_key_is_invalid() -> None:
    revoked = Revocations(1, ENVIRONMENT, frozenset({(RevocationKind.KEY, "ada")}))
    proof = world.proof(HELD, world.approval(HELD, "ada", "lead"))
    refusal = read_approval(proof, KEYS, environment=ENVIRONMENT, now_ms=NOW, revocations=revoked)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.APPROVAL_INVALID


@pytest.mark.parametrize("part", ["approval", "hold"])
def test_approval_or_hold_that_cannot_be_parsed_is_refused(part: str) -> None:
    payload = b"\xff" if part == "approval" else world.canonical(world.approval(HELD, "ada", "lead"))
    held = b"\xff" if part == "hold" else world.canonical(HELD)
    signed = world.signing_key("ada").sign(world.PayloadType.APPROVAL, payload)
    proof = world.canonical(world.hold_pb2.ApprovalProof(hold=held, approval=signed))
    refusal = read_approval(proof, KEYS, environment=ENVIRONMENT, now_ms=NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.PERMIT_MALFORMED


def test_catalog_s_quota_is_demanded_whatever_the_hold_asks() -> None:
    """A decider that lies about which rules fired still needs the people the tool's owner demands."""
    made = world.wipe_decision(hold_id="")
    held = world.hold(made, requirements=[])
    made.hold_id = held.hold_id
    ada = world.proof(held, world.approval(held, "ada", "lead"))
    cyd = world.proof(held, world.approval(held, "cyd", "security"))
    quotas = (Quota("lead", 1), Quota("security", 1))
    assert check_approvals([ada, cyd], made, quotas, KEYS, now_ms=NOW) == ("ada", "cyd")
    refusal = check_approvals([ada], made, quotas, KEYS, now_ms=NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.APPROVAL_MISSING


def test_four_approvals_are_read_and_five_are_not() -> None:
    proof = world.proof(HELD, world.approval(HELD, "ada", "lead"))
    made = world.wipe_decision()
    four = check_approvals([proof] * MAX_APPROVALS, made, (), KEYS, now_ms=NOW)
    five = check_approvals([proof] * (MAX_APPROVALS + 1), made, (), KEYS, now_ms=NOW)
    assert isinstance(four, Refusal)
    assert isinstance(five, Refusal)
    assert (four.reason, five.reason) == (Reason.APPROVAL_INVALID, Reason.TOO_LARGE)


CHANGES = [{"path": "book", "set": {"text": "B2"}}]
EDIT = ApprovalAnswer.APPROVAL_ANSWER_EDIT


def read_as(role: str, **changes: Any) -> Vote | Refusal:
    answer = world.approval(HELD, "ada", role, **changes)
    return read_approval(world.proof(HELD, answer), KEYS, environment=ENVIRONMENT, now_ms=NOW)


@pytest.mark.parametrize(
    "answer",
    [
        ApprovalAnswer.APPROVAL_ANSWER_APPROVE,
        ApprovalAnswer.APPROVAL_ANSWER_REJECT,
    ],
)
def test_changes_belong_to_an_edit_and_an_edit_has_some(answer: ApprovalAnswer) -> None:
    """Changes beside a yes would be signed by nobody who knew that they were a change."""
    for refusal in (read_as("lead", answer=answer, changes=CHANGES), read_as("lead", answer=EDIT)):
        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.APPROVAL_INVALID
        assert "changes belong to an edit" in refusal.detail
    assert isinstance(read_as("lead", answer=answer), Vote)
    assert isinstance(read_as("lead", answer=EDIT, changes=CHANGES), Vote)


def test_only_those_a_hold_waits_for_may_change_the_call() -> None:
    other = world.hold(
        world.wipe_decision(),
        requirements=[{"rule_id": "wipe-needs-security", "role": "security", "quorum": 1}],
    )
    answer = world.approval(other, "ada", "lead", answer=EDIT, changes=CHANGES)
    refusal = read_approval(world.proof(other, answer), KEYS, environment=ENVIRONMENT, now_ms=NOW)
    assert isinstance(refusal, Refusal)
    assert "nothing of the hold waits for lead" in refusal.detail
    assert isinstance(read_as("lead", answer=EDIT, changes=CHANGES), Vote)
