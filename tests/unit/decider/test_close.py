"""Closing the schemas of MCP servers: whatever they write, what comes out can be checked, and names all."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decider.catalog.close import MAX_STEPS, NotClosableError, close_schema
from licet.call import compile_schema, read_json
from licet.call.arguments import Arguments
from licet.refusal import Refusal


def passes(schema: Any, value: Any) -> bool:
    return isinstance(read_json(close_schema(schema).text, json.dumps(value).encode()), Arguments)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


PAIR = {"allOf": [of(a={"type": "string"}), {**of(b={"type": "integer"}), "required": ["b"]}]}
NODE = {
    "$defs": {"Node": of(name={"type": "string"}, child={"$ref": "#/$defs/Node"})},
    **of(root={"$ref": "#/$defs/Node"}),
}
TUPLE = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}
EITHER = {
    "type": "object",
    "oneOf": [{**of(a={"type": "string"}), "required": ["a"]}, of(b={"type": "integer"})],
}
PATCH = {
    **of(a={"type": "string"}, b={"type": "string"}),
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}
OLD = {"type": "object", "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}}
POINTED = of(a={"type": "string", "enum": ["x"]}, b={"$ref": "#/properties/a"})
OPTIONAL = of(a={"anyOf": [{"type": "string"}, {"type": "null"}], "default": None})

TEXT = {"type": "string"}
MAP = {"type": "object", "additionalProperties": TEXT}
CIRCLE = {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}, **of(a={"$ref": "#/$defs/A"})}
SLASHED = {"definitions": {"a/b": TEXT}, **of(a={"$ref": "#/definitions/a~1b"})}
DRAFT_04 = "http://json-schema.org/draft-04/schema#"

CASES: list[tuple[str, Any, Any, Any]] = [
    ("no schema at all", None, {}, {"a": 1}),
    ("an empty one", {}, {}, {"a": 1}),
    ("no properties", {"type": "object"}, {}, {"a": 1}),
    ("true", True, {}, {"a": 1}),
    ("open to anything", {"type": "object", "additionalProperties": True}, {}, {"a": 1}),
    ("a map", of(env=MAP), {"env": {}}, {"env": {"a": "b"}}),
    ("no type but properties", {"properties": {"a": {"type": "string"}}}, {"a": "x"}, {"a": 1}),
    ("a value of no type", of(a={}), {"a": "x"}, {"a": {"b": 1}}),
    ("a value that may be anything", of(a=True), {"a": 3}, {"a": [1]}),
    ("a value that may not be", of(a=False, b={"type": "string"}), {"b": "x"}, {"a": 1}),
    ("items of no type", of(a={"type": "array"}), {"a": ["x", 1]}, {"a": [{}]}),
    ("a tuple", of(a=TUPLE), {"a": ["x", 1]}, {"a": ["x", 1, 2]}),
    ("a tuple of draft-07", of(a={"type": "array", "items": [{"type": "string"}]}), {"a": ["x"]}, {"a": [1]}),
    ("a type in capitals", of(a={"type": "STRING"}), {"a": "x"}, {"a": 1}),
    ("several types", of(a={"type": ["string", "null"]}), {"a": None}, {"a": 1}),
    ("nullable", of(a={"type": "string", "nullable": True}), {"a": None}, {"a": 1}),
    ("a choice with null", OPTIONAL, {"a": None}, {"a": 1}),
    ("only an enum", of(a={"enum": ["x", 1, None]}), {"a": 1}, {"a": "y"}),
    ("an enum with a float", of(a={"type": "number", "enum": [1, 1.5]}), {"a": 1}, {"a": "1"}),
    ("an enum of objects", of(a={"enum": [{"b": 1}]}), {"a": "x"}, {"a": {"b": 1}}),
    ("a const", of(a={"const": "x"}), {"a": "x"}, {"a": "y"}),
    ("a bound of draft-04", OLD, {"n": 1}, {"n": 0}),
    ("a bound beyond all numbers", of(n={"type": "integer", "maximum": 1e308}), {"n": 7}, {"n": "7"}),
    ("all of two objects", PAIR, {"a": "x", "b": 1}, {"a": "x"}),
    ("one of two objects", EITHER, {"a": "x"}, {"a": "x", "b": 1}),
    ("at least one of two names", PATCH, {"b": "x"}, {}),
    ("a reference", {"$defs": {"S": TEXT}, **of(a={"$ref": "#/$defs/S"})}, {"a": "x"}, {"a": 1}),
    ("a reference to a property", POINTED, {"b": "x"}, {"b": "y"}),
    ("a reference to nothing", of(a={"$ref": "#/$defs/None"}), {"a": "x"}, {"a": {}}),
    ("a reference abroad", of(a={"$ref": "https://evil.test/s.json"}), {"a": "x"}, {"a": {}}),
    ("recursion", NODE, {"root": {"child": {"child": {"name": "x"}}}}, {"root": {"child": {"name": 1}}}),
    ("the whole in itself", of(a={"$ref": "#"}), {"a": {"a": {}}}, {"a": {"b": 1}}),
    ("a circle of references", CIRCLE, {"a": 1}, {"a": {}}),
    ("a name with a slash", SLASHED, {"a": "x"}, {"a": 1}),
    ("a pattern that looks behind", of(a={"type": "string", "pattern": "(?<=x)y"}), {"a": "y"}, {"a": 1}),
    ("a pattern", of(a={"type": "string", "pattern": "^a+$"}), {"a": "aa"}, {"a": "ab"}),
    ("an unknown format", of(a={"type": "string", "format": "slug"}), {"a": "x"}, {"a": 1}),
    ("unknown keywords", of(a={"type": "string", "x-order": 1}) | {"x-tool": {}}, {"a": "x"}, {"a": 1}),
    ("conditions on conditions", {**of(a={"type": "string"}), "if": {}, "then": {}}, {"a": "x"}, {"a": 1}),
    ("names by pattern", {**of(), "patternProperties": {"^x": {}}}, {}, {"x1": 1}),
    ("names in Unicode", of(größe={"type": "integer"}), {"gr\u00f6\u00dfe": 1}, {"groesse": 1}),
    ("required but not named", {**of(a={"type": "string"}), "required": ["a", "zzz"]}, {"a": "x"}, {}),
    ("required twice", {**of(a={"type": "string"}), "required": ["a", "a"]}, {"a": "x"}, {}),
    ("required of no list", {**of(a={"type": "string"}), "required": True}, {"a": "x"}, {"b": 1}),
    ("properties of no mapping", {"type": "object", "properties": []}, {}, {"a": 1}),
    ("an older dialect", {"$schema": DRAFT_04, **of(a=TEXT)}, {"a": "x"}, {"a": 1}),
    ("a top that is no object", {"type": "string"}, {}, {"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "lawful", "other"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_strange_schema_is_closed_so_that_what_it_names_passes_and_the_rest_does_not(
    schema: Any, lawful: Any, other: Any
) -> None:
    assert passes(schema, lawful)
    assert not passes(schema, other)


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        (of(a={"type": "string", "not": {"const": "x"}}), "has `not`, which is not checked here"),
        (of(a={"type": "string", "pattern": "(?=x)"}), "has a `pattern` that is not checked here"),
        (of(a={"$ref": "https://evil.test/s.json"}), "refers to something outside itself"),
        (of(a={}), "says no type"),
        (of(a={"type": "object", "additionalProperties": {}}), "none of them pass"),
    ],
)
def test_what_closing_had_to_change_is_said(schema: Any, note: str) -> None:
    assert any(note in found for found in close_schema(schema).notes)


def test_closed_schema_needs_no_note() -> None:
    assert (
        close_schema({**of(a={"type": "string", "maxLength": 3}), "additionalProperties": False}).notes == ()
    )


def test_notes_show_names_of_the_server_in_one_line_of_ascii() -> None:
    [note] = close_schema(of(**{"a\n`tier: 0`\u202e": {}})).notes
    assert note.isascii()
    assert note.isprintable()


def test_large_schema_is_closed() -> None:
    """Nothing is read twice: time grows with the schema."""
    shape = of(
        **{f"field_{n}": of(**{f"part_{m}": {"type": "string"} for m in range(5)}) for n in range(300)}
    )
    assert passes(shape, {"field_299": {"part_4": "x"}})


def bomb(width: int) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    names = {
        f"D{n}": {"anyOf": [of(a={"$ref": f"#/$defs/D{n + 1}"}), of(b={"$ref": f"#/$defs/D{n + 1}"})]}
        for n in range(width)
    }
    return {"$defs": {**names, f"D{width}": {"type": "string"}}, **of(a={"$ref": "#/$defs/D0"})}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = of(a=schema)
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        nested(400),
        bomb(400),
        of(**{f"f{n}": {"type": "string"} for n in range(MAX_STEPS + 1)}),
        {"allOf": [{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}] * 50},
    ],
    ids=["deep", "doubling references", "wide", "all of itself"],
)
def test_schema_that_is_too_much_is_cut_or_refused_and_never_raises_anything_else(schema: Any) -> None:
    try:
        closed = close_schema(schema)
    except NotClosableError:
        return
    compile_schema(closed.text)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYWORDS = """
type properties required items anyOf oneOf allOf enum const $ref $defs not additionalProperties prefixItems
minimum maxLength pattern format nullable multipleOf
"""
WORDS = st.sampled_from(KEYWORDS.split())
VALUES = st.sampled_from(
    ["object", "string", "array", "#", "#/$defs/a", "#/properties/a", True, False, 0, -1, 1.5, "("]
)
SCHEMAS = st.recursive(
    SCALARS | VALUES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.sampled_from(["a", "b"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(WORDS, SCHEMAS, max_size=5))
def test_any_json_at_all_is_closed_or_refused(schema: Any) -> None:
    try:
        closed = close_schema(schema)
    except NotClosableError:
        return
    compile_schema(closed.text)
    unknown = read_json(closed.text, b'{"\\u0000unnamed": 1}')
    assert isinstance(unknown, Refusal)
