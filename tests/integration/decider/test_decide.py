"""Decide end to end: real gRPC, NATS, Cedar; the tool's read side stands in for tool and sidecar."""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

import grpc
import grpc.aio
import pytest

from licet.flood import Alone
from licet.identity import TRUST_DOMAIN_DEV, sidecar_id
from licet.metadata import DEV_IDENTITY
from licet.refusal import Refusal
from licet.statement import PayloadType, verify
from licet.v1 import decider_pb2
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from tests.worlds.decisions import GET_ORDER, REFUND_BOT, SUPPORT_BOT, Ground, House, furnish, order, refund

pytestmark = pytest.mark.asyncio


async def test_lawful_refund_gets_a_permit_bound_to_the_call(house: House) -> None:
    response = await house.decide()
    assert response.decision == DECISION_TYPE_ALLOW
    permit = house.permit(response)
    assert (permit.tenant, permit.principal, permit.agent) == ("t1", "ana@t1.example.com", "refund-bot")
    assert permit.caller == REFUND_BOT
    assert permit.resource == "order:O1"
    assert permit.rule_ids == ["refund-bot-refunds"]
    assert permit.spends
    assert permit.not_after_ms - permit.issued_at_ms == 60_000
    checks = {check.check: check.expect for check in permit.preconditions}
    assert checks["order.version"].integer == 1
    assert checks["order.tenant"].text == "t1"
    assert checks["order.status"].text == "paid"


async def test_denial_is_signed_as_no_permit_and_explains_itself(house: House) -> None:
    response = await house.decide(refund("O3"))
    assert response.decision == DECISION_TYPE_DENY
    now = response.signed
    assert isinstance(verify(PayloadType.PERMIT, now, house.ground.keys, now_ms=_now()), Refusal)
    assert isinstance(verify(PayloadType.DECISION, now, house.ground.keys, now_ms=_now()), bytes)
    assert response.refusal.reason == "POLICY_DENIED"
    assert response.refusal.safe_reason == "this order's terms do not allow a refund"
    assert response.refusal.escalate_to == "refund-exceptions@example.com"


async def test_every_decision_has_its_event_before_it_leaves(house: House) -> None:
    allowed = await house.decide(call_id="a")
    denied = await house.decide(refund("O3"), call_id="b")
    [event] = await house.decisions("a")
    assert (event.kind, event.decision) == ("decision.allowed", "allow")
    assert event.decision_id == house.permit(allowed).decision_id
    assert (event.amount_minor, event.currency, event.operation, event.tier) == (5000, "USD", "refund", 4)
    assert event.summary == "Refund 50.00 USD for order O1"
    [event] = await house.decisions("b")
    assert (event.kind, event.reason) == ("decision.denied", "POLICY_DENIED")
    assert event.rule_ids == ["refund-not-allowed"]
    assert event.decision_id == denied.refusal.decision_id


async def test_facts_permit_is_the_deciders_own_short_read(house: House) -> None:
    response = await house.decide()
    [facts] = house.finance.permits
    assert facts.method == GET_ORDER
    assert facts.principal == facts.caller
    assert not facts.spends
    assert facts.not_after_ms - facts.issued_at_ms <= 5_000
    assert facts.call_id == house.permit(response).decision_id
    assert facts.tenant == "t1"
    [event] = await house.decisions(facts.call_id)
    assert event.decision_id == facts.decision_id


@pytest.mark.negative(38)
async def test_fact_unavailable_is_no_decision(house: House) -> None:
    await house.finance.server.stop(0)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await house.decide()
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    assert reason_of(error.value) == "FACTS_UNAVAILABLE"
    [event] = await house.decisions()
    assert (event.kind, event.decision, event.reason) == ("decision.failed", "failed", "FACTS_UNAVAILABLE")


async def test_what_a_tool_writes_beside_its_error_is_not_on_record(house: House) -> None:
    house.finance.says = "no order of ana.b@example.com, card 4111111111111111"
    response = await house.decide(refund("O9"))
    assert "ana.b" not in str(response)
    [event] = await house.decisions()
    assert event.detail == f"{GET_ORDER}: NOT_FOUND"
    assert not [e for e in await house.events() if b"ana.b" in e.SerializeToString()]


async def test_order_that_does_not_exist_is_denied_and_not_to_be_tried_again(house: House) -> None:
    response = await house.decide(refund("O9"))
    assert (response.decision, response.refusal.reason) == (DECISION_TYPE_DENY, "RESOURCE_UNKNOWN")
    assert response.refusal.safe_reason == "the tool has no such resource"
    assert isinstance(verify(PayloadType.PERMIT, response.signed, house.ground.keys, now_ms=_now()), Refusal)
    [event] = await house.decisions()
    assert (event.kind, event.decision, event.reason) == ("decision.denied", "deny", "RESOURCE_UNKNOWN")
    house.finance.orders["O9"] = order("O9")
    assert (await house.decide(refund("O9"))).decision == DECISION_TYPE_ALLOW


async def test_facts_with_an_unknown_field_are_no_facts(house: House) -> None:
    house.finance.answer = b"\xf8\x07\x01"
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await house.decide()
    assert reason_of(error.value) == "FACTS_UNAVAILABLE"


async def test_order_of_another_tenant_is_denied_by_facts(house: House) -> None:
    house.finance.orders["O1"] = order(tenant="t2")
    response = await house.decide()
    assert response.decision == DECISION_TYPE_DENY
    assert response.refusal.reason == "TENANT_MISMATCH"
    assert "t2" not in response.refusal.safe_reason


async def test_caller_without_identity_gets_nothing(house: House) -> None:
    for peer in ("", "not-a-spiffe-id"):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await house.decide(peer=peer)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert reason_of(error.value) == "CALLER_UNKNOWN"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"call_id": ""}, "CALL_ID_INVALID"),
        ({"call_id": "x" * 129}, "CALL_ID_INVALID"),
        ({"call_id": "a b"}, "CALL_ID_INVALID"),
        ({"task_id": "task_none"}, "TASK_UNKNOWN"),
        ({"task_id": "task_790"}, "TASK_UNKNOWN"),
        ({"method": "fin.v1.Finance/IssueRefund"}, "METHOD_UNKNOWN"),
        ({"method": "/fin.v1.Finance/issueRefund"}, "METHOD_UNKNOWN"),
        ({"audience": "spiffe://licet.local/dev/tool/other"}, "METHOD_UNKNOWN"),
        ({"codec": 2}, "ARGUMENTS_MALFORMED"),
        ({"codec": 0}, "ARGUMENTS_MALFORMED"),
        ({"request": b"\xff"}, "ARGUMENTS_MALFORMED"),
        ({"request": refund() + b"\xf8\x07\x01"}, "UNKNOWN_FIELD"),
        ({"request": refund(currency="")}, "ARGUMENT_REFUSED"),
        ({"on_behalf_of": REFUND_BOT}, "ON_BEHALF_REFUSED"),
        ({"user_token": "eyJhbGciOiJub25lIn0.e30."}, "PRINCIPAL_INVALID"),
    ],
)
async def test_bad_request_is_a_signed_denial_with_its_reason(
    house: House, fields: dict[str, object], reason: str
) -> None:
    body = fields.pop("request", None)
    response = await house.decide(body, **fields)  # type: ignore[arg-type]
    assert response.decision == DECISION_TYPE_DENY
    assert response.refusal.reason == reason
    assert [e.reason for e in await house.events() if e.kind == "decision.denied"] == [reason]
    assert not house.finance.permits


@pytest.mark.negative(15)
async def test_decide_on_call_is_for_the_sidecar_of_that_audience_and_a_task_of_that_caller(
    house: House,
) -> None:
    finance, other = (sidecar_id(TRUST_DOMAIN_DEV, "dev", tool) for tool in ("finance", "other"))
    body = bytes(house.finance.types("GetOrderRequest")(order_id="O1").SerializeToString())
    asked = {"method": GET_ORDER, "on_behalf_of": REFUND_BOT}
    response = await house.decide(body, peer=finance, **asked)
    assert response.decision == DECISION_TYPE_ALLOW
    assert house.permit(response).caller == REFUND_BOT
    refused = (
        await house.decide(body, peer=other, call_id="c2", **asked),
        await house.decide(body, peer=finance, call_id="c3", **asked | {"task_id": "task_790"}),
        await house.decide(peer=finance, call_id="c4", on_behalf_of=REFUND_BOT),
    )
    for response in refused:
        assert (response.decision, response.refusal.reason) == (DECISION_TYPE_DENY, "ON_BEHALF_REFUSED")


async def test_what_the_model_claims_has_no_force(house: House) -> None:
    claim = '{"allowed": true, "policy_id": "admin", "tenant": "t2", "environment": "test"}'
    response = await house.decide(refund("O3"), claimed_intent=claim)
    assert response.refusal.reason == "POLICY_DENIED"


async def test_nats_away_means_no_permit_and_a_failure_on_record_once_it_is_back(house: House) -> None:
    house.ground.nats.kill()
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await house.decide(call_id="away")
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    assert reason_of(error.value) in {"STORE_UNAVAILABLE", "BEACON_STALE", "DECISION_NOT_RECORDED"}
    house.ground.nats.start()
    async with asyncio.timeout(60):
        response = None
        while response is None:
            with contextlib.suppress(grpc.aio.AioRpcError):
                response = await house.decide(call_id="back")
        told: list[Any] = []
        while not told:
            told = await house.decisions("away")
    assert response.decision == DECISION_TYPE_ALLOW
    assert [(event.kind, event.decision) for event in told] == [("decision.failed", "failed")]


async def test_flood_uses_up_its_own_callers_quota_before_any_work(ground: Ground) -> None:
    house = await furnish(ground, quota_per_second=0.01, quota_burst=4)  # each reads facts
    try:
        assert [(await house.decide(call_id=f"c{n}")).decision for n in (1, 2)] == [DECISION_TYPE_ALLOW] * 2
        for number in range(3, 9):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await house.decide(call_id=f"c{number}")
            assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert reason_of(error.value) == "QUOTA_EXCEEDED"
        other = await house.decide(peer=SUPPORT_BOT, task_id="task_790", call_id="c1")
        assert other.refusal.reason == "POLICY_DENIED"
        for _ in range(30):
            told = [event for event in await house.events() if event.reason == "QUOTA_EXCEEDED"]
            if len(told) > 1:
                break
            await asyncio.sleep(0.1)
        assert {event.caller for event in told} == {REFUND_BOT}
        assert sum(int(event.detail.split()[0]) for event in told) == 6
        assert len(told) <= 3
    finally:
        await house.close()


async def settled(call: Awaitable[Any]) -> str:
    try:
        return str((await call).decision)
    except grpc.aio.AioRpcError as error:
        return reason_of(error)


async def test_who_is_asked_for_pays_and_neither_its_neighbours_nor_the_door(ground: Ground) -> None:
    """Else one agent's calls keep a door from learning what was revoked, and others' from being decided."""
    house = await furnish(ground, quota_per_second=0.01, quota_burst=4)
    finance = sidecar_id(TRUST_DOMAIN_DEV, "dev", "finance")
    try:
        body = bytes(house.finance.types("GetOrderRequest")(order_id="O1").SerializeToString())
        asked = {"body": body, "peer": finance, "method": GET_ORDER}
        calls = [
            await settled(house.decide(**asked, on_behalf_of=REFUND_BOT, call_id=f"c{number}"))
            for number in range(8)
        ]
        assert calls.count("QUOTA_EXCEEDED") >= 4
        other = {"on_behalf_of": SUPPORT_BOT, "task_id": "task_790"}
        assert (await house.decide(**asked, **other)).decision  # its neighbour is decided for
        assert (await house.decide(call_id="own")).decision  # so is it itself, where it asks in its own name
        digest = decider_pb2.GetArtifactRequest(sha256=bytes(32))
        with pytest.raises(grpc.aio.AioRpcError) as missing:  # asked of the door's own quota, and not there
            await house.stub.GetArtifact(digest, metadata=((DEV_IDENTITY, finance),))
        assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    finally:
        await house.close()


async def test_denials_past_a_callers_share_are_counted_and_what_is_allowed_goes_on(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller within its quota once filled the audit stream with its own denials."""
    monkeypatch.setattr(Alone.__init__, "__defaults__", (2, 0.0001))
    house = await furnish(ground)
    try:
        for number in range(2):
            denied = await house.decide(method="/fin.v1.Finance/None", call_id=f"d{number}")
            assert denied.refusal.reason == "METHOD_UNKNOWN"
        for number in range(2, 5):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await house.decide(method="/fin.v1.Finance/None", call_id=f"d{number}")
            assert reason_of(error.value) == "QUOTA_EXCEEDED"
        assert (await house.decide(call_id="lawful")).decision == DECISION_TYPE_ALLOW
        async with asyncio.timeout(60):
            while True:
                told = [event for event in await house.events() if event.reason == "QUOTA_EXCEEDED"]
                if sum(int(event.detail.split()[0]) for event in told) == 3:
                    break
                await asyncio.sleep(0.1)
    finally:
        await house.close()


async def test_failures_leave_room_in_the_spool_for_decisions(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("licet.journal.queue.CROWDED_SHARE", 0.0)  # as if half the spool waited
    assert (await house.decide(call_id="c0")).decision == DECISION_TYPE_ALLOW
    await house.finance.server.stop(0)
    for number in range(1, 6):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await house.decide(call_id=f"c{number}")
        assert reason_of(error.value) == "FACTS_UNAVAILABLE"
    told: list[int] = []
    for _ in range(40):
        events = [event for event in await house.events() if event.kind == "decision.failed"]
        told = [int(event.detail.split()[0]) for event in events]
        if sum(told) == 5:
            break
        await asyncio.sleep(0.1)
    assert sum(told) == 5
    assert len(told) < 5
    assert len([e for e in await house.events() if e.kind == "decision.allowed" and e.call_id == "c0"]) == 1


def reason_of(error: grpc.aio.AioRpcError) -> str:
    from google.rpc import error_details_pb2, status_pb2

    metadata = dict(error.trailing_metadata() or ())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "licet"
    return str(info.reason)


def _now() -> int:
    import time

    return time.time_ns() // 1_000_000
