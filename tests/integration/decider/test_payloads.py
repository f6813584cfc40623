"""What a decision rested on is sealed for its tenant, beside its event, and opens for nobody else."""

import asyncio
import json
from hashlib import sha256
from typing import Any

import grpc
import pytest

from licet.call import MAX_REQUEST_BYTES
from licet.keyfile import read_secret
from licet.sealed import Place, Unopened, open_sealed, payload_ref, read_input
from licet.streams import connect, read_seq, stream_info, stream_payload
from licet.streams.api import call
from licet.v1.payload_pb2 import DecisionInput
from tests.worlds.decisions import ENV, House, refund

pytestmark = pytest.mark.asyncio


async def payloads(house: House) -> dict[str, bytes]:
    """Every sealed payload of the stream, by what events call it."""
    nc = await connect(house.ground.nats.settings("audit-writer"), "test")
    try:
        info = await stream_info(nc, stream_payload(ENV))
        assert info is not None
        found = [
            await read_seq(nc, stream_payload(ENV), seq) for seq in range(1, info["state"]["last_seq"] + 1)
        ]
    finally:
        await nc.close()
    return {payload_ref(message.data): message.data for message in found if message is not None}


async def sealed_of(house: House, event: Any) -> bytes:
    """The payload that an event names; it may be stored after the event."""
    async with asyncio.timeout(60):
        while (found := (await payloads(house)).get(event.payload_ref)) is None:  # noqa: ASYNC110 - JetStream's
            await asyncio.sleep(0.02)
    return found


def opened(house: House, event: Any, sealed: bytes) -> DecisionInput:
    place = Place(ENV, event.tenant, event.event_id)
    payload = open_sealed(sealed, place, read_secret(house.ground.keys_dir / "payload-t1.key"))
    assert isinstance(payload, bytes), payload
    message = read_input(payload)
    assert isinstance(message, DecisionInput), message
    return message


async def test_a_denial_leaves_its_request_its_facts_and_its_reason_sealed(house: House) -> None:
    body = refund("O3")
    await house.decide(body, claimed_intent="be kind to the customer")
    [event] = await house.decisions()
    message = opened(house, event, await sealed_of(house, event))
    assert (message.request, message.request_size) == (body, len(body))
    assert message.request_sha256 == sha256(body).digest()
    assert (message.decision_id, message.decision, message.reason) == (
        event.decision_id,
        "deny",
        "POLICY_DENIED",
    )
    assert list(message.rule_ids) == list(event.rule_ids) == ["refund-not-allowed"]
    assert message.claimed_intent == "be kind to the customer"
    rules = message.rule_input
    assert (rules.agent, rules.operation, rules.resource_type, rules.resource) == (
        "refund-bot",
        "refund",
        "Order",
        "order:O3",
    )
    assert json.loads(rules.attributes_json)["refund_allowed"] is False
    assert json.loads(rules.context_json)["amount_minor"] == 5000
    assert list(message.left_out) == []


async def test_allowed_calls_have_theirs_and_none_opens_for_another_event(house: House) -> None:
    await house.decide(call_id="a")
    await house.decide(call_id="b")
    [first], [second] = await house.decisions("a"), await house.decisions("b")
    kept = {one.payload_ref: await sealed_of(house, one) for one in (first, second)}
    assert first.payload_ref != second.payload_ref
    assert opened(house, first, kept[first.payload_ref]).call_id == "a"
    place = Place(ENV, "t1", first.event_id)
    secret = read_secret(house.ground.keys_dir / "payload-t1.key")
    assert isinstance(open_sealed(kept[second.payload_ref], place, secret), Unopened)
    assert not any(refund() in sealed for sealed in kept.values())


async def test_a_failure_has_its_input_too(house: House) -> None:
    house.finance.answer = b"\xff"
    with pytest.raises(grpc.RpcError):
        await house.decide()
    [event] = await house.decisions()
    message = opened(house, event, await sealed_of(house, event))
    assert (event.kind, message.decision, message.reason) == (
        "decision.failed",
        "failed",
        "FACTS_UNAVAILABLE",
    )
    assert not message.HasField("rule_input")


async def test_who_is_no_tenants_leaves_no_payload(house: House) -> None:
    await house.decide(task_id="task_none")
    [event] = await house.decisions()
    assert (event.reason, event.payload_ref) == ("TASK_UNKNOWN", "")
    assert await payloads(house) == {}


async def test_an_argument_of_five_megabytes_leaves_one_event_with_its_size_and_digest(house: House) -> None:
    body = refund() + bytes(5 << 20)
    response = await house.decide(body)
    assert response.refusal.reason == "TOO_LARGE"
    [event] = [one for one in await house.events() if one.kind == "decision.denied"]
    assert f"at most {MAX_REQUEST_BYTES} …[{len(body)} bytes left out, digest " in event.detail
    message = opened(house, event, await sealed_of(house, event))
    assert (message.request, list(message.left_out)) == (b"", ["request"])
    assert (message.request_size, message.request_sha256) == (len(body), sha256(body).digest())


async def test_a_full_payload_stream_delays_no_decision_and_takes_what_waited_later(house: House) -> None:
    nc = await connect(house.ground.nats.settings("setup"), "test")
    name = stream_payload(ENV)
    info = await stream_info(nc, name)
    assert info is not None
    await call(nc, f"STREAM.UPDATE.{name}", {**info["config"], "max_bytes": 64})
    for number in range(3):
        answer = await house.decide(call_id=f"call_{number}")
        assert answer.refusal.reason == "", answer
    events = [event for number in range(3) for event in await house.decisions(f"call_{number}")]
    assert len(events) == 3
    assert await payloads(house) == {}
    await call(nc, f"STREAM.UPDATE.{name}", info["config"])
    await nc.close()
    async with asyncio.timeout(60):
        while set(await payloads(house)) != {event.payload_ref for event in events}:  # noqa: ASYNC110 - the queue's doing
            await asyncio.sleep(0.05)
