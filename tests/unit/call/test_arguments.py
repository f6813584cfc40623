"""Arguments hand out values by path, and nothing that could be mistaken for one."""

from typing import Any

import pytest

from licet.call import Arguments, EnumNumber, compile_schema, read_json, walk
from licet.refusal import Reason, Refusal

ITEM = "type.googleapis.com/vectors.v1.Item"


@pytest.fixture(scope="module")
def arguments(samples: Any, wire: Any) -> Arguments:
    item = wire.data(1, "s") + wire.number(2, 3)
    body = wire.data(1, "O1") + wire.data(2, wire.number(1, 5000)) + wire.data(4, b"\x01\x02")
    body += wire.data(5, wire.data(1, "k") + wire.data(2, "v")) + wire.data(6, item) + wire.data(6, item)
    body += wire.number(8, 2) + wire.data(10, wire.data(1, ITEM) + wire.data(2, item)) + wire.number(14, 1)
    body += wire.data(13, b"\xff") + wire.data(21, wire.number(1, 1) + wire.data(2, "yes"))
    body += wire.data(20, wire.number(1, 7) + wire.number(2, 8))
    walked = walk(samples.refund, body)
    assert isinstance(walked, Arguments)
    return walked


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("order_id", "O1"),
        ("amount.amount_minor", 5000),
        ("urgent", True),
        ("channel", 2),
        ("blob", b"\xff"),
        ("extra.sku", "s"),
        ("extra.@type", ITEM),
    ],
)
def test_single_value_is_found_by_its_path(arguments: Arguments, path: str, value: object) -> None:
    assert arguments.leaf(path) == value


@pytest.mark.parametrize(
    "path",
    [
        "",
        "note",
        "amount",
        "amount.currency",
        "lines",
        "labels",
        "labels.k",
        "items.sku",
        "order_id.x",
        "nothing.x",
    ],
)
def test_absent_or_many_valued_path_gives_nothing(arguments: Arguments, path: str) -> None:
    """A resource named by the first of many values would not name the others."""
    assert arguments.leaf(path) is None


def test_leaves_are_all_single_values(arguments: Arguments) -> None:
    assert sorted(arguments.leaves(), key=repr) == sorted(
        [
            (("order_id",), "O1"),
            (("amount", "amount_minor"), 5000),
            (("lines",), 1),
            (("lines",), 2),
            (("labels", "k"), "v"),
            (("items", "sku"), "s"),
            (("items", "quantity"), 3),
            (("items", "sku"), "s"),
            (("items", "quantity"), 3),
            (("channel",), 2),
            (("extra", "@type"), ITEM),
            (("extra", "sku"), "s"),
            (("extra", "quantity"), 3),
            (("urgent",), True),
            (("blob",), b"\xff"),
            (("answers", "true"), "yes"),
            (("counts", "7"), 8),
        ],
        key=repr,
    )


def test_plain_copy_holds_json_types_alone(arguments: Arguments) -> None:
    plain = arguments.to_plain()
    assert plain["channel"] == "CHANNEL_BANK"
    assert plain["blob"] == "/w=="
    assert plain["items"] == [{"sku": "s", "quantity": 3}] * 2
    assert plain["answers"] == {"true": "yes"}
    assert plain["counts"] == {"7": 8}
    plain["order_id"] = "O2"
    assert arguments.leaf("order_id") == "O1"


def test_enum_number_compares_as_its_number() -> None:
    assert EnumNumber(2, "CHANNEL_BANK") == 2
    assert EnumNumber(2, "CHANNEL_BANK").name == "CHANNEL_BANK"


@pytest.mark.parametrize("text", ["", "O\0", "O\u202e1", "\u2066O1", "O1\u200f", "\u061cO1"])
def test_identifier_with_a_control_is_refused(samples: Any, wire: Any, text: str) -> None:
    """An approver would read another order number than the tool."""
    arguments = walk(samples.refund, wire.data(1, text) + wire.data(3, text))
    assert isinstance(arguments, Arguments)
    for path in ("order_id", "note"):
        refusal = arguments.identifier(path)
        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.ARGUMENTS_MALFORMED


@pytest.mark.parametrize("path", ["note", "amount", "channel", "urgent", "blob", "lines"])
def test_what_is_neither_text_nor_integer_is_no_identifier(arguments: Arguments, path: str) -> None:
    assert isinstance(arguments.identifier(path), Refusal)


def test_text_and_integers_are_identifiers(arguments: Arguments) -> None:
    assert arguments.identifier("order_id") == "O1"
    assert arguments.identifier("amount.amount_minor") == "5000"


def test_json_null_is_no_value() -> None:
    schema = compile_schema(
        '{"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": false}'
    )
    arguments = read_json(schema, b'{"a": null}')
    assert isinstance(arguments, Arguments)
    assert arguments.leaf("a") is None
    assert list(arguments.leaves()) == [(("a",), None)]
    assert arguments.to_plain() == {"a": None}
    assert isinstance(arguments.identifier("a"), Refusal)
