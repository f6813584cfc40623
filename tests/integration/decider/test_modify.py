"""A call that rules narrow: what is permitted is smaller, decided again in full, and named as changed."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from licet.call import call_digest, tool_key
from licet.keyfile import read_secret
from licet.refusal import Reason, Refusal
from licet.v1.decision_pb2 import (
    DECISION_TYPE_ALLOW,
    DECISION_TYPE_DENY,
    DECISION_TYPE_HOLD,
    DECISION_TYPE_MODIFY,
    Decision,
)
from tests.integration.decider.test_holds import Desk
from tests.worlds.decisions import TYPES, Ground, House, furnish, refund

pytestmark = pytest.mark.asyncio

CLAMP = """
@id("desk-limit") @modify
forbid (principal, action == Action::"refund", resource is Order) when { context.amount_minor > 2000 };
"""
CHANGES = {"desk-limit": {"fin.v1.Finance/IssueRefund": {"amount.minor": {"at_most": 2000}}}}


async def activate(house: House, rules: str, manifest: dict[str, Any]) -> None:
    """Put rules and terms on top of the example's policy, and wait until the decider has them."""
    import yaml

    policy = house.ground.policy
    text = (policy / "rules.cedar").read_text() + rules
    (policy / "rules.cedar").write_text(text)
    top = yaml.safe_load((policy / "bundle.yaml").read_text())
    version = top["version"] + 1
    (policy / "bundle.yaml").write_text(yaml.safe_dump({**top, **manifest, "version": version}))
    await house.ground.activate()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        response = await house.decide(refund(minor=1), call_id=f"wait-{version}")
        if Decision.FromString(response.signed.payload).bundle_version >= version:
            return
    raise AssertionError("the bundle did not come into force")


async def test_amount_above_the_ceiling_is_lowered_and_bound_as_lowered(house: House) -> None:
    """The permit is for the lowered arguments alone; the event names both digests and the field."""
    await activate(house, CLAMP, {"modify": CHANGES})
    response = await house.decide(refund(minor=5000))
    assert response.decision == DECISION_TYPE_MODIFY
    effective = TYPES("IssueRefundRequest").FromString(response.effective_request)
    assert (effective.order_id, effective.amount.minor, effective.amount.currency) == ("O1", 2000, "USD")
    permit = house.permit(response)
    assert permit.decision == DECISION_TYPE_MODIFY
    assert permit.call_digest == digest_of(house, response.effective_request, permit)
    assert permit.original_call_digest == digest_of(house, refund(minor=5000), permit)
    assert {"desk-limit", "refund-bot-refunds"} <= set(permit.rule_ids)
    (event,) = await house.decisions()
    assert event.kind == "decision.modified"
    assert event.call_digest == permit.call_digest.hex()
    assert event.original_call_digest == permit.original_call_digest.hex()
    assert (event.amount_minor, event.detail) == (2000, "changed amount.minor")
    within = await house.decide(refund(minor=2000), call_id="call-2")
    assert (within.decision, within.effective_request) == (DECISION_TYPE_ALLOW, b"")
    assert not house.permit(within).original_call_digest
    forbidden = await house.decide(refund("O3", minor=5000), call_id="call-3")
    assert forbidden.decision == DECISION_TYPE_DENY
    (event,) = await house.decisions("call-3")
    assert list(event.rule_ids) == ["refund-not-allowed"]


def digest_of(house: House, body: bytes, permit: Any) -> bytes:
    from licet.catalog import read_catalog
    from licet.v1.statement_pb2 import Signed

    signed = Signed.FromString(house.ground.catalog.read_bytes())
    catalog = read_catalog(signed, house.ground.keys, environment="dev", now_ms=time.time_ns() // 1_000_000)
    assert not isinstance(catalog, Refusal)
    versions = catalog.method(permit.method)
    assert versions is not None
    arguments = versions.current.arguments(body)
    assert not isinstance(arguments, Refusal)
    key = tool_key(read_secret(house.ground.keys_dir / "master.key"), permit.audience, permit.generation)
    method = versions.current
    return call_digest(key, method.codec, method.path, method.digest, arguments.encoded)


async def test_narrowed_call_that_people_must_approve_waits_as_narrowed(house: House) -> None:
    """Who approves sees and approves the lowered amount, and that is what is permitted then."""
    hold = """
@id("large") @hold("finance-lead:1")
forbid (principal, action == Action::"refund", resource is Order) when { context.amount_minor > 1000 };
"""
    await activate(house, CLAMP + hold, {"modify": CHANGES})
    response = await house.decide(refund(minor=5000))
    assert response.decision == DECISION_TYPE_HOLD
    assert "20.00" in response.hold.text
    await Desk(house).answer(response.hold, "lena")
    lifted = await house.decide(refund(minor=5000))
    assert lifted.decision == DECISION_TYPE_MODIFY
    assert house.permit(lifted).hold_id == response.hold.hold_id
    assert TYPES("IssueRefundRequest").FromString(lifted.effective_request).amount.minor == 2000


async def test_shadow_stage_narrows_nothing_and_says_it_would_have(house: House) -> None:
    today = datetime.now(UTC).date() + timedelta(days=1)
    waiver = {"until": str(today), "reason": "a trial"}
    await activate(house, CLAMP, {"modify": CHANGES, "stage": "shadow", "waiver": waiver})
    response = await house.decide(refund(minor=5000))
    assert response.decision == DECISION_TYPE_ALLOW
    assert not response.effective_request
    (event,) = await house.decisions()
    assert event.shadow_decision == "modify"
    activated = [event for event in await house.events() if event.kind == "bundle.activated"]
    assert "stage shadow, for writes until" in activated[-1].detail, "it is an event, and loud"
    assert "a trial" in activated[-1].detail


async def test_shadow_stage_without_a_waiver_is_no_shadow_for_writes(house: House) -> None:
    await activate(house, CLAMP, {"modify": CHANGES, "stage": "shadow"})
    response = await house.decide(refund(minor=5000))
    assert response.decision == DECISION_TYPE_MODIFY
    (event,) = await house.decisions()
    assert event.shadow_decision == ""


CEILINGS = {
    "refund-bot-refunds": {"fin.v1.Finance/IssueRefund": {"amount.minor": {"at_least": 1, "at_most": 5000}}}
}


def take_ceilings(ground: Ground) -> None:
    file = ground.policy / "tools.yaml"
    file.write_text(
        file.read_text().replace("    guarded: true\n", "    guarded: true\n    ceilings: true\n", 1)
    )
    ground.build_catalog()


async def test_permit_with_ceilings_binds_a_range_and_everything_else_as_asked(ground: Ground) -> None:
    """Refund O1 up to 50 USD: 49 passes the door's check, 51, another order, another currency do not."""
    take_ceilings(ground)
    house = await furnish(ground)
    try:
        await activate(house, "", {"ceilings": CEILINGS})
        permit = house.permit(await house.decide(refund(minor=4900)))
        assert permit.ceilings
        assert not permit.call_digest
        (event,) = await house.decisions()
        assert event.call_digest == digest_of(house, refund(minor=4900), permit).hex()
        for minor, order_id, currency, reason in (
            (4900, "O1", "USD", None),
            (5000, "O1", "USD", None),
            (1, "O1", "USD", None),
            (5001, "O1", "USD", Reason.CEILING_EXCEEDED),
            (-1, "O1", "USD", Reason.CEILING_EXCEEDED),
            (4900, "O2", "USD", Reason.CEILING_EXCEEDED),
            (4900, "O1", "JPY", Reason.CEILING_EXCEEDED),
        ):
            refusal = bound(house, permit, refund(order_id, minor, currency))
            assert (None if refusal is None else refusal.reason) is reason, (minor, order_id, currency)
        above = await house.decide(refund(minor=5001), call_id="call-2")
        assert above.decision == DECISION_TYPE_DENY
    finally:
        await house.close()


def bound(house: House, permit: Any, body: bytes) -> Refusal | None:
    from licet.catalog import read_catalog
    from licet.ceilings import check_ceilings
    from licet.v1.statement_pb2 import Signed

    signed = Signed.FromString(house.ground.catalog.read_bytes())
    catalog = read_catalog(signed, house.ground.keys, environment="dev", now_ms=time.time_ns() // 1_000_000)
    assert not isinstance(catalog, Refusal)
    versions = catalog.method(permit.method)
    assert versions is not None
    arguments = versions.current.arguments(body)
    assert not isinstance(arguments, Refusal)
    return check_ceilings(permit.ceilings, arguments, versions.current.money)


async def test_obligation_of_a_rule_stands_in_its_permits(house: House) -> None:
    get_order = "fin.v1.Finance/GetOrder"
    masks = {"support-bots-read": {get_order: {"mask_reply": ["tenant", "status"]}}}
    await activate(house, "", {"obligations": masks})
    body = TYPES("GetOrderRequest")(order_id="O1").SerializeToString()
    permit = house.permit(await house.decide(body, method="/fin.v1.Finance/GetOrder"))
    assert [(one.id, list(one.paths)) for one in permit.obligations] == [("mask_reply", ["status", "tenant"])]
    assert not house.permit(await house.decide(call_id="call-2")).obligations
    for impossible in ({"mask_reply": ["no_such"]}, {"burn_after_reading": ["status"]}):
        await activate(house, "", {"obligations": {"support-bots-read": {get_order: impossible}}})
        denied = await house.decide(body, method="/fin.v1.Finance/GetOrder")
        assert (denied.decision, denied.refusal.reason) == (DECISION_TYPE_DENY, Reason.OBLIGATION_UNKNOWN)
