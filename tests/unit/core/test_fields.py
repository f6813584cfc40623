"""What the paths of a catalog may name: of a protobuf message, and of a JSON Schema."""

import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from licet.call import CatalogError, Plan, compile_plan
from licet.catalog.fields import Kind, MessageFields, SchemaFields
from licet.obligation import check_masked
from licet.refusal import Reason, Refusal

KINDS = {"int64": 3, "bool": 8, "text": 9, "message": 11, "data": 12, "uint32": 13, "enum": 14}


def _plan() -> Plan:
    """A message with one field of every kind, lists and maps among them."""
    file = descriptor_pb2.FileDescriptorProto(name="f.proto", package="f", syntax="proto3")
    colour = file.enum_type.add(name="Colour")
    colour.value.add(name="COLOUR_NONE", number=0)
    line = file.message_type.add(name="Line")
    line.field.add(name="sku", number=1, type=KINDS["text"], label=1)
    root = file.message_type.add(name="Root")
    for number, name in enumerate(("int64", "uint32", "bool", "text", "data"), 1):
        root.field.add(name=name, number=number, type=KINDS[name], label=1)
    root.field.add(name="enum", number=6, type=KINDS["enum"], label=1, type_name=".f.Colour")
    root.field.add(name="line", number=7, type=KINDS["message"], label=1, type_name=".f.Line")
    root.field.add(name="lines", number=8, type=KINDS["message"], label=3, type_name=".f.Line")
    root.field.add(name="texts", number=9, type=KINDS["text"], label=3)
    root.oneof_decl.add(name="_maybe")
    root.field.add(name="maybe", number=10, type=KINDS["text"], label=1, oneof_index=0, proto3_optional=True)
    entry = root.nested_type.add(name="MapEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, type=KINDS["text"], label=1)
    entry.field.add(name="value", number=2, type=KINDS["message"], label=1, type_name=".f.Line")
    root.field.add(name="map", number=11, type=KINDS["message"], label=3, type_name=".f.Root.MapEntry")
    return compile_plan(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), "f.Root")


PLAN = _plan()
MESSAGE = MessageFields(PLAN)
SINGLE = {
    "int64": Kind.INTEGER,
    "uint32": Kind.INTEGER,
    "bool": Kind.NAME,
    "enum": Kind.NAME,
    "text": Kind.TEXT,
    "maybe": Kind.TEXT,
    "data": Kind.OTHER,
    "line.sku": Kind.TEXT,
}
LISTED = {"texts": Kind.TEXT, "lines.sku": Kind.TEXT}
NOTHING = [
    "",
    "nothing",
    "line",
    "lines",
    "line.nothing",
    "text.x",
    "map",
    "map.key",
    "map.value",
    "map.value.sku",
]


def test_single_values_of_a_message_have_their_kinds() -> None:
    assert {path: MESSAGE.kind(path) for path in SINGLE} == SINGLE
    for path in (*LISTED, *NOTHING):
        with pytest.raises(CatalogError, match="no single value"):
            MESSAGE.kind(path)


def test_values_in_lists_are_reached_and_those_in_maps_are_not() -> None:
    every = SINGLE | LISTED
    assert {path: MESSAGE.kind_of_each(path) for path in every} == every
    for path in NOTHING:
        with pytest.raises(CatalogError, match="no value of"):
            MESSAGE.kind_of_each(path)


def test_tool_reads_a_default_where_protobuf_cannot_tell_absence() -> None:
    defaults = {path: MESSAGE.default(path) for path in (*SINGLE, *LISTED, "nothing")}
    read = {"int64": 0, "uint32": 0, "bool": "false", "enum": "COLOUR_NONE", "text": "", "line.sku": ""}
    read["lines.sku"] = ""  # of each element
    assert {path: value for path, value in defaults.items() if value is not None} == read
    assert {path for path in (*SINGLE, *LISTED, "nothing") if MESSAGE.in_list(path)} == set(LISTED)


STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (STRING, Kind.TEXT),
        (INTEGER, Kind.INTEGER),
        ({"type": "number"}, Kind.OTHER),
        ({"type": "boolean"}, Kind.NAME),
        ({"type": ["string", "null"]}, Kind.TEXT),
        ({"type": ["null", "integer"]}, Kind.INTEGER),
        ({"anyOf": [STRING, NULL]}, Kind.TEXT),
        ({"oneOf": [NULL, INTEGER]}, Kind.INTEGER),
        ({"type": ["string", "integer"]}, None),
        ({"type": ["null"]}, None),
        ({"anyOf": [STRING, INTEGER]}, None),
        ({"oneOf": [NULL, NULL]}, None),
        ({"type": "object"}, None),
        ({"$ref": "#/$defs/x"}, None),
        ({}, None),
    ],
)
def test_property_is_of_one_kind_or_of_none(schema: dict[str, Any], kind: Kind | None) -> None:
    """Null is no value; a choice between two kinds would let a caller choose which rule is about it."""
    fields = SchemaFields(json.dumps({"type": "object", "properties": {"a": schema}}))
    many = SchemaFields(
        json.dumps({"type": "object", "properties": {"a": {"type": "array", "items": schema}}})
    )
    assert fields.default("a") is None
    if kind is not None:
        assert fields.kind("a") is fields.kind_of_each("a") is many.kind_of_each("a") is kind
    else:
        with pytest.raises(CatalogError, match="no single value"):
            fields.kind("a")
        for one in (fields, many):
            with pytest.raises(CatalogError, match="no value"):
                one.kind_of_each("a")
    with pytest.raises(CatalogError, match="no single value"):
        many.kind("a")


@pytest.mark.parametrize(
    "paths", [(), ("text",), ("line",), ("line.sku", "lines.sku"), ("map",), ("map.sku",)]
)
def test_reply_is_masked_where_it_has_the_fields(paths: tuple[str, ...]) -> None:
    assert check_masked(PLAN, paths) is None


@pytest.mark.parametrize("paths", [("text", "nothing"), ("line.nothing",), ("text.x",), ("map.key",), ("",)])
def test_mask_over_a_field_that_is_not_there_is_found_before_the_effect(paths: tuple[str, ...]) -> None:
    refusal = check_masked(PLAN, paths)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.OBLIGATION_UNKNOWN
    assert f"`{paths[-1]}`" in refusal.detail


def test_reply_of_unknown_type_cannot_be_masked() -> None:
    refusal = check_masked(None, ())
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.OBLIGATION_UNKNOWN
