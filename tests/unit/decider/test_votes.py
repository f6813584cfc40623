"""How a hold stands: judged at its use, by verified answers alone."""

from hashlib import sha256
from typing import Any

import pytest

from decider.approval.votes import HOLD_LIFE_MS, Bench, HoldState, Tally, tally
from licet.beacon import MAX_SKEW_MS
from licet.hold import HOLD_VERSION, HOLD_VERSION_1, Requirement, hold_id, hold_id_1, requirements_of
from licet.keys import KeyRole, KeySet, PublicKey
from licet.refusal import Refusal
from licet.revocation import NONE, RevocationKind, Revocations
from licet.statement import PayloadType, SigningKey, canonical
from licet.v1.hold_pb2 import (
    APPROVAL_ANSWER_APPROVE,
    APPROVAL_ANSWER_REJECT,
    Approval,
    Hold,
    HoldRequirement,
)
from licet.v1.statement_pb2 import Signed

NOW = 1_800_000_000_000
HOUR = 3_600_000
PEOPLE = {
    name: SigningKey.from_seed(f"approver-{name}", sha256(name.encode()).digest()) for name in ("a", "b", "c")
}
KEYS = KeySet(
    "dev",
    1,
    {
        key.key_id: PublicKey(
            key.key_id,
            KeyRole.APPROVER,
            "dev",
            key.public_key,
            0,
            NOW * 2,
            owner=name,
            approver_roles=("lead",),
        )
        for name, key in PEOPLE.items()
    },
)


def hold(quorum: int = 1, **changes: Any) -> Hold:
    values: dict[str, Any] = {
        "version": HOLD_VERSION,
        "environment": "dev",
        "spend_id": "5" * 32,
        "call_digest": b"d" * 32,
        "facts_json": "{}",
        "generation": 1,
        "expires_at_ms": NOW + 24 * HOUR,
        "requirements": [HoldRequirement(rule_id="r", role="lead", quorum=quorum)],
        "excluded_approvers": ["c"],
    } | changes
    made = Hold(**values)
    made.hold_id = made.hold_id or hold_id(made)
    return made


def answer(waiting: Hold, who: str, given: int = APPROVAL_ANSWER_APPROVE, **changes: Any) -> Signed:
    values: dict[str, Any] = {
        "version": 1,
        "environment": "dev",
        "hold_id": waiting.hold_id,
        "hold_sha256": sha256(canonical(waiting)).digest(),
        "spend_id": waiting.spend_id,
        "call_digest": waiting.call_digest,
        "generation": 1,
        "approver": who,
        "role": "lead",
        "answer": given,
        "rule_ids": ["r"],
        "not_after_ms": waiting.expires_at_ms,
    } | changes
    return PEOPLE[who].sign(PayloadType.APPROVAL, canonical(Approval(**values)))


def stands(waiting: Hold, *answers: Signed, now_ms: int = NOW, **bench: Any) -> Tally:
    against = Bench(
        **{"environment": "dev", "generation": 1, "keys": KEYS, "revocations": NONE} | bench, now_ms=now_ms
    )
    result = tally(canonical(waiting), answers, against)
    assert not isinstance(result, Refusal), result
    return result


def test_hold_without_answers_is_open_and_says_for_whom_it_waits() -> None:
    open_hold = stands(hold(2))
    assert (open_hold.state, open_hold.missing) == (HoldState.OPEN, (Requirement("r", "lead", 2),))


@pytest.mark.parametrize(
    ("hours", "state"),
    [(6, HoldState.LIFTED), (23, HoldState.LIFTED), (24, HoldState.EXPIRED), (48, HoldState.EXPIRED)],
)
def test_approval_holds_as_long_as_its_hold(hours: int, state: HoldState) -> None:
    waiting = hold()
    assert stands(waiting, answer(waiting, "a"), now_ms=NOW + hours * HOUR).state is state


def test_record_that_outlasts_a_hold_or_lies_in_anothers_place_is_no_hold() -> None:
    bench = Bench("dev", 1, KEYS, NONE, NOW)
    longest = hold(expires_at_ms=NOW + HOLD_LIFE_MS + MAX_SKEW_MS)
    assert isinstance(tally(canonical(longest), (), bench, longest.hold_id), Tally)
    endless = hold(expires_at_ms=longest.expires_at_ms + 1)
    assert endless.hold_id == longest.hold_id
    assert isinstance(tally(canonical(endless), (), bench), Refusal)
    assert isinstance(tally(canonical(longest), (), bench, hold(2).hold_id), Refusal)
    of_1 = hold(version=HOLD_VERSION_1)
    of_1.hold_id = hold_id_1(of_1.spend_id, of_1.call_digest, requirements_of(of_1), of_1.facts_json)
    refusal = tally(canonical(of_1), (), bench)
    assert isinstance(refusal, Refusal)
    assert "make the call again" in refusal.detail


def test_approval_ends_by_its_own_end_too() -> None:
    waiting = hold()
    short = answer(waiting, "a", not_after_ms=NOW + HOUR)
    assert stands(waiting, short, now_ms=NOW + HOUR - 1).state is HoldState.LIFTED
    assert stands(waiting, short, now_ms=NOW + HOUR).state is HoldState.OPEN


def test_same_person_counts_once_and_who_asked_counts_never() -> None:
    waiting = hold(2)
    twice = answer(waiting, "a"), answer(waiting, "a", authenticated_at_ms=1)
    assert stands(waiting, *twice).state is HoldState.OPEN
    assert stands(waiting, twice[0], answer(waiting, "c")).state is HoldState.OPEN
    assert stands(waiting, twice[0], answer(waiting, "b")).approvers == ("a", "b")


def test_reject_ends_it_before_and_after_enough_approved() -> None:
    waiting = hold()
    no = answer(waiting, "b", APPROVAL_ANSWER_REJECT)
    assert stands(waiting, no).state is HoldState.REJECTED
    assert stands(waiting, answer(waiting, "a"), no).state is HoldState.REJECTED


def test_revoked_approver_and_bumped_generation_void_answers() -> None:
    waiting = hold()
    yes = answer(waiting, "a")
    revoked = Revocations(1, "dev", frozenset({(RevocationKind.KEY, "approver-a")}))
    assert stands(waiting, yes, revocations=revoked).state is HoldState.OPEN
    assert stands(waiting, yes, generation=2).state is HoldState.OPEN
    assert stands(waiting, yes).state is HoldState.LIFTED


def test_answer_to_a_hold_with_one_field_changed_counts_for_nothing() -> None:
    waiting = hold()
    yes = answer(waiting, "a")
    for field, value in (
        ("text", "x"),
        ("resource", "order:O2"),
        ("expires_at_ms", NOW + 1),
        ("principal", "z"),
    ):
        assert stands(hold(**{field: value}), yes).state is HoldState.OPEN


def test_record_that_is_no_hold_is_refused() -> None:
    against = Bench("dev", 1, KEYS, NONE, NOW)
    assert isinstance(tally(b"\xff", (), against), Refusal)
