"""The strict reading of JSON arguments (MCP tools/call): bytes in, Arguments or a Refusal out. Check 10.

Guarantees: the text is one that every parser reads alike (see `json_text`), one object, at most
MAX_REQUEST_BYTES large, MAX_DEPTH deep and MAX_NODES values wide, and what the tool's closed schema asks for:
no unnamed property, numbers with a fraction only where it says `number`. It is forwarded as RFC 8785 bytes.

`_meta` is no argument: what an MCP request carries beside `arguments` is not read here.
"""

import rfc8785

from licet.call import tree
from licet.call.arguments import Arguments
from licet.call.json_text import Json, parse_json
from licet.call.schema import Schema, compile_schema
from licet.call.stop import Stop
from licet.call.tree import MAX_NODES, MAX_REQUEST_BYTES, ListValue, Record, Value
from licet.refusal import Reason, Refusal


def read_json(schema: Schema | str, body: bytes) -> Arguments | Refusal:
    """Read the `arguments` object of an MCP tools/call.

    `schema` is compiled once with `compile_schema`; given as text it is compiled for this one call.

    Returns:
        The arguments, or TOO_LARGE, JSON_STRICT (a text that two parsers could read in two ways),
        UNKNOWN_FIELD (a property the schema does not name) or ARGUMENTS_MALFORMED (too deep, too many values,
        not what the schema asks for). Never raises for any `body`.
    """
    compiled = compile_schema(schema) if isinstance(schema, str) else schema
    if len(body) > MAX_REQUEST_BYTES:
        return Refusal(Reason.TOO_LARGE, f"{len(body)} bytes of arguments, at most {MAX_REQUEST_BYTES}")
    try:
        parsed = parse_json(body)
        if not isinstance(parsed, dict):  # an array would be a batch
            return Refusal(Reason.JSON_STRICT, "the arguments are no object")
        builder = _Builder()
        values = builder.record(parsed)
        compiled.check(parsed)
    except Stop as stop:
        return stop.refusal
    canonical = rfc8785.dumps(parsed)
    if len(canonical) > MAX_REQUEST_BYTES:  # `1e5` grows
        return Refusal(Reason.TOO_LARGE, f"{len(canonical)} bytes of canonical arguments")
    return Arguments(b"".join(builder.out), canonical, values)


class _Builder:
    """Builds the tree encoding. The text was parsed, so its depth is known to be within the limit."""

    __slots__ = ("_left", "out")

    def __init__(self) -> None:
        self._left = MAX_NODES - 1  # the top object is a value too
        self.out: list[bytes] = []

    def _count(self, nodes: int) -> None:
        self._left -= nodes
        if self._left < 0:
            raise Stop(Reason.ARGUMENTS_MALFORMED, f"more than {MAX_NODES} values")

    def record(self, parsed: dict[str, Json]) -> Record:
        """Encode an object and return its properties."""
        self._count(2 * len(parsed))
        outer, entries, record = self.out, {}, Record()
        for name, value in parsed.items():
            self.out = []
            record[name] = self._value(value)
            entries[tree.text(name)] = b"".join(self.out)
        self.out = outer
        outer.append(tree.mapping(entries))
        return record

    def _value(self, value: Json) -> Value:
        if isinstance(value, dict):
            return self.record(value)
        if isinstance(value, list):
            self._count(len(value))
            self.out.append(tree.list_head(len(value)))
            return ListValue(tuple(self._value(item) for item in value))
        self.out.append(_single(value))
        return value


def _single(value: str | float | bool | None) -> bytes:
    match value:
        case None:
            return tree.NULL
        case bool():
            return tree.flag(value)
        case int():
            return tree.integer(value)
        case float():
            return tree.floating(value)
        case _:
            return tree.text(value)
