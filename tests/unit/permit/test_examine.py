"""Invariant: what `examine` lets through is a decided call, and every flaw gets its one reason, at its own
check.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.dsse import PayloadType
from licet.hold import MAX_APPROVAL_BYTES
from licet.keys import KeySet
from licet.permit import CHECKS, MAX_PERMIT_BYTES, Permit, examine, step_of, still_holds, verify_permit
from licet.permit.case import Case
from licet.refusal import Reason, Refusal
from licet.statement import verify
from licet.strict import canonical
from licet.v1.decision_pb2 import Decision
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import DOOR, GET, KEYS, NOW, REFUND, WIPE, at_door
from tests.worlds.permit_flaws import FLAWS, LAWFUL, LAWFUL_READ, LAWFUL_WIPE, Flaw, Scene


def flaws() -> Iterator[Any]:
    for flaw in FLAWS:
        marks = [] if flaw.negative is None else [pytest.mark.negative(flaw.negative)]
        yield pytest.param(flaw, id=flaw.name, marks=marks)


def test_flaws_have_distinct_names() -> None:
    assert len({flaw.name for flaw in FLAWS}) == len(FLAWS)


@pytest.mark.parametrize("flaw", list(flaws()))
def test_flawed_call_is_refused_and_its_lawful_twin_passes(flaw: Flaw) -> None:
    refusal = flaw.scene.examine()
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.step) == (flaw.reason, int(flaw.check.split("_")[1]))
    assert isinstance(flaw.twin.examine(), Permit)


def test_every_check_has_a_flaw_that_it_stops() -> None:
    assert {flaw.check for flaw in FLAWS} == {check.__name__ for check in CHECKS}


def test_checks_run_in_the_order_of_their_numbers() -> None:
    steps = [step_of(check) for check in CHECKS]
    assert steps == sorted(steps)
    assert set(steps) == set(range(2, 12))


def test_page_lists_the_checks_in_the_order_they_run() -> None:
    page = (Path(__file__).parents[3] / "docs" / "protocol-permit.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(check_\w+)` \|", page, re.MULTILINE)
    assert rows == [(str(step_of(check)), check.__name__) for check in CHECKS]


def test_permit_carries_what_the_checks_established() -> None:
    permit = LAWFUL.examine()
    assert isinstance(permit, Permit)
    assert permit.arguments.canonical == world.refund()
    assert permit.call_digest == permit.decision.call_digest
    assert permit.method.path == REFUND
    assert (permit.spend_id, permit.round, permit.spends) == (permit.decision.spend_id, 0, True)
    assert permit.not_after_ms == NOW + 50_000
    assert permit.approvers == ()
    assert canonical(permit.signed) == LAWFUL.presented.permits[0]


def test_read_is_not_spent_unless_its_permit_says_so() -> None:
    read = LAWFUL_READ.examine()
    limited = at_door(world.presented(GET, world.sign(world.decision(GET, spends=True))))
    assert isinstance(read, Permit)
    assert not read.spends
    assert isinstance(limited, Permit)
    assert limited.spends


def test_read_that_the_catalog_spends_needs_a_permit_that_spends() -> None:
    signed = world.signed_catalog(
        world.catalog_message(refund=world.method(REFUND, facts=None), get=_spent_get())
    )
    setting = world.Setting(catalog=signed)
    method = setting.door().catalog.method(GET)
    assert method is not None
    digest = method.current.digest
    refused = Scene(_with_digest(digest, spends=False), setting).examine()
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.PERMIT_MALFORMED


def _spent_get() -> Any:
    return world.method(GET, spends=True)


def _with_digest(digest: bytes, **changes: Any) -> Any:
    return world.presented(GET, world.sign(world.decision(GET, method_digest=digest, **changes)))


@pytest.mark.parametrize("flaw", [flaw for flaw in FLAWS if "_revoked" in flaw.name], ids=lambda f: f.name)
def test_what_was_revoked_while_a_call_waited_counts_as_if_it_had_been_before(flaw: Flaw) -> None:
    permit = flaw.twin.examine()
    assert isinstance(permit, Permit)
    for scene, expected in ((flaw.scene, flaw.reason), (flaw.twin, None)):
        refusal = still_holds(permit, scene.setting.door(), now_ms=scene.now_ms, monotonic_ms=scene.now_ms)
        assert (None if refusal is None else refusal.reason) is expected


def test_a_permit_that_ended_while_a_call_waited_holds_no_more() -> None:
    permit = LAWFUL.examine()
    assert isinstance(permit, Permit)
    for now, holds in ((NOW, True), (NOW + 50_001, False)):
        refusal = still_holds(permit, DOOR, now_ms=now, monotonic_ms=NOW)
        assert (refusal is None) is holds
        assert refusal is None or (refusal.reason, refusal.step) == (Reason.EXPIRED, 8)


def test_privileged_call_names_its_approvers() -> None:
    permit = LAWFUL_WIPE.examine()
    assert isinstance(permit, Permit)
    assert permit.approvers == ("ada", "cyd")
    assert len(permit.approvals) == 2


def test_permit_cannot_be_made_outside_examine() -> None:
    permit = LAWFUL.examine()
    assert isinstance(permit, Permit)
    parts = (permit.decision, permit.signed, permit.method, permit.arguments, permit.call_digest, (), ())
    with pytest.raises(TypeError, match="made by `examine` only"):
        Permit(*parts, object())
    with pytest.raises(ValueError, match="seal"):
        replace(permit, approvers=("mallory",))  # type: ignore[call-arg]


def test_case_gives_no_permit_before_its_checks_ran() -> None:
    with pytest.raises(AttributeError):
        Case(LAWFUL.presented, DOOR, NOW, NOW).permit()


def test_merging_arguments_are_forwarded_in_one_piece_under_their_own_digest() -> None:
    """19: other bytes of the same values pass, and the tool gets the canonical ones."""
    body = world.refund()
    reordered = body[4:] + body[:4]
    assert reordered != body
    permit = at_door(world.presented(REFUND, body=reordered))
    assert isinstance(permit, Permit)
    assert permit.arguments.canonical == body


def test_next_version_of_a_method_passes_with_its_own_descriptors() -> None:
    following = canonical(world.method(REFUND, say="Pay back"))
    message = world.catalog_message()
    message.entries[0].next = following
    setting = world.Setting(catalog=world.signed_catalog(message))
    versions = setting.door().catalog.method(REFUND)
    assert versions is not None
    assert versions.next is not None
    walked = versions.next.arguments(world.refund())
    assert not isinstance(walked, Refusal)
    digest = world.call_digest(world.K_TOOL, 1, REFUND, versions.next.digest, walked.encoded)
    decision = world.decision(method_digest=versions.next.digest, call_digest=digest)
    permit = Scene(world.presented(REFUND, world.sign(decision)), setting).examine()
    assert isinstance(permit, Permit)
    assert permit.method.digest == versions.next.digest
    assert isinstance(Scene(LAWFUL.presented, setting).examine(), Permit)


def test_modified_decision_lets_its_effective_request_through() -> None:
    decision = world.decision(decision=4, original_call_digest=bytes(range(32)))
    assert isinstance(at_door(world.presented(REFUND, world.sign(decision))), Permit)


def test_approvals_at_the_limit_pass() -> None:
    made = world.wipe_decision()
    held = world.hold(made)
    spare = MAX_APPROVAL_BYTES - len(world.proof(held, _lead(held, "x" * 1000))) + 1000
    proofs = (
        world.proof(held, _lead(held, "x" * spare)),
        world.proof(held, world.approval(held, "cyd", "security")),
        world.proof(held, world.approval(held, "bob", "security")),
    )
    assert len(proofs[0]) == MAX_APPROVAL_BYTES
    permit = at_door(world.presented(WIPE, world.sign(made), approvals=proofs))
    assert isinstance(permit, Permit)
    assert permit.approvers == ("ada", "bob", "cyd")


def _lead(held: Any, method: str) -> Any:
    return world.approval(held, "ada", "lead", authenticated_method=method)


def test_every_single_bit_of_the_permit_matters() -> None:
    permit = LAWFUL.presented.permits[0]
    for bit in range(len(permit) * 8):
        altered = bytearray(permit)
        altered[bit // 8] ^= 1 << bit % 8
        result = at_door(replace(LAWFUL.presented, permits=(bytes(altered),)))
        assert isinstance(result, Refusal), f"bit {bit} does not matter"


def test_every_single_bit_of_the_request_matters() -> None:
    body = world.refund(note="because", tags=["a", "b"])
    shown = world.presented(REFUND, world.sign(world.decision(body=body)), body=body)
    assert isinstance(at_door(shown), Permit)
    for bit in range(len(body) * 8):
        altered = bytearray(body)
        altered[bit // 8] ^= 1 << bit % 8
        assert isinstance(at_door(replace(shown, body=bytes(altered))), Refusal), f"bit {bit} does not matter"


def test_every_truncation_and_extension_of_the_permit_is_refused() -> None:
    permit = LAWFUL.presented.permits[0]
    for cut in range(len(permit)):
        assert isinstance(at_door(replace(LAWFUL.presented, permits=(permit[:cut],))), Refusal)
    for byte in range(256):
        longer = permit + bytes([byte])
        assert isinstance(at_door(replace(LAWFUL.presented, permits=(longer,))), Refusal)


INFORMING = frozenset(
    {"principal", "delegations", "rule_ids", "reason", "preconditions", "round", "hold_id", "traceparent"}
)
"""Fields that are for the guard, audit or revocations: any value of them passes the door, signed. Nothing
else may.
"""


def test_every_field_of_a_signed_permit_is_checked_or_listed_as_informing() -> None:
    changed = {
        "version": 2,
        "decision_id": "x",
        "decision": 2,
        "environment": "staging",
        "tenant": "t2",
        "principal": "user-2",
        "caller": world.AGENT + "x",
        "agent": "sales",
        "task_id": "task_2",
        "call_id": "call_2",
        "spend_id": "0" * 32,
        "round": 1,
        "delegations": ["d9"],
        "audience": world.AUDIENCE + "x",
        "method": GET,
        "method_digest": bytes(32),
        "resource": "order:O2",
        "call_digest": bytes(32),
        "ceilings": [{"path": ["order_id"], "op": 1, "values": [{"text": "O1"}]}],
        "preconditions": [{"check": "order.version", "expect": {"integer": 1}}],
        "bundle_version": 13,
        "rule_ids": ["other"],
        "config_seq": 8,
        "reason": "other",
        "generation": 2,
        "issued_at_ms": NOW + 2_000,
        "not_after_ms": NOW - 1,
        "class": 1,
        "spends": False,
        "obligations": [{"id": "other"}],
        "hold_id": "0" * 32,
        "original_call_digest": bytes(32),
        "traceparent": "00-x",
    }
    fields = {field.name for field in Decision.DESCRIPTOR.fields}
    assert fields == set(changed), "a new field: who checks it?"
    spend = world.decision().spend_id
    for name, value in changed.items():
        made = world.decision(**{"spend_id": spend, name: value})
        passed = isinstance(at_door(world.presented(REFUND, world.sign(made))), Permit)
        assert passed is (name in INFORMING), name


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_are_a_permit(permit: bytes, body: bytes) -> None:
    assert isinstance(at_door(replace(LAWFUL.presented, permits=(permit,), body=body)), Refusal)


@given(st.binary(max_size=200))
def test_no_signed_bytes_raise(payload: bytes) -> None:
    result = at_door(world.presented(REFUND, world.sign_payload(payload)))
    assert isinstance(result, Refusal)
    assert result.step == 5


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_no_permit_holds_longer_than_its_class(issued: int, end: int) -> None:
    decision = world.decision(issued_at_ms=issued, not_after_ms=end)
    result = at_door(world.presented(REFUND, world.sign(decision)))
    lawful = issued <= NOW + 1_000 and end > NOW and 0 < end - issued <= 60_000
    assert isinstance(result, Permit) is lawful


def test_verify_permit_takes_bytes_and_signed_alike() -> None:
    raw = LAWFUL.presented.permits[0]
    decision = verify_permit(raw, KEYS, now_ms=NOW)
    assert decision == world.decision()
    assert verify_permit(Signed.FromString(raw), KEYS, now_ms=NOW) == decision


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xff", Reason.PERMIT_MALFORMED),
        (bytes(MAX_PERMIT_BYTES + 1), Reason.TOO_LARGE),
        (world.sign(world.decision(), "beacon"), Reason.KEY_ROLE),
        (world.sign(world.decision(decision=2)), Reason.DECISION_INVALID),
    ],
)
def test_verify_permit_refuses_what_is_no_permit(raw: bytes, reason: Reason) -> None:
    refusal = verify_permit(raw, KEYS, now_ms=NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason


def test_no_key_of_the_set_makes_a_permit_but_the_decider_s() -> None:
    decision = world.decision()
    passing = {
        key
        for key in KEYS.keys
        if isinstance(at_door(world.presented(REFUND, world.sign(decision, key))), Permit)
    }
    assert passing == {"decider"}


def test_no_slot_makes_a_permit_but_the_permit_s() -> None:
    decision = world.decision()
    passing = {
        slot
        for slot in PayloadType
        if isinstance(at_door(world.presented(REFUND, world.sign(decision, slot=slot))), Permit)
    }
    assert passing == {PayloadType.PERMIT}


def test_empty_key_set_lets_nothing_through() -> None:
    door = replace(DOOR, keys=KeySet("prod", 1, {}))
    refusal = at_door(LAWFUL.presented, door)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.KEY_UNKNOWN


def test_beacon_of_another_environment_is_no_beacon() -> None:
    held = DOOR.beacon
    assert held is not None
    other = replace(held, beacon=replace(held.beacon, environment="staging"))
    refusal = at_door(LAWFUL.presented, replace(DOOR, beacon=other))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.BEACON_STALE


def test_clock_that_ran_backwards_makes_the_beacon_stale() -> None:
    refusal = examine(LAWFUL.presented, DOOR, now_ms=NOW, monotonic_ms=NOW - 1_000)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.BEACON_STALE


def test_signed_denial_verifies_as_a_decision_and_as_nothing_else() -> None:
    """The twin of negative test 3: the very same bytes are good in their own slot."""
    signed = world.signing_key("decider").sign(PayloadType.DECISION, canonical(world.decision(decision=2)))
    assert verify(PayloadType.DECISION, signed, KEYS, now_ms=NOW) == signed.payload
    assert isinstance(verify(PayloadType.PERMIT, signed, KEYS, now_ms=NOW), Refusal)


@pytest.mark.parametrize(
    ("waited_ms", "reason"), [(0, None), (59_000, None), (61_000, Reason.EXPIRED), (10**9, Reason.EXPIRED)]
)
def test_a_clock_that_is_set_back_makes_no_permit_live_again(waited_ms: int, reason: Reason | None) -> None:
    """Since the beacon a minute went by on the clock that nobody sets; the other one still says NOW."""
    assert DOOR.beacon is not None
    made = world.decision(GET, issued_at_ms=NOW - 1_000, not_after_ms=NOW + 59_000)
    shown = world.presented(GET, world.sign(made))
    monotonic_ms = DOOR.beacon.received_at_ms + waited_ms
    issued = replace(DOOR.beacon.beacon, issued_at_ms=NOW)
    door = replace(DOOR, beacon=replace(DOOR.beacon, beacon=issued, lag_ms=0))
    answer = examine(shown, door, now_ms=NOW, monotonic_ms=monotonic_ms)
    assert (answer.reason if isinstance(answer, Refusal) else None) is reason
