"""Invariant: a catalog that was read makes sense in every part; one that does not is refused, saying what
to change.
"""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.call import CatalogError
from licet.catalog import (
    Catalog,
    Method,
    Money,
    hidden_resource,
    method_digest,
    read_catalog,
    read_method,
    read_template,
    spell_amount,
)
from licet.catalog.method import MASK, OWNER_ROLE
from licet.dsse import PayloadType
from licet.refusal import Reason, Refusal
from licet.strict import canonical
from licet.tier import CallClass, class_of
from licet.v1 import catalog_pb2
from licet.v1.decision_pb2 import CallClass as WireClass
from licet.v1.decision_pb2 import Codec
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import ENVIRONMENT, GET, KEYS, METHODS, NOW, REFUND, WIPE

KEY = bytes(range(32))
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "minor": {"type": "integer"},
        "rate": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "money": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"minor": {"type": "integer"}, "currency": {"type": "string"}},
        },
    },
}


def read(signed: Signed) -> Catalog | Refusal:
    return read_catalog(signed, KEYS, environment=ENVIRONMENT, now_ms=NOW)


def entry(path: str, **changes: Any) -> Method:
    return read_method(path, canonical(world.method(path, **changes)))


def tool(**changes: Any) -> Method:
    """A JSON method."""
    fields: dict[str, Any] = {
        "codec": Codec.CODEC_JSON_MCP,
        "json_schema": json.dumps(SCHEMA),
        "descriptors": b"",
        "input_type": "",
        "output_type": "",
        "resource": "thing:{id}",
        "say": "Read {id}",
    }
    return entry(GET, **{**fields, **changes})


def test_catalog_is_read_with_every_method() -> None:
    catalog = read(world.signed_catalog(world.catalog_message()))
    assert isinstance(catalog, Catalog)
    assert set(catalog.methods) == {REFUND, WIPE, GET}
    assert (catalog.tool, catalog.environment, catalog.version) == ("finance", ENVIRONMENT, 3)
    assert catalog.audience == world.AUDIENCE
    versions = catalog.method(REFUND)
    assert versions is not None
    refund = versions.current
    assert refund.digest == method_digest(canonical(world.method(REFUND)))
    assert (refund.tier, refund.call_class, refund.spends) == (4, CallClass.WRITE, True)
    assert refund.money == Money("amount.minor", "amount.currency")
    assert refund.facts is not None
    assert dict(refund.facts.preconditions) == {"order.version": "version"}
    assert catalog.listed(refund.digest) is refund
    assert catalog.listed(bytes(32)) is None


def test_two_versions_are_listed_while_a_rollout_lasts() -> None:
    message = world.catalog_message()
    message.entries[0].next = canonical(world.method(REFUND, say="Pay"))
    catalog = read(world.signed_catalog(message))
    assert isinstance(catalog, Catalog)
    versions = catalog.method(REFUND)
    assert versions is not None
    assert versions.next is not None
    assert versions.listed(versions.current.digest) is versions.current
    assert versions.listed(versions.next.digest) is versions.next
    assert versions.listed(bytes(32)) is None
    assert catalog.listed(versions.next.digest) is versions.next


def _changed(**changes: Any) -> catalog_pb2.Catalog:
    message = world.catalog_message()
    for name, value in changes.items():
        setattr(message, name, value)
    return message


def _twice() -> catalog_pb2.Catalog:
    message = world.catalog_message()
    message.entries.append(message.entries[0])
    return message


def _same_version_twice() -> catalog_pb2.Catalog:
    message = world.catalog_message()
    message.entries[0].next = message.entries[0].current
    return message


def _no_methods() -> catalog_pb2.Catalog:
    message = world.catalog_message()
    del message.entries[:]
    return message


def _other_path() -> catalog_pb2.Catalog:
    message = world.catalog_message()
    message.entries[0].path = "/fin.v1.Finance/Other"
    return message


@pytest.mark.parametrize(
    "message",
    [
        _changed(version=2),
        _changed(catalog_version=0),
        _changed(tool="Finance"),
        _changed(tool="billing"),
        _changed(audience="spiffe://licet.local/prod/tool/billing"),
        _changed(audience="spiffe://licet.local/staging/tool/finance"),
        _changed(audience="finance"),
        _changed(owner_role="Tool Owner"),
        _no_methods(),
        _twice(),
        _same_version_twice(),
        _other_path(),
    ],
)
def test_catalog_that_makes_no_sense_is_refused(message: catalog_pb2.Catalog) -> None:
    refusal = read(world.signed_catalog(message))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.PERMIT_MALFORMED


def test_catalog_that_is_not_ours_is_refused() -> None:
    payload = canonical(world.catalog_message())
    for signed, reason in (
        (world.signing_key("decider").sign(PayloadType.CATALOG, payload), Reason.KEY_ROLE),
        (world.signing_key("catalog").sign(PayloadType.BUNDLE, payload), Reason.SIGNATURE_INVALID),
        (
            world.signing_key("catalog").sign(PayloadType.CATALOG, payload + b"\xb8\x3e\x01"),
            Reason.PERMIT_UNKNOWN_FIELD,
        ),
        (world.signed_catalog(_changed(environment="staging")), Reason.ENVIRONMENT_MISMATCH),
    ):
        refusal = read(signed)
        assert isinstance(refusal, Refusal)
        assert refusal.reason is reason


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (REFUND, {"path": "/fin.v1.Finance/Other"}, "no path of the form"),
    (REFUND, {"tier": 6}, "no tier"),
    (REFUND, {"codec": 0}, "codec 0 is none"),
    (REFUND, {"codec": 9}, "codec 9 is none"),
    (REFUND, {"descriptors": b""}, "fin.v1.Refund"),
    (REFUND, {"input_type": "fin.v1.Nothing"}, "Nothing"),
    (REFUND, {"output_type": ""}, "Finance/IssueRefund"),
    (REFUND, {"json_schema": "{}"}, "no JSON Schema"),
    (REFUND, {"operation": ""}, "no operation"),
    (REFUND, {"operation": "Refund It"}, "no operation"),
    (REFUND, {"resource": ""}, "needs a resource template"),
    (REFUND, {"resource": "order:{nothing}"}, "no single value"),
    (REFUND, {"resource": "order:{amount}"}, "no single value"),
    (REFUND, {"resource": "order:{tags}"}, "no single value"),
    (REFUND, {"resource": "order:{order_id.x}"}, "no single value"),
    (REFUND, {"resource": "order:{order_id}{note}"}, "separator"),
    (REFUND, {"resource": "order:{order_id}-{note}"}, "separator"),
    (REFUND, {"resource": "the order {order_id}"}, "space"),
    (REFUND, {"resource": "order:%41{order_id}"}, "`%`"),
    (REFUND, {"resource": "order:{order_id"}, "braces"),
    (REFUND, {"resource": "order:{}"}, "braces"),
    (REFUND, {"resource": "o" * 513}, "512"),
    (REFUND, {"say": "Refund {nothing}"}, "no single value"),
    (REFUND, {"sensitive": ["nothing"]}, "no single value"),
    (REFUND, {"money": {"amount": "order_id", "currency": "amount.currency"}}, "minor units"),
    (REFUND, {"money": {"amount": "amount.minor", "currency": "amount.minor"}}, "currency code"),
    (REFUND, {"money": {"amount": "", "currency": ""}}, "no single value"),
    (REFUND, {"tenant_path": "nothing"}, "no single value"),
    (REFUND, {"guarded": False}, "tier 4 needs a guard"),
    (REFUND, {"guarded": False, "unguarded": "trust_me"}, "tier 4 needs a guard"),
    (REFUND, {"unguarded": "at_most_once"}, "tier 4 without a guard"),
    (REFUND, {"no_effect_codes": [0]}, "status codes"),
    (REFUND, {"no_effect_codes": [17]}, "status codes"),
    (REFUND, {"approvers": [{"role": "lead", "quorum": 1}]}, "tier 5 only"),
    (REFUND, {"facts": {"method": GET}}, "tenant"),
    (REFUND, {"data_classes": ["Payment"]}, "each data class stands once"),
    (REFUND, {"results": ["stored", "stored"]}, "each result stands once"),
    (REFUND, {"environments": [""]}, "each environment stands once"),
    (REFUND, {"costs": {"Tokens": "5"}}, "each cost stands once"),
    (REFUND, {"costs": {"tokens": "order_id"}}, "says what a call costs"),
    (REFUND, {"costs": {"tokens": "-1"}}, "no single value"),
    (REFUND, {"costs": {"tokens": "1" * 19}}, "no single value"),
    (REFUND, {"costs": {"tokens": "nothing"}}, "no single value"),
    (WIPE, {"guarded": False, "unguarded": "at_most_once"}, "tier 5 needs a guard"),
    (WIPE, {"ceilings": True}, "neither ceilings"),
    (WIPE, {"decide_on_call": True}, "neither ceilings nor decide_on_call"),
    (WIPE, {"approvers": []}, "approvers"),
    (WIPE, {"approvers": [{"role": "lead", "quorum": 0}]}, "approvers"),
    (WIPE, {"approvers": [{"role": "lead", "quorum": 5}]}, "approvers"),
    (WIPE, {"approvers": [{"role": "", "quorum": 1}]}, "stands once"),
    (WIPE, {"approvers": [{"role": "lead", "quorum": 1}] * 2}, "stands once"),
]


@pytest.mark.parametrize(("path", "changes", "says"), REFUSED)
def test_method_that_makes_no_sense_is_refused(path: str, changes: dict[str, Any], says: str) -> None:
    entry(path)
    with pytest.raises(CatalogError, match=says):
        read_method(path, canonical(world.method(path, **changes)))


def test_method_with_an_unknown_field_or_in_another_encoding_is_refused() -> None:
    good = canonical(world.method(GET))
    for bad in (good + b"\xb8\x3e\x01", b"\x0a\x01x" + good, b"\xff"):
        with pytest.raises(CatalogError):
            read_method(GET, bad)


NO_PATHS = [
    "",
    "/",
    "fin.v1.Finance/Get",
    "/fin.v1.Finance",
    "/fin.v1.Finance/",
    "//Get",
    "/fin.v1.Finance/Get/",
]
NO_PATHS += ["/a/b c", "/a/b?c", "/fin..v1/Get", "/1/a", "/a/1", "/a/b\n"]


@pytest.mark.parametrize("path", NO_PATHS)
def test_path_of_another_form_is_refused(path: str) -> None:
    with pytest.raises(CatalogError, match="no path of the form"):
        read_method(path, canonical(world.method(GET, path=path)))


UNLAWFUL_FACTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"method": "/fin.v1.Finance/Nothing"}, {}, "not listed"),
    ({"request": {"nothing": "order_id"}}, {}, "no single value"),
    ({"request": {"order_id": "nothing"}}, {}, "no single value"),
    ({"tenant": "nothing"}, {}, "no single value"),
    ({"tenant": "money"}, {}, "no single value"),
    ({"preconditions": {"order.version": "nothing"}}, {}, "no single value"),
    ({"method": WIPE}, {}, "no harmless read"),
    ({"method": REFUND}, {}, "no harmless read"),
    ({}, {"tier": 2}, "no harmless read"),
    ({}, {"spends": True}, "no harmless read"),
    ({}, {"facts": {"method": GET, "tenant": "tenant"}}, "no harmless read"),
    ({}, {"codec": Codec.CODEC_JSON_MCP}, "protobuf answers"),
]


@pytest.mark.parametrize(("facts", "source", "says"), UNLAWFUL_FACTS)
def test_facts_come_from_a_harmless_read_or_not_at_all(facts: Any, source: Any, says: str) -> None:
    usual = {"method": GET, "request": {"order_id": "order_id"}, "tenant": "tenant"}
    if "codec" in source:
        source = {
            **source,
            "json_schema": json.dumps({**SCHEMA, "properties": {"order_id": {"type": "string"}}}),
            "descriptors": b"",
            "input_type": "",
            "output_type": "",
        }
    message = world.catalog_message(
        refund=world.method(REFUND, facts={**usual, **facts}), get=world.method(GET, **source)
    )
    refusal = read(world.signed_catalog(message))
    assert isinstance(refusal, Refusal)
    assert says in refusal.detail
    assert isinstance(read(world.signed_catalog(world.catalog_message())), Catalog)


def test_what_an_argument_is_looked_for_in_names_something() -> None:
    def listed(visible: str, answer: str, tenant: str) -> Catalog | Refusal:
        facts = {"method": GET, "request": {"order_id": "order_id"}, "tenant": tenant}
        rules = [{"path": "note", "visible": visible}]
        refund = world.method(REFUND, facts=facts, ceilings=False, arguments=rules)
        source = world.method(GET, output_type=answer)
        return read(world.signed_catalog(world.catalog_message(refund=refund, get=source)))

    order, other = ("fin.v1.Order", "tenant"), ("fin.v1.GetOrder", "order_id")
    for refusal, says in (
        (listed("money", *order), "no value"),
        (listed("nothing", *order), "no value"),
        (listed("view", *other), "names nothing"),
        (listed("etag", *other), "names nothing"),
    ):
        assert isinstance(refusal, Refusal)
        assert says in refusal.detail
    assert isinstance(listed("version", *order), Catalog)
    assert isinstance(listed("order_id", *other), Catalog)


def test_facts_are_checked_against_both_versions_of_their_source() -> None:
    message = world.catalog_message()
    message.entries[2].next = canonical(world.method(GET, spends=True))
    refusal = read(world.signed_catalog(message))
    assert isinstance(refusal, Refusal)
    assert "no harmless read" in refusal.detail


def test_unguarded_tier_4_says_how_its_effect_is_kept_to_one() -> None:
    assert entry(REFUND, guarded=False, unguarded="idempotency_key").unguarded == "idempotency_key"


def test_spending_is_the_class_s_word_for_writes_and_the_catalog_s_for_reads() -> None:
    assert [entry(path).spends for path in (REFUND, WIPE, GET)] == [True, True, False]
    assert entry(GET, spends=True).spends


def test_words_of_a_method_are_read() -> None:
    method = entry(REFUND, data_classes=["payment", "personal"], results=["stored"], environments=["dev"])
    assert (method.data_classes, method.results) == (
        frozenset({"payment", "personal"}),
        frozenset({"stored"}),
    )
    assert method.environments == frozenset({"dev"})


def test_method_is_listed_only_where_its_owner_lets_it() -> None:
    elsewhere = world.catalog_message(refund=world.method(REFUND, environments=["other", "more"]))
    refusal = read(world.signed_catalog(elsewhere))
    assert isinstance(refusal, Refusal)
    assert "is not for environment" in refusal.detail
    here = world.catalog_message(refund=world.method(REFUND, environments=["other", ENVIRONMENT]))
    assert isinstance(read(world.signed_catalog(here)), Catalog)


def test_method_of_a_tool_server_is_listed_under_that_server_alone() -> None:
    def listed(tool_name: str) -> Catalog | Refusal:
        path = f"/mcp.{tool_name}/get-thing"
        of_json: dict[str, Any] = {"codec": Codec.CODEC_JSON_MCP, "json_schema": json.dumps(SCHEMA)}
        plain: dict[str, Any] = {"descriptors": b"", "input_type": "", "output_type": ""}
        words = {"resource": "thing:{id}", "say": "Read {id}"}
        made = world.method(GET, path=path, **of_json, **plain, **words)
        return read(world.signed_catalog(world.catalog_message(thing=made)))

    assert isinstance(listed("finance"), Catalog)
    refusal = listed("billing")
    assert isinstance(refusal, Refusal)
    assert "is not of tool" in refusal.detail


def test_role_of_the_owner_is_the_catalog_s_word() -> None:
    named, unnamed = read(world.signed_catalog(_changed(owner_role="payments-lead"))), world.catalog()
    assert isinstance(named, Catalog)
    assert (named.owner_role, unnamed.owner_role) == ("payments-lead", OWNER_ROLE)


def test_cost_is_a_number_of_the_catalog_or_an_argument_and_never_guessed() -> None:
    method = entry(REFUND, costs={"tokens": "7", "minor": "amount.minor"})
    assert method.costs_of(walked(minor=5)) == {"tokens": 7, "minor": 5}
    bare = REFUND_METHOD.arguments(b"\n\x02O1")  # an order and no amount
    assert not isinstance(bare, Refusal)
    assert method.costs_of(bare) is None
    assert entry(REFUND).costs_of(bare) == {}


def test_truth_value_is_no_cost() -> None:
    """A schema may change under a method that was built by hand: True is 1 in Python, and no cost."""
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "dry": {"type": "boolean"}}}  # type: ignore[dict-item]
    method = replace(tool(json_schema=json.dumps(schema)), costs={"tokens": "dry"})
    arguments = method.arguments(b'{"id": "1", "dry": true}')
    assert not isinstance(arguments, Refusal)
    assert method.costs_of(arguments) is None
    with pytest.raises(CatalogError, match="says what a call costs"):
        tool(json_schema=json.dumps(schema), costs={"tokens": "dry"})


def test_personal_resource_stands_in_no_record_in_clear() -> None:
    personal, plain = entry(GET, resource_personal=True), entry(GET)
    arguments = plain.arguments(world.GET_BODY)
    assert not isinstance(arguments, Refusal)
    assert plain.recorded_summary(arguments) == plain.summary(arguments) == "Read order O1"
    assert personal.summary(arguments) == "Read order O1"
    assert personal.recorded_summary(arguments) == f"Read order {MASK}"
    shown = hidden_resource("order:O1", personal.resource, KEY)
    assert shown.startswith("order:hmac-")
    assert "O1" not in shown
    assert shown == hidden_resource("order:O1", plain.resource, KEY)
    assert shown != hidden_resource("order:O2", plain.resource, KEY)
    assert shown != hidden_resource("order:O1", plain.resource, bytes(32))


def test_kind_that_an_argument_gives_is_hidden_with_the_resource() -> None:
    assert hidden_resource("order:O1", read_template("{kind}:{id}"), KEY).startswith("hmac-")
    assert hidden_resource("order:O1", None, KEY).startswith("hmac-")
    assert hidden_resource("", None, KEY) == ""  # no resource is no secret, and joins with nothing


def test_json_method_is_read() -> None:
    method = tool(money={"amount": "money.minor", "currency": "money.currency"}, tenant_path="id")
    arguments = method.arguments(b'{"id": "T 1", "money": {"minor": 5, "currency": "JPY"}}')
    assert not isinstance(arguments, Refusal)
    assert method.resource_of(arguments) == "thing:T%201"
    assert method.money_of(arguments) == (5, "JPY")
    assert method.tenant_of(arguments) == "T 1"
    refusal = method.arguments(b'{"id": "1", "id": "2"}')
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.JSON_STRICT


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"descriptors": world.DESCRIPTORS}, "no descriptors"),
        ({"json_schema": "{}"}, "schema"),
        ({"resource": "thing:{tags}"}, "no single value"),
        ({"resource": "thing:{rate}"}, "neither an integer nor text"),
        ({"resource": "thing:{money}"}, "no single value"),
        ({"resource": "thing:{id.x}"}, "no single value"),
        ({"resource": "thing:{nothing}"}, "no single value"),
        ({"money": {"amount": "rate", "currency": "id"}}, "minor units"),
    ],
)
def test_json_method_that_makes_no_sense_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(CatalogError, match=says):
        tool(**changes)


REFUND_METHOD = METHODS[REFUND]


def walked(**fields: Any) -> Any:
    arguments = REFUND_METHOD.arguments(world.refund(**fields))
    assert not isinstance(arguments, Refusal)
    return arguments


@pytest.mark.parametrize(
    ("order", "resource"),
    [
        ("O1", "order:O1"),
        ("O1:x", "order:O1%3Ax"),
        ("a/b", "order:a%2Fb"),
        ("50%", "order:50%25"),
        ("é", "order:%C3%A9"),
        ("a b", "order:a%20b"),
        ("a.b-c_d~e", "order:a.b-c_d~e"),
        ("{x}", "order:%7Bx%7D"),
    ],
)
def test_resource_holds_its_values_percent_encoded(order: str, resource: str) -> None:
    assert REFUND_METHOD.resource_of(walked(order_id=order)) == resource


@pytest.mark.parametrize("order", ["", "O1\0", "O\u202e1", "\u2066O1"])
def test_order_that_is_no_identifier_names_no_resource(order: str) -> None:
    refusal = REFUND_METHOD.resource_of(walked(order_id=order))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.ARGUMENTS_MALFORMED


TEXTS = st.text(alphabet="a:%/é{}", max_size=4)


@given(st.tuples(TEXTS, TEXTS), st.tuples(TEXTS, TEXTS))
def test_two_different_values_never_name_one_resource(one: tuple[str, str], other: tuple[str, str]) -> None:
    template = read_template("order:{a}:{b}")
    template.check_resource()
    assert (template.identify(one) == template.identify(other)) is (one == other)


def test_template_renders_as_many_values_as_it_has_paths() -> None:
    template = read_template("{a} and {b.c}")
    assert template.paths == ("a", "b.c")
    assert template.render(("1", "2")) == "1 and 2"
    with pytest.raises(ValueError, match="argument"):
        template.render(("1",))


@pytest.mark.parametrize(
    ("fields", "summary"),
    [
        ({}, "Refund 50.00 USD for order O1: •••"),
        ({"minor": -5, "currency": "JPY"}, "Refund -5 JPY for order O1: •••"),
        ({"order_id": "O\n1\u202e"}, "Refund 50.00 USD for order O\ufffd1\ufffd: •••"),
        ({"order_id": "x" * 200}, "Refund 50.00 USD for order " + "x" * 127 + "…: •••"),
        ({"currency": ""}, "Refund (none) (none) for order O1: •••"),
    ],
)
def test_summary_is_the_owner_s_words_and_fit_to_be_read(fields: dict[str, Any], summary: str) -> None:
    assert REFUND_METHOD.summary(walked(**fields)) == summary


def test_sensitive_amount_is_masked_under_both_its_names() -> None:
    method = entry(REFUND, sensitive=["amount.minor"], say="{amount} {amount.minor}")
    assert method.summary(walked()) == "••• •••"


def test_summary_shows_enum_numbers_by_name_and_bytes_by_size() -> None:
    method = entry(GET, say="{order_id} {view} {etag}")
    arguments = method.arguments(world.GET_FULL_BODY)
    assert not isinstance(arguments, Refusal)
    assert method.summary(arguments) == "O1 VIEW_FULL (3 bytes)"


@pytest.mark.parametrize("path", ["view", "etag"])
def test_enum_number_or_bytes_are_no_identifier(path: str) -> None:
    with pytest.raises(CatalogError, match="not an identifier"):
        entry(GET, resource=f"order:{{{path}}}")


def test_method_without_money_or_tenant_has_none() -> None:
    arguments = METHODS[GET].arguments(world.GET_BODY)
    assert not isinstance(arguments, Refusal)
    assert METHODS[GET].money_of(arguments) is None
    assert METHODS[GET].tenant_of(arguments) is None
    assert REFUND_METHOD.money_of(walked(minor=0)) is None


@pytest.mark.parametrize(
    ("minor", "currency", "text"),
    [
        (5000, "USD", "50.00"),
        (5, "USD", "0.05"),
        (-5, "EUR", "-0.05"),
        (0, "USD", "0.00"),
        (5000, "JPY", "5000"),
        (1, "KWD", "0.001"),
        (12345, "CLF", "1.2345"),
        (2**63 - 1, "USD", "92233720368547758.07"),
    ],
)
def test_amounts_are_spelled_exactly(minor: int, currency: str, text: str) -> None:
    assert spell_amount(minor, currency) == text


def test_classes_are_those_of_the_wire() -> None:
    names = {name.removeprefix("CALL_CLASS_"): number for name, number in WireClass.items()}
    assert {one.name: one.value for one in CallClass} == {
        name: number for name, number in names.items() if name != "UNSPECIFIED"
    }
    assert [class_of(tier).name for tier in range(6)] == [
        "READ",
        "READ",
        "WRITE",
        "WRITE",
        "WRITE",
        "PRIVILEGED",
    ]
    for tier in (-1, 6):
        with pytest.raises(ValueError, match="no tier"):
            class_of(tier)


@given(st.binary(max_size=200))
def test_no_signed_bytes_make_reading_a_catalog_raise(payload: bytes) -> None:
    assert isinstance(read(world.signing_key("catalog").sign(PayloadType.CATALOG, payload)), Refusal)


@given(st.binary(max_size=200))
def test_no_bytes_are_a_method(payload: bytes) -> None:
    with pytest.raises(CatalogError):
        read_method(GET, payload)
