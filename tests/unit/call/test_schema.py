"""A schema that is open somewhere is refused, with the place."""

import json
import sys
from typing import Any

import pytest

from licet.call import Arguments, CatalogError, compile_schema, read_json
from licet.refusal import Refusal


def of(part: Any, **more: Any) -> str:
    """A closed schema whose property `a` is `part`."""
    return json.dumps({"type": "object", "properties": {"a": part}, "additionalProperties": False, **more})


@pytest.mark.parametrize(
    ("part", "more", "message"),
    [
        ({}, {}, "`#/properties/a` takes any value"),
        ({"type": "object"}, {}, "`#/properties/a` takes unnamed properties"),
        ({"type": ["null", "object"]}, {}, "takes unnamed properties"),
        ({"type": "object", "additonalProperties": False}, {}, "unknown keyword `additonalProperties`"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {}, "takes unnamed properties"),
        ({"type": "object", "patternProperties": {}}, {}, "unknown keyword `patternProperties`"),
        ({"type": "string", "properties": {}}, {}, "has properties but not the type"),
        ({"enum": ["x"], "additionalProperties": False}, {}, "has properties but not the type"),
        ({"type": "array"}, {}, "takes any items"),
        ({"type": "array", "items": {}}, {}, "`#/properties/a/items` takes any value"),
        ({"type": "array", "items": True}, {}, "`#/properties/a/items` is no object"),
        (True, {}, "`#/properties/a` is no object"),
        ({"anyOf": [{"type": "string"}, {"minimum": 1}]}, {}, "takes any value"),
        ({"anyOf": [{"type": "string"}, True]}, {}, "`#/properties/a/anyOf/1` is no object"),
        ({"allOf": [{"minimum": 1}]}, {}, "takes any value"),
        ({"not": {"type": "string"}}, {}, "unknown keyword `not`"),
        ({"const": 0.5}, {}, "floating point"),
        ({"enum": ["x", 0.5]}, {}, "floating point"),
        ({"const": {"b": 1}}, {}, "an object"),
        ({"$ref": "#/$defs/x"}, {"$defs": {"x": {"$ref": "#/$defs/x"}}}, "takes any value"),
        ({"$ref": "#/$defs/x"}, {"$defs": {"x": {}}}, "takes any value"),
        ({"$ref": "#/properties/b/default"}, {}, "not a JSON Schema"),
        (
            {"$ref": "#/$defs/x/default"},
            {"$defs": {"x": {"type": "null", "default": {}}}},
            "refers to something",
        ),
        ({"$ref": "https://example.com/schema"}, {}, "not a JSON Schema"),
        ({"$ref": "file:///etc/passwd"}, {}, "not a JSON Schema"),
        ({"type": "strong"}, {}, "not a JSON Schema"),
        ({"type": "string", "format": "postcode"}, {}, "Unknown format"),
        ({"type": "string", "pattern": "(?=a)"}, {}, "not a JSON Schema"),
        ({"type": "string", "pattern": "("}, {}, "not a JSON Schema"),
        ({"type": "string"}, {"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect"),
        ({"type": "string"}, {"$id": "https://example.com/"}, "unknown keyword `\\$id`"),
    ],
)
def test_open_or_broken_schema_is_refused(part: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        compile_schema(of(part, **more))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not strict JSON"),
        ("[]", "no object"),
        ('{"type": "string"}', "must have the type `object`"),
        ('{"type": "object", "type": "object"}', "twice"),
        ('{"type": "object"}', "`#` takes unnamed properties"),
        ('{"type": ["object", "null"], "additionalProperties": false}', "must have the type"),
    ],
)
def test_top_of_the_schema_must_be_one_closed_object(text: str, message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        compile_schema(text)


@pytest.mark.parametrize(
    ("part", "more", "value", "other"),
    [
        ({"type": "string", "title": "A", "default": {"any": []}}, {}, "x", 1),
        ({"enum": ["x", 1, None]}, {}, None, "y"),
        ({"const": "x"}, {}, "x", "y"),
        ({"anyOf": [{"type": "string"}, {"const": 1}]}, {}, 1, 2),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {}, 1, None),
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, {}, 1, 0),
        ({"$ref": "#/$defs/x"}, {"$defs": {"x": {"type": "integer"}}}, 1, "1"),
        ({"$ref": "#/definitions/x.y-z"}, {"definitions": {"x.y-z": {"$ref": "#"}}}, {}, {"b": 1}),
        ({"type": "array", "items": {"type": "number"}, "maxItems": 1}, {}, [0.5], [1, 2]),
        ({"type": "string", "format": "uuid"}, {}, "6f1b0c3e-0000-4000-8000-000000000000", "x"),
        ({"type": "string", "pattern": "^O[0-9]+$"}, {}, "O1", "P1"),
        ({"type": "string"}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}, "x", 1),
        ({"type": "string"}, {"$schema": "http://json-schema.org/draft-07/schema#"}, "x", 1),
        ({"type": "integer", "maximum": 9007199254740990}, {}, 9007199254740990, 9007199254740991),
    ],
)
def test_closed_schema_takes_what_it_names_alone(
    part: Any, more: dict[str, Any], value: Any, other: Any
) -> None:
    schema = compile_schema(of(part, **more))
    assert isinstance(read_json(schema, json.dumps({"a": value}).encode()), Arguments)
    assert isinstance(read_json(schema, json.dumps({"a": other}).encode()), Refusal)


def test_pattern_takes_linear_time() -> None:
    schema = compile_schema(of({"type": "string", "pattern": "^(a+)+$"}))
    assert isinstance(read_json(schema, b'{"a":"' + b"a" * 100_000 + b'!"}'), Refusal)


def test_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(CatalogError, match=r"pip install 'licet\[mcp\]'"):
        compile_schema(of({"type": "string"}))
