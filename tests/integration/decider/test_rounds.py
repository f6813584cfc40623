"""A step again: another round only after one that provably had no effect, signed by that tool's sidecar."""

import pytest

from licet.keyfile import read_signing_key
from licet.metadata import DEV_IDENTITY
from licet.spend import outcome_payload, reserve_payload
from licet.statement import PayloadType, canonical
from licet.streams import Publisher, connect, subject_spend
from licet.v1 import decider_pb2
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY, Decision
from licet.v1.spend_pb2 import OUTCOME_EXECUTED, OUTCOME_FAILED_NO_EFFECT, OUTCOME_VOIDED
from tests.worlds.decisions import ENV, REFUND_BOT, SUPPORT_BOT, House, order

pytestmark = pytest.mark.asyncio

SIDECAR = "spiffe://licet.local/dev/sidecar/finance"
ATTEMPT = "a" * 32


async def write(house: House, permit: Decision, record: str, body: bytes) -> None:
    nc = await connect(house.ground.nats.settings("sidecar-finance"), "test")
    publisher = await Publisher.open(nc)
    subject = subject_spend(ENV, "finance", permit.spend_id, permit.round, record)
    await publisher.publish(subject, body)
    await nc.close()


def outcome(
    house: House, permit: Decision, ended: int, *, key: str = "spend-finance", **changes: object
) -> bytes:
    fields = {
        "environment": ENV,
        "spend_id": permit.spend_id,
        "round": permit.round,
        "attempt": ATTEMPT,
        "outcome": ended,
        "sidecar": SIDECAR,
        "recorded_at_ms": permit.issued_at_ms,
        "status_code": 0,
        "decision_id": permit.decision_id,
    } | changes
    signing = read_signing_key(house.ground.keys_dir / f"{key}.key")
    return canonical(signing.sign(PayloadType.SPEND, outcome_payload(**fields)))  # type: ignore[arg-type]


@pytest.mark.parametrize("ended", [OUTCOME_FAILED_NO_EFFECT, OUTCOME_VOIDED])
async def test_next_round_follows_one_without_effect(house: House, ended: int) -> None:
    first = house.permit(await house.decide())
    again = house.permit(await house.decide())
    assert (first.round, again.round, first.spend_id == again.spend_id) == (0, 0, True)
    await write(house, first, "outcome", outcome(house, first, ended))
    second = house.permit(await house.decide())
    assert (second.round, second.spend_id) == (1, first.spend_id)
    await write(house, second, "outcome", outcome(house, second, ended))
    assert house.permit(await house.decide()).round == 2


async def test_executed_step_gets_no_other_round(house: House) -> None:
    first = house.permit(await house.decide())
    await write(house, first, "outcome", outcome(house, first, OUTCOME_EXECUTED))
    assert house.permit(await house.decide()).round == 0


async def test_retry_of_an_executed_step_hears_spent_and_not_what_its_own_effect_broke(house: House) -> None:
    first = house.permit(await house.decide())
    await write(house, first, "outcome", outcome(house, first, OUTCOME_EXECUTED))
    house.finance.orders["O1"] = order(status="refunded", refunded_minor=5000, version=2)
    response = await house.decide()
    assert (response.decision, response.refusal.reason) == (DECISION_TYPE_DENY, "SPENT")
    other = await house.decide(call_id="another")
    assert (other.decision, other.refusal.reason) == (DECISION_TYPE_DENY, "POLICY_DENIED")


async def test_outcome_by_another_key_or_of_another_step_proves_nothing(house: House) -> None:
    first = house.permit(await house.decide())
    for forged in (
        outcome(house, first, OUTCOME_VOIDED, key="decider"),
        outcome(house, first, OUTCOME_VOIDED, spend_id="b" * 32),
    ):
        call_id = f"call-{forged[:1].hex()}-{len(forged)}"
        permit = house.permit(await house.decide(call_id=call_id))
        await write(house, permit, "outcome", forged)
        assert house.permit(await house.decide(call_id=call_id)).round == 0


async def test_outcome_is_told_to_the_permits_own_caller_alone(house: House) -> None:
    response = await house.decide()
    permit = house.permit(response)
    ask = decider_pb2.GetOutcomeRequest(spend_id=permit.spend_id, audience=permit.audience, round=0)

    async def told(peer: str) -> tuple[bool, int]:
        answer = await house.stub.GetOutcome(ask, metadata=((DEV_IDENTITY, peer),), timeout=30)
        return answer.reserved, answer.outcome

    assert await told(REFUND_BOT) == (False, 0)
    reserve = reserve_payload(
        environment=ENV,
        permit=response.signed,
        attempt=ATTEMPT,
        sidecar=SIDECAR,
        reserved_at_ms=permit.issued_at_ms,
        call_digest=permit.call_digest,
    )
    key = read_signing_key(house.ground.keys_dir / "spend-finance.key")
    await write(house, permit, "reserve", canonical(key.sign(PayloadType.SPEND, reserve)))
    assert await told(REFUND_BOT) == (True, 0)
    assert await told(SUPPORT_BOT) == (False, 0)
    await write(house, permit, "outcome", outcome(house, permit, OUTCOME_EXECUTED))
    assert await told(REFUND_BOT) == (True, OUTCOME_EXECUTED)
    assert await told(SUPPORT_BOT) == (False, 0)
    assert response.decision == DECISION_TYPE_ALLOW
