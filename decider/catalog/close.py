"""Closing a JSON Schema: from what an MCP server writes to what `licet.call.schema` takes.

The schemas of tools are open: they take properties that they do not name and values of no type, and they use
keywords that not every checker knows. Closing narrows where it can (no unnamed properties, simple values
where no type is given) and says where it had to let go of a condition, which the tool alone checks then.
Nothing is fetched. Annotations are left out: they are documentation. The result depends on the schema alone.

Guaranteed: what `close_schema` returns is taken by `licet.call.compile_schema`; it never lets through a
property that the schema does not name. Not guaranteed: every condition of the schema, see `Closed.notes`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from decider.catalog.conditions import CONDITIONS, LISTED, conditions_of, listed_of
from licet.call import CatalogError, compile_schema
from licet.call.tree import MAX_DEPTH

TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_SIMPLE: Final = ("boolean", "integer", "null", "string")
_OBJECT_WORDS: Final = frozenset({"properties", "required", "additionalProperties", "patternProperties"})
_BRANCHES: Final = ("anyOf", "oneOf")
_UNCHECKED: Final = frozenset(
    {"not", "if", "dependentSchemas", "dependentRequired", "dependencies", "propertyNames", "contains"}
    | {"patternProperties", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"}
)
_INLINE_BYTES: Final = 512
MAX_NOTES: Final = 20
"""Notes kept about one schema."""
MAX_STEPS: Final = 5_000
"""Schemas looked at in one: a small text can refer to itself without end."""


class NotClosableError(ValueError):
    """A schema cannot be made into one that arguments may be checked by; `str()` says why."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed schema as canonical JSON text, and what of the original it does not say.

    A note names a place of our own (`#/properties/…`) with names of the server's shortened and escaped.
    """

    text: str
    notes: tuple[str, ...] = ()


def close_schema(schema: Any) -> Closed:
    """Return the closed form of a tool's input schema; raises NotClosableError."""
    closer = _Closer(schema if isinstance(schema, Mapping) else {})
    try:
        closed = closer.root()
        text = json.dumps(closed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        compile_schema(text)
    except (CatalogError, ValueError, RecursionError) as error:
        raise NotClosableError(f"its schema cannot be closed: {str(error) or 'nested too deeply'}") from error
    return Closed(text, tuple(dict.fromkeys(closer.notes))[:MAX_NOTES])


class _Closer:
    """Closes one schema from the top down; definitions as they are met, so that circles end."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self.notes: list[str] = []
        self._named: dict[str, str] = {}
        self._definitions: dict[str, Any] = {}
        self._steps = 0

    def root(self) -> dict[str, Any]:
        """Return the closed whole: an object, whatever the schema says."""
        merged = self._merged(self._root, "#", frozenset())
        closed = self._object({**merged, "type": "object"}, "#", 1)
        if self._definitions:
            closed["$defs"] = self._definitions
        return closed

    def _note(self, where: str, text: str) -> None:
        self.notes.append(f"`{where}` {text}")

    def _value(self, schema: Any, where: str, level: int) -> dict[str, Any]:
        """Return the closed schema of a value; it always says a type."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise NotClosableError(f"more than {MAX_STEPS} schemas in one")
        if not isinstance(schema, Mapping) or level > MAX_DEPTH - 4:
            self._note(where, "takes any value" if level <= MAX_DEPTH - 4 else "is nested too deeply")
            return {"type": list(_SIMPLE)}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._referred(reference, where, level)
        merged = self._merged(schema, where, frozenset())
        for word in sorted(_UNCHECKED & merged.keys()):
            self._note(where, f"has `{word}`, which is not checked here")
        branches = next((merged[name] for name in _BRANCHES if _is_list(merged.get(name))), None)
        if branches is not None and not _only_demands(merged, branches):
            return self._choice(merged, branches, where, level)
        return self._plain(merged, where, level)

    def _plain(self, schema: Mapping[str, Any], where: str, level: int) -> dict[str, Any]:
        types = _types(schema)
        listed = listed_of(schema)
        if not types and not listed:
            self._note(where, "says no type: simple values pass")
            types = list(_SIMPLE)
        if listed:
            return {**({"type": _one(types)} if types else {}), **listed}
        if "object" in types:
            closed = self._object(schema, where, level)
        else:
            closed = conditions_of(
                schema, lambda word: self._note(where, f"has a `{word}` that is not checked here")
            )
        if "array" in types:
            closed |= self._array(schema, where, level)
        return {**closed, "type": _one(types)}

    def _object(self, schema: Mapping[str, Any], where: str, level: int) -> dict[str, Any]:
        given = schema.get("properties")
        properties = given if isinstance(given, Mapping) else {}
        if schema.get("additionalProperties") not in (None, False) or "patternProperties" in schema:
            self._note(where, "takes properties that it does not name; none of them pass")
        closed: dict[str, Any] = {"type": "object", "additionalProperties": False}
        branches = next((schema[name] for name in _BRANCHES if _is_list(schema.get(name))), None)
        if branches is not None and not _only_demands(schema, branches):
            choice = self._choice(schema, branches, where, level)
            parts = choice.get("anyOf", [choice])
            closed["properties"] = _united([self._shape(part) for part in parts])
            return {**closed, "anyOf": parts}
        closed["properties"] = {
            str(name): self._value(part, f"{where}/{_shown(str(name))}", level + 2)
            for name, part in properties.items()
            if part is not False
        }
        required = _texts(schema.get("required"))
        closed["required"] = sorted(set(required) & closed["properties"].keys())
        if len(closed["required"]) < len(set(required)):
            self._note(where, "requires properties that it does not name")
        if branches is not None:
            demands = [
                sorted(set(_texts(part.get("required"))) & closed["properties"].keys()) for part in branches
            ]
            closed["anyOf"] = [{"required": demand} for demand in demands]
        return closed

    def _shape(self, closed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the properties of a closed object, or of the definition that it refers to."""
        named = str(closed.get("$ref", "")).rpartition("/")[2]
        properties: Mapping[str, Any] = self._definitions.get(named, closed).get("properties", {})
        return properties

    def _array(self, schema: Mapping[str, Any], where: str, level: int) -> dict[str, Any]:
        items, prefix = schema.get("items"), schema.get("prefixItems")
        if isinstance(items, list):  # draft-07's way to write a tuple
            items, prefix = schema.get("additionalItems"), items
        if not isinstance(prefix, list) or not prefix:
            return {"items": self._value(items, f"{where}/items", level + 1)}
        parts = [self._value(part, f"{where}/items/{at}", level + 3) for at, part in enumerate(prefix)]
        if isinstance(items, Mapping):
            parts.append(self._value(items, f"{where}/items", level + 3))
        closed: dict[str, Any] = {"items": _any_of(parts)}
        return closed if isinstance(items, Mapping) else {**closed, "maxItems": len(prefix)}

    def _choice(self, schema: Mapping[str, Any], branches: Any, where: str, level: int) -> dict[str, Any]:
        """Close each branch with what stands beside the choice; exactly one of them need not hold."""
        base = {key: value for key, value in schema.items() if key not in _BRANCHES}
        parts = []
        for at, branch in enumerate(branches):
            place = f"{where}/{at}"
            if not isinstance(branch, Mapping):
                self._note(place, "takes any value: left out")
                continue
            reference = branch.get("$ref")
            if isinstance(reference, str) and not base.keys() & CONDITIONS_AND_SHAPES:
                parts.append(self._referred(reference, place, level + 2))
            else:
                whole = self._merged({"allOf": [base, branch]}, place, frozenset())
                parts.append(self._value(whole, place, level + 2))
        return _any_of(parts or [{"type": list(_SIMPLE)}])

    def _referred(self, reference: str, where: str, level: int) -> dict[str, Any]:
        """Return a small target itself, so that paths can reach into it; else a reference to it."""
        name = self._named.get(reference)
        if name is None:
            target = self._followed(reference)
            if target is None:
                self._note(where, "refers to something outside itself: simple values pass")
                return {"type": list(_SIMPLE)}
            name = self._named[reference] = f"d{len(self._named)}"
            self._definitions[name] = self._value(target, f"#/$defs/{name}", 3)
        definition = self._definitions.get(name)
        if definition is None:  # it is being closed just now: a circle
            return {"$ref": f"#/$defs/{name}"}
        text = json.dumps(definition)
        if "$ref" not in text and len(text) <= _INLINE_BYTES and _depth(definition) + level < MAX_DEPTH - 2:
            return dict(definition)
        return {"$ref": f"#/$defs/{name}"}

    def _followed(self, reference: str) -> Any:
        """Return what a reference comes to through others; None for a circle, and for what is not here."""
        seen: set[str] = set()
        target: Any = {"$ref": reference}
        while isinstance(target, Mapping) and isinstance(target.get("$ref"), str):
            if target["$ref"] in seen:
                return None
            seen.add(target["$ref"])
            target = self._target(target["$ref"])
        return target

    def _target(self, reference: str) -> Any:
        """Return what a pointer within the schema points at; None for every other reference."""
        if not reference.startswith("#"):
            return None
        found: Any = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            else:
                return None
        return found if reference in {"#", "#/"} or "/" in reference else None

    def _merged(self, schema: Mapping[str, Any], where: str, above: frozenset[str]) -> dict[str, Any]:
        """Return a schema with its `allOf` taken in: closed one by one, the parts exclude each other."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise NotClosableError(f"more than {MAX_STEPS} schemas in one")
        reference = schema.get("$ref")
        whole = {key: value for key, value in schema.items() if key not in {"allOf", "$ref"}}
        parts = list(schema["allOf"]) if _is_list(schema.get("allOf")) else []
        if isinstance(reference, str) and reference not in above:
            above |= {reference}
            parts.append(self._target(reference))
        for part in parts:
            if isinstance(part, Mapping):
                self._take_in(whole, self._merged(part, where, above), where)
        return whole

    def _take_in(self, whole: dict[str, Any], part: Mapping[str, Any], where: str) -> None:
        for key, value in part.items():
            if key not in whole:
                whole[key] = value
            elif key == "properties" and isinstance(value, Mapping) and isinstance(whole[key], Mapping):
                mine = whole[key]
                both = {name: {"allOf": [mine[name], value[name]]} for name in mine.keys() & value.keys()}
                whole[key] = {**mine, **value, **{n: v for n, v in both.items() if mine[n] != value[n]}}
            elif key == "required":
                whole[key] = [*_texts(whole[key]), *_texts(value)]
            elif whole[key] != value and key in CONDITIONS_AND_SHAPES:
                self._note(where, f"says `{key}` in two ways; the first is checked here")


CONDITIONS_AND_SHAPES: Final = (
    CONDITIONS | LISTED | _OBJECT_WORDS | frozenset({"type", "items", "prefixItems", *_BRANCHES})
)
"""Keywords that narrow a value; beside a choice they hold in each of its branches."""


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _texts(value: Any) -> list[str]:
    return [part for part in value if isinstance(part, str)] if isinstance(value, list) else []


def _shown(name: str) -> str:
    """Return a server's name as a note may show it: ASCII, short, in one line."""
    return json.dumps(name[:40])[1:-1].replace("`", "'")


def _one(types: list[str]) -> str | list[str]:
    return types[0] if len(types) == 1 else types


def _types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names, or that its keywords are about."""
    given = schema.get("type")
    names = [given] if isinstance(given, str) else _texts(given)
    types = sorted({name.lower() for name in names} & set(TYPES))
    if not types and not listed_of(schema):
        types = [kind for kind, words in _ABOUT if schema.keys() & words][:1]
    return sorted({*types, "null"}) if types and schema.get("nullable") is True else types


_ABOUT: Final = (
    ("object", _OBJECT_WORDS),
    ("array", frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})),
    ("string", frozenset({"pattern", "minLength", "maxLength", "format"})),
    ("number", frozenset({"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"})),
)


def _only_demands(schema: Mapping[str, Any], branches: Any) -> bool:
    """Tell whether the branches only say which named properties must be there."""
    if not isinstance(schema.get("properties"), Mapping):
        return False
    return all(
        isinstance(part, Mapping)
        and not part.keys() & (CONDITIONS_AND_SHAPES | {"$ref", "allOf"}) - {"required", "type"}
        for part in branches
    )


def _any_of(parts: list[dict[str, Any]]) -> dict[str, Any]:
    kept = [part for at, part in enumerate(parts) if part not in parts[:at]]
    return kept[0] if len(kept) == 1 else {"anyOf": kept}


def _united(shapes: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return every property of several shapes; one that they say differently may be either."""
    names = dict.fromkeys(name for shape in shapes for name in shape)
    return {name: _any_of([shape[name] for shape in shapes if name in shape]) for name in names}


def _depth(value: Any) -> int:
    if isinstance(value, Mapping):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
