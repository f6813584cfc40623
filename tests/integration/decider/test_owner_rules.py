"""A running decider under a catalog whose owner says more: argument rules, JSON methods, drift."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.protobuf import descriptor_pb2

from decider.catalog.build import build_catalog
from decider.catalog.descriptors import Descriptors
from decider.catalog.mcp import McpTools
from decider.catalog.tools import read_tools
from licet.call import tool_key
from licet.catalog import read_catalog
from licet.identity import TRUST_DOMAIN_DEV
from licet.keyfile import read_secret, read_signing_key
from licet.permit import verify_permit
from licet.refusal import Refusal
from licet.statement import PayloadType, canonical, parse_signed
from licet.v1.decision_pb2 import CODEC_JSON_MCP, DECISION_TYPE_ALLOW, DECISION_TYPE_DENY, DECISION_TYPE_HOLD
from tests.integration.decider.test_holds import Desk
from tests.worlds.decisions import ENV, GET_ORDER, TYPES, Ground, House, furnish, refund

pytestmark = pytest.mark.asyncio

RULES = """
    arguments:
      order_id: {pattern: "[OX][0-9]{1,9}", max_length: 10}
      amount.minor: {min: 1, max: 5000}
      amount.currency: {one_of: [USD, EUR], visible: currency}
"""
NOTE_TOOL = {
    "name": "add-note",
    "description": "Adds a note to an order.",
    "inputSchema": {
        "type": "object",
        "properties": {"order": {"type": "string"}, "link": {"type": "string"}},
        "required": ["order"],
    },
}
NOTES = """  mcp.finance/add-note:
    tier: 3
    operation: read_order
    resource: "order:{order}"
    waiver: "the note's own store checks the tenant"
    arguments:
      link: {domains: ["*.example.com"]}
"""
ADD_NOTE = "/mcp.finance/add-note"


def wide_catalog(ground: Ground) -> None:
    """Build the example's catalog with rules on arguments and an MCP tool beside the gRPC methods."""
    tools = ground.policy / "tools.yaml"
    text = tools.read_text()
    head, refund_method, rest = text.partition("    guarded: true\n")
    tools.write_text(head + refund_method + RULES.lstrip("\n") + rest + NOTES + "owner: finance-lead\n")
    payload = build_catalog(
        read_tools(tools),
        Descriptors((ground.policy / "descriptors.binpb").read_bytes()),
        environment=ENV,
        trust_domain=TRUST_DOMAIN_DEV,
        mcp=McpTools(json.dumps([NOTE_TOOL]).encode()),
    )
    key = read_signing_key(ground.keys_dir / "catalog.key")
    ground.catalog.write_bytes(canonical(key.sign(PayloadType.CATALOG, payload)))


def serve(file: Path, content: bytes) -> None:
    fresh = file.with_name("fresh")
    fresh.write_bytes(content)
    fresh.replace(file)


@pytest_asyncio.fixture
async def owned(ground: Ground) -> AsyncIterator[House]:
    wide_catalog(ground)
    rules = ground.policy / "rules.cedar"
    rules.write_text(
        rules.read_text()
        + '@id("bot-notes")\npermit (principal, action == Action::"read_order", resource);\n'
    )
    served = ground.directory / "served.binpb"
    serve(served, (ground.policy / "descriptors.binpb").read_bytes())
    made = await furnish(ground, served={"finance": served})
    try:
        yield made
    finally:
        await made.close()


BROKEN = {
    "pattern": (refund("../O1"), "order_id"),
    "pattern to the last letter": (refund("O1x"), "order_id"),
    "max_length": (refund("O" + "1" * 11), "order_id"),
    "range": (refund(minor=5001), "amount.minor"),
    "range below": (refund(minor=-5000), "amount.minor"),
    "one_of": (refund(currency="usd"), "amount.currency"),
    "visible": (refund(currency="EUR"), "amount.currency"),
}


async def test_argument_outside_the_owners_rules_is_denied_before_any_policy(owned: House) -> None:
    for name, (body, argument) in BROKEN.items():
        call_id = name.replace(" ", "-")
        response = await owned.decide(body, call_id=call_id)
        assert response.decision == DECISION_TYPE_DENY
        assert response.refusal.reason == "ARGUMENT_REFUSED"
        assert response.refusal.safe_reason == f"an argument is not allowed: `{argument}`"
        [event] = await owned.decisions(call_id)
        assert (event.kind, list(event.rule_ids)) == ("decision.denied", ["catalog-arguments"])
        assert event.detail == f"argument `{argument}` does not meet `{name.partition(' ')[0]}`"
    assert (await owned.decide(refund(minor=5000))).decision == DECISION_TYPE_ALLOW


def noted(**arguments: Any) -> dict[str, Any]:
    return {"body": json.dumps(arguments).encode(), "method": ADD_NOTE, "codec": CODEC_JSON_MCP}


async def test_call_of_an_mcp_tool_is_decided_and_bound_to_its_canonical_arguments(owned: House) -> None:
    response = await owned.decide(
        b'{ "link":"https://docs.example.com/1", "order":"O\\u0031" }', method=ADD_NOTE, codec=CODEC_JSON_MCP
    )
    permit = owned.permit(response)
    signed = parse_signed(owned.ground.catalog.read_bytes())
    assert not isinstance(signed, Refusal)
    catalog = read_catalog(signed, owned.ground.keys, environment=ENV, now_ms=time.time_ns() // 1_000_000)
    assert not isinstance(catalog, Refusal)
    method = catalog.methods[ADD_NOTE].current
    assert (permit.resource, permit.method, permit.method_digest) == ("order:O1", ADD_NOTE, method.digest)
    arguments = method.arguments(b'{"link":"https://docs.example.com/1","order":"O1"}')
    assert not isinstance(arguments, Refusal)
    from licet.call import call_digest

    master = read_secret(owned.ground.keys_dir / "master.key")
    key = tool_key(master, catalog.audience, permit.generation)
    assert permit.call_digest == call_digest(key, method.codec, ADD_NOTE, method.digest, arguments.encoded)


async def test_link_of_a_json_call_must_be_of_the_owners_domains(owned: House) -> None:
    for number, link in enumerate(
        ("https://docs.example.com@evil.test/", "http://docs.example.com/", "https://example.com/")
    ):
        response = await owned.decide(**noted(order="O1", link=link), call_id=f"link-{number}")
        assert response.refusal.reason == "ARGUMENT_REFUSED"
    twin = await owned.decide(**noted(order="O1", link="https://a.docs.example.com/x"))
    assert twin.decision == DECISION_TYPE_ALLOW


async def test_json_that_could_be_read_in_two_ways_is_denied(owned: House) -> None:
    response = await owned.decide(b'{"order": "O1", "order": "O2"}', method=ADD_NOTE, codec=CODEC_JSON_MCP)
    assert (response.decision, response.refusal.reason) == (DECISION_TYPE_DENY, "JSON_STRICT")
    assert (await owned.decide(**noted(order="O1"), call_id="call-2")).decision == DECISION_TYPE_ALLOW


async def until(owned: House, decision: int, **asked: Any) -> Any:
    """Ask under new call ids until the decision is this one."""
    deadline = time.monotonic() + 60
    number = 0
    while True:
        number += 1
        response = await owned.decide(call_id=f"try-{number}", **asked)
        if response.decision == decision:
            return response
        assert time.monotonic() < deadline, response
        await asyncio.sleep(0.1)


async def test_method_that_drifts_waits_for_the_tools_owner_and_runs_again_when_it_is_back(
    owned: House,
) -> None:
    served, good = (
        owned.ground.directory / "served.binpb",
        (owned.ground.policy / "descriptors.binpb").read_bytes(),
    )
    assert (await owned.decide()).decision == DECISION_TYPE_ALLOW
    files = descriptor_pb2.FileDescriptorSet.FromString(good)
    [file] = [file for file in files.file if file.service]
    [request] = [message for message in file.message_type if message.name == "IssueRefundRequest"]
    request.field.add(name="force", number=99, type=8, label=1)
    serve(served, files.SerializeToString())
    response = await until(owned, DECISION_TYPE_HOLD)
    assert [(need.rule_id, need.role) for need in response.hold.requirements] == [
        ("catalog-drift", "finance-lead")
    ]
    other = TYPES("GetOrderRequest")(order_id="O1").SerializeToString()
    reading = await owned.decide(other, method=GET_ORDER, call_id="read")
    assert reading.decision == DECISION_TYPE_ALLOW  # its own types are as they were
    serve(served, good)
    await until(owned, DECISION_TYPE_ALLOW, body=refund(minor=4999))
    drifts = [(event.method, event.detail) for event in await owned.events() if event.kind == "catalog.drift"]
    assert [method for method, _ in drifts] == ["/fin.v1.Finance/IssueRefund"] * 2
    assert drifts[1][1] == "is served as listed again"


async def test_approved_call_of_a_drifted_method_passes_once_for_exactly_this_call(ground: Ground) -> None:
    wide_catalog(ground)
    owned = await furnish(ground, served={"finance": ground.directory / "not-there.binpb"})
    try:
        response = await owned.decide()  # nobody knows what is served: everything waits
        assert response.decision == DECISION_TYPE_HOLD
        assert (await owned.decide(refund(minor=4000))).decision == DECISION_TYPE_HOLD
        await Desk(owned).answer(response.hold, "lena", rule_ids=["catalog-drift"])
        permit = verify_permit((await owned.decide()).signed, ground.keys, now_ms=time.time_ns() // 1_000_000)
        assert not isinstance(permit, Refusal)
        assert permit.hold_id == response.hold.hold_id
        assert (await owned.decide(refund(minor=4000))).decision == DECISION_TYPE_HOLD
    finally:
        await owned.close()
