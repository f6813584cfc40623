"""Task contracts: what is allowed, what it is pointed at, and nothing else."""

import json
from dataclasses import replace
from typing import Any

import pytest

from decider.task.contract import AUTONOMY, Contract, addresses_in, check_contract, needs_approval, normal
from licet.call import Arguments
from licet.call.schema import compile_schema
from licet.call.strict_json import read_json
from licet.refusal import Reason, Refusal

SCHEMA = compile_schema(
    json.dumps(
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "to": {"type": "array", "items": {"type": "string"}},
                "body": {"type": "string"},
                "copies": {"type": "integer"},
            },
        }
    )
)
CONTRACT = Contract(
    allowed=frozenset({"send", "read"}),
    needs_approval=frozenset({"send"}),
    autonomy=AUTONOMY["full"],
    addresses=frozenset({"ada@example.com", "www.example.com", "@partner.example"}),
    values={"send": {"to": frozenset({"ada@example.com"}), "copies": frozenset({"1"})}},
)


def arguments(**values: Any) -> Arguments:
    read = read_json(SCHEMA, json.dumps(values).encode())
    assert isinstance(read, Arguments), read
    return read


def check(contract: Contract = CONTRACT, operation: str = "send", tier: int = 4, **values: Any) -> str:
    refusal = check_contract(contract, operation=operation, tier=tier, arguments=arguments(**values))
    if refusal is None:
        return ""
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.CONTRACT_REFUSED
    return refusal.detail


def test_call_within_the_contract_passes() -> None:
    assert check(to=["ada@example.com"], body="hello", copies=1) == ""
    assert needs_approval(CONTRACT, "send")
    assert not needs_approval(CONTRACT, "read")


def test_operation_must_be_allowed_and_not_forbidden() -> None:
    assert "not among" in check(operation="wipe")
    assert "not among" in check(Contract(allowed=frozenset()), operation="read")
    everything = Contract(allowed=frozenset({"*"}))
    assert check(everything, operation="wipe") == ""
    assert "forbidden" in check(replace(everything, forbidden=frozenset({"wipe"})), operation="wipe")
    assert "forbidden" in check(replace(everything, forbidden=frozenset({"*"})), operation="read")


@pytest.mark.parametrize(("mode", "tier"), [("observe", 1), ("draft", 2), ("act", 3), ("full", 5)])
def test_autonomy_mode_bounds_the_tier(mode: str, tier: int) -> None:
    contract = replace(CONTRACT, autonomy=AUTONOMY[mode])
    assert check(contract, tier=tier) == ""
    if tier < 5:
        assert "autonomy" in check(contract, tier=tier + 1)
    assert "autonomy" in check(replace(CONTRACT, autonomy=0), tier=0)


def test_bound_argument_has_a_named_value_wherever_it_is_present() -> None:
    assert check(body="no recipient at all") == ""
    assert "`to`" in check(to=["ada@example.com", "eve@evil.example"])
    assert "`copies`" in check(copies=2)
    assert check(operation="read", copies=2) == ""  # bound for `send` alone


@pytest.mark.parametrize(
    "text",
    [
        "see http://evil.example/x",
        "see www.evil.example",
        "see HTTPS://EVIL.example",
        "write to eve@evil.example",
        "pay DE89 3704 0044 0532 0130 00",
        "pay DE89370400440532013000",
        "www.example.com.evil.example",
        "www.example.community",
        "ada@example.com.evil.example",
        "eve@sub.partner.example",
    ],
)
def test_address_that_the_contract_does_not_name_is_refused_anywhere(text: str) -> None:
    assert "address" in check(body=text)
    assert check(replace(CONTRACT, addresses=None), body=text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "see https://www.example.com/terms?x=1.",
        "see www.example.com, please",
        "ask ada@example.com or bob@partner.example",
        "no address: a.b, 3.14, version 1.2.3, order O1",
    ],
)
def test_named_address_and_plain_text_pass(text: str) -> None:
    assert check(body=text) == ""


def test_addresses_have_one_spelling() -> None:
    assert normal("HTTPS://www.Example.com/") == "www.example.com"
    assert list(addresses_in("a@b.example and ftp://c.example/d")) == ["a@b.example", "c.example/d"]
