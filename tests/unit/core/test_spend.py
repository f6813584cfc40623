from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.dsse import PayloadType
from licet.refusal import Reason, Refusal
from licet.spend import (
    FENCED_STATUS_CODE,
    OUTCOMES,
    SpendRecord,
    is_hex32,
    outcome_payload,
    read_spend_record,
    reserve_payload,
    spend_id,
)
from licet.strict import canonical
from licet.v1 import spend_pb2
from licet.v1.hold_pb2 import ApprovalProof
from licet.v1.spend_pb2 import Outcome
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import AUDIENCE, ENVIRONMENT, KEYS, NOW

SIDECAR = "spiffe://licet.local/prod/sidecar/finance"
ATTEMPT = "0123456789abcdef" * 2
PERMIT = Signed.FromString(world.sign(world.decision()))
PARTS = st.tuples(*[st.text(max_size=4)] * 6)


def signed(payload: bytes, key: str = "spend-finance") -> Signed:
    return world.signing_key(key).sign(PayloadType.SPEND, payload)


def reserve(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "permit": PERMIT,
        "attempt": ATTEMPT,
        "sidecar": SIDECAR,
        "reserved_at_ms": NOW,
        "call_digest": bytes(range(32)),
    }
    return reserve_payload(**{**fields, **changes})


def outcome(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "spend_id": world.decision().spend_id,
        "round": 2,
        "attempt": ATTEMPT,
        "outcome": Outcome.OUTCOME_EXECUTED,
        "sidecar": SIDECAR,
        "recorded_at_ms": NOW,
        "status_code": 0,
        "decision_id": world.decision().decision_id,
    }
    return outcome_payload(**{**fields, **changes})


def read(raw: Signed) -> SpendRecord | Refusal:
    return read_spend_record(raw, KEYS, environment=ENVIRONMENT, now_ms=NOW)


def test_spend_id_is_the_one_of_the_protocol() -> None:
    """Computed once with printf and sha256sum: another language must come to the same."""
    assert (
        spend_id("prod", "t1", "spiffe://a/b", "support", "task_1", "call_1")
        == "ef8486774cd068dddbf4029f5bc9a4e5"
    )


@given(PARTS, PARTS)
def test_different_steps_have_different_spend_ids(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (spend_id(*one) == spend_id(*other)) is (one == other)


def test_moving_a_character_between_parts_changes_the_spend_id() -> None:
    assert spend_id("ab", "c", "", "", "", "") != spend_id("a", "bc", "", "", "", "")


def test_reserve_round_trips() -> None:
    proof = ApprovalProof(hold=b"hold", approval=PERMIT)
    record = read(signed(reserve(approvals=(proof,))))
    assert isinstance(record, SpendRecord)
    assert (record.audience, record.sidecar, record.attempt, record.at_ms) == (
        AUDIENCE,
        SIDECAR,
        ATTEMPT,
        NOW,
    )
    assert record.outcome is None
    assert record.reserve is not None
    assert record.reserve.permit == PERMIT
    assert list(record.reserve.approvals) == [proof]


@pytest.mark.parametrize("how", sorted(OUTCOMES))
def test_outcome_round_trips(how: Any) -> None:
    record = read(signed(outcome(outcome=how, status_code=FENCED_STATUS_CODE, fence_answer=b"x")))
    assert isinstance(record, SpendRecord)
    assert record.reserve is None
    assert record.outcome is not None
    assert (record.outcome.outcome, record.outcome.round, record.outcome.fence_answer) == (how, 2, b"x")


def test_not_knowing_cannot_be_recorded() -> None:
    with pytest.raises(ValueError, match="absence of a record"):
        outcome(outcome=Outcome.OUTCOME_UNSPECIFIED)


def written(**changes: Any) -> bytes:
    """A record written field by field, so that it can say what the payloads cannot."""
    fields: dict[str, Any] = {"version": 1, "environment": ENVIRONMENT}
    return canonical(spend_pb2.SpendRecord(**{**fields, **changes}))


_OUTCOME = {"spend_id": "a" * 32, "attempt": ATTEMPT, "sidecar": SIDECAR, "outcome": 1}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (signed(reserve(), "decider"), Reason.KEY_ROLE),
        (
            world.signing_key("spend-finance").sign(PayloadType.CHECKPOINT, reserve()),
            Reason.SIGNATURE_INVALID,
        ),
        (signed(b"\xff"), Reason.PERMIT_MALFORMED),
        (signed(reserve(environment="staging")), Reason.ENVIRONMENT_MISMATCH),
        (signed(reserve(sidecar=SIDECAR + "x")), Reason.PERMIT_MALFORMED),
        (signed(reserve(attempt="x")), Reason.PERMIT_MALFORMED),
        (signed(written()), Reason.PERMIT_MALFORMED),
        (signed(written(version=2, outcome=_OUTCOME)), Reason.PERMIT_MALFORMED),
        (signed(written(outcome={**_OUTCOME, "outcome": 0})), Reason.PERMIT_MALFORMED),
        (signed(written(outcome={**_OUTCOME, "outcome": 9})), Reason.PERMIT_MALFORMED),
        (signed(written(outcome={**_OUTCOME, "spend_id": "A" * 32})), Reason.PERMIT_MALFORMED),
    ],
)
def test_what_is_no_record_is_refused(raw: Signed, reason: Reason) -> None:
    refusal = read(raw)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason


def test_the_same_record_in_order_is_read() -> None:
    assert isinstance(read(signed(written(outcome=_OUTCOME))), SpendRecord)


@pytest.mark.parametrize(
    ("text", "fits"), [("a" * 32, True), ("a" * 31, False), ("A" * 32, False), ("a" * 32 + "\n", False)]
)
def test_hex32(text: str, fits: bool) -> None:
    assert is_hex32(text) is fits
