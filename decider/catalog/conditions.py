"""The conditions of a JSON Schema that can be checked exactly here, taken over one by one.

What a checker would refuse to compile, read in another way or compare by a float is left out and said.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from licet.call.json_text import MAX_INTEGER
from licet.call.plan import CatalogError
from licet.call.schema import compile_schema

_NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems")
_FORMATS: Final = frozenset(
    {"date", "date-time", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri"}
    | {
        "iri-reference",
        "json-pointer",
        "regex",
        "relative-json-pointer",
        "time",
        "uri",
        "uri-reference",
        "uuid",
    }
)
CONDITIONS: Final = frozenset({*_NUMBERS, *_COUNTS, "uniqueItems", "pattern", "format"})
LISTED: Final = frozenset({"enum", "const"})


def conditions_of(schema: Mapping[str, Any], left_out: Callable[[str], None]) -> dict[str, Any]:
    """Return the conditions on a value that is no object; names each that is left out."""
    kept: dict[str, Any] = {}
    for word, value in _modern(schema).items():
        taken = _condition(word, value)
        if taken is not None:
            kept[word] = taken
        elif word in CONDITIONS and value is not False and not (word in _NUMBERS and _beyond(value)):
            left_out(word)
    return kept


def _modern(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with draft-04's `exclusiveMinimum: true` as the bound it makes."""
    found = {str(word): value for word, value in schema.items()}
    for plain, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if found.get(exclusive) is True and plain in found:
            found[exclusive] = found.pop(plain)
    return found


def _condition(word: str, value: Any) -> Any:
    """Return the value of a condition as it is checked here; None where it is not."""
    if word in _NUMBERS:
        return _number(value) if word != "multipleOf" or (_number(value) or 0) > 0 else None
    if word in _COUNTS:
        count = _number(value)
        return int(count) if count is not None and count >= 0 and count == int(count) else None
    if word == "uniqueItems":
        return True if value is True else None
    if word == "format":
        return value if isinstance(value, str) and value in _FORMATS else None
    return value if word == "pattern" and isinstance(value, str) and _compiles(value) else None


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or _beyond(value):
        return None
    return int(value) if value == int(value) else value


def _beyond(value: Any) -> bool:
    """Tell whether a bound lies where no argument can: it says nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not math.isfinite(value) or abs(value) > MAX_INTEGER


def _compiles(pattern: str) -> bool:
    text = {"type": "string", "pattern": pattern}
    schema = {"type": "object", "properties": {"text": text}, "additionalProperties": False}
    try:
        compile_schema(json.dumps(schema))
    except CatalogError:
        return False
    return True


def listed_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `enum` or `const` with the values that can be compared exactly; empty where there are none."""
    if "const" in schema and _exact(schema["const"]):
        return {"const": schema["const"]}
    values = schema.get("enum")
    kept = [value for value in values if _exact(value)] if isinstance(values, list) else []
    return {"enum": [value for at, value in enumerate(kept) if not _among(value, kept[:at])]} if kept else {}


def _exact(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= MAX_INTEGER
    return value is None or isinstance(value, str | bool)


def _among(value: Any, others: list[Any]) -> bool:
    return any(type(other) is type(value) and other == value for other in others)
