"""The JSON Schema of a tool's arguments, held to a closed world.

JSON Schema is open: a mistyped keyword is ignored, an object takes any other property, a schema without a
type takes anything, a `$ref` may be fetched. Each of these would let arguments pass that nobody looked at,
so a schema is used only if it cannot: known keywords alone, `additionalProperties: false` on every object, a
type for every value, references within the schema alone, no floating point in `const` and `enum`. What is
checked then is JSON Schema 2020-12 by jsonschema-rs, with formats asserted and patterns in linear time.

Needs the extra `licet[mcp]`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from licet.call.json_text import Json, parse_json
from licet.call.plan import CatalogError
from licet.call.stop import Stop
from licet.refusal import Reason

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

_ANNOTATIONS: Final = frozenset(
    {"$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
_ASSERTIONS: Final = frozenset(
    {"const", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength"}
    | {"maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf"}
    | {"pattern", "required", "type", "uniqueItems"}
)
_APPLICATORS: Final = frozenset(
    {"$defs", "$ref", "additionalProperties", "allOf", "anyOf", "definitions", "items", "oneOf", "properties"}
)
_KNOWN: Final = _ANNOTATIONS | _ASSERTIONS | _APPLICATORS
_NAMED: Final = ("$defs", "definitions", "properties")
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_DIALECTS: Final = frozenset(
    {"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"}
)
"""What `$schema` may say: the keywords known here mean the same in both, or more in 2020-12."""


_REFERENCE: Final = re.compile(r"#|#/(\$defs|definitions)/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Schema:
    """A compiled schema; made by `compile_schema` only. Safe to share between threads."""

    validator: "Draft202012Validator"

    def check(self, parsed: Json) -> None:
        """Raise Stop when the arguments are not as the schema asks; says where, never what they hold."""
        if self.validator.is_valid(parsed):
            return
        error = next(iter(self.validator.iter_errors(parsed)))
        where = "/".join(str(part) for part in error.schema_path)
        unknown = error.schema_path[-1:] == ["additionalProperties"]
        raise Stop(
            Reason.UNKNOWN_FIELD if unknown else Reason.ARGUMENTS_MALFORMED, f"against the schema's `{where}`"
        )


def compile_schema(text: str) -> Schema:
    """Compile the JSON Schema of a method's arguments.

    Raises:
        CatalogError: the schema is not JSON, not JSON Schema 2020-12, or open somewhere (says where), or the
            extra `licet[mcp]` is not installed.
    """
    try:
        from jsonschema_rs import Draft202012Validator, RegexOptions
    except ModuleNotFoundError:
        raise CatalogError("JSON arguments need the extra: pip install 'licet[mcp]'") from None
    schema = _parse(text)
    if schema.pop("$schema", None) not in {None, *_DIALECTS}:
        raise CatalogError("the schema's dialect is not known: use JSON Schema 2020-12")
    try:
        validator = Draft202012Validator(
            schema,
            validate_formats=True,
            ignore_unknown_formats=False,
            pattern_options=RegexOptions(),
            offline=True,
        )
    except ValueError as error:
        raise CatalogError(f"not a JSON Schema: {str(error).partition(chr(10))[0]}") from None
    if schema.get("type") != "object":
        raise CatalogError("the schema of arguments must have the type `object`")
    for problem in _Closed(schema).problems("#", schema):
        raise CatalogError(f"schema: {problem}")
    return Schema(validator)


def _parse(text: str) -> dict[str, Json]:
    try:
        parsed = parse_json(text.encode())
    except Stop as stop:
        raise CatalogError(f"the schema is not strict JSON: {stop.refusal.detail}") from None
    if not isinstance(parsed, dict):
        raise CatalogError("the schema is no object")
    return parsed


class _Closed:
    """Finds what makes a schema open, from the top down; its form was checked before."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def problems(self, where: str, schema: Any) -> Iterator[str]:
        """Yield what makes `schema` open, each problem with its place, the first first."""
        if isinstance(schema, Mapping):
            yield from self._open(where, schema)
            yield from self._below(where, schema)
        else:
            yield f"`{where}` is no object"

    def _open(self, where: str, schema: Mapping[str, Any]) -> Iterator[str]:
        yield from (f"`{where}` has the unknown keyword `{key}`" for key in sorted(schema.keys() - _KNOWN))
        types = schema.get("type", [])
        if "object" in types and schema.get("additionalProperties") is not False:
            yield f"`{where}` takes unnamed properties: set `additionalProperties` to false"
        if "object" not in types and schema.keys() & {"properties", "additionalProperties"}:
            yield f"`{where}` has properties but not the type `object`"
        if "array" in types and "items" not in schema:
            yield f"`{where}` takes any items: set `items`"
        if _REFERENCE.fullmatch(schema.get("$ref", "#")) is None:
            yield f"`{where}` refers to something else than a definition of its own schema"
        if any(isinstance(value, float | dict | list) for value in _listed(schema)):
            yield f"`{where}` compares with a floating point number, an object or an array"

    def _below(self, where: str, schema: Mapping[str, Any]) -> Iterator[str]:
        for key in _NAMED:
            for name, part in schema.get(key, {}).items():
                yield from self._typed(f"{where}/{key}/{name}", part)
        if "items" in schema:
            yield from self._typed(f"{where}/items", schema["items"])
        for key in _BRANCHES:
            for index, part in enumerate(schema.get(key, ())):
                yield from self.problems(f"{where}/{key}/{index}", part)

    def _typed(self, where: str, schema: Any) -> Iterator[str]:
        yield from self.problems(where, schema)
        if not self._says_type(schema, frozenset()):
            yield f"`{where}` takes any value: set `type`"

    def _says_type(self, schema: Mapping[str, Any], seen: frozenset[str]) -> bool:
        """Whether a value must be of a type that the schema names; a circle of references names none."""
        if schema.keys() & {"type", "const", "enum"}:
            return True
        reference = schema.get("$ref")
        if reference is not None and reference not in seen:
            return self._says_type(self._definition(reference), seen | {reference})
        return any(self._says_type(part, seen) for part in schema.get("allOf", ())) or any(
            key in schema and all(self._says_type(part, seen) for part in schema[key])
            for key in ("anyOf", "oneOf")
        )

    def _definition(self, reference: str) -> Mapping[str, Any]:
        found = self._root
        for name in reference.split("/")[1:]:
            found = found[name]
        return found


def _listed(schema: Mapping[str, Any]) -> list[Any]:
    """Return the values that a schema compares with."""
    return [schema.get("const"), *schema.get("enum", ())]
