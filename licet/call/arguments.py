"""Arguments: what a walk returns, and the only form in which a call's arguments are used."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from licet.call.tree import EnumNumber, Leaf, ListValue, MapValue, Record, Value
from licet.refusal import Reason, Refusal

# Unicode's explicit bidirectional controls (UAX 9): they make one order number look like another on screen.
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

Plain = dict[str, "Plain"] | list["Plain"] | str | int | bool | float | None
"""What JSON can carry; integers are exact Python integers."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call, strictly walked. Made by `walk` and `read_json` only.

    `encoded` is what is digested, the values are what ceilings, resource and policy see, `canonical` is what
    is forwarded: all three come from one walk of one message, and walking `canonical` gives the same
    `encoded`. It does not say that the values make sense: that is the business of catalog and policy.
    """

    encoded: bytes
    """Tree encoding: what the call digest is made of."""
    canonical: bytes
    """Deterministic protobuf or RFC 8785 JSON, at most MAX_REQUEST_BYTES: what the tool gets."""
    values: Record = field(repr=False, compare=False)
    """The present fields by name; read only."""

    def leaf(self, path: str) -> Leaf | None:
        """Return the single value at `path` (names joined by dots), or None.

        None for what is absent (with implicit presence: has its default), for JSON's null, for a message, and
        for everything at or below a repeated field or a map. A caller that needs a value refuses None.
        """
        if "." not in path:
            value = self.values.get(path)
        else:
            value = self.values
            for name in path.split("."):
                if not isinstance(value, Record):
                    return None
                value = value.get(name)
        return None if isinstance(value, (dict, ListValue)) else value

    def identifier(self, path: str) -> str | Refusal:
        """Return the leaf at `path` as the text of an identifier.

        Text and integers only. Refuses what is absent or empty, NUL (it ends the text for a C library) and
        bidirectional controls (an approver would read another order number than the tool).
        """
        value = self.leaf(path)
        if isinstance(value, bool | EnumNumber) or not isinstance(value, str | int):
            return Refusal(Reason.ARGUMENTS_MALFORMED, f"`{path}` is no identifier")
        if isinstance(value, int):
            return str(value)
        if not value or "\0" in value or not _BIDI.isdisjoint(value):
            return Refusal(Reason.ARGUMENTS_MALFORMED, f"`{path}` is empty or holds a control character")
        return value

    def leaves(self) -> Iterator[tuple[tuple[str, ...], Leaf | None]]:
        """Yield every single value with its path; each element of a list under the list's own path.

        Map entries come under the map's path with the key as one more name; JSON's null as None.
        """
        yield from _leaves((), self.values)

    def to_plain(self) -> dict[str, Plain]:
        """Return a fresh copy as JSON types, for policy and summaries; never to be digested or forwarded.

        Bytes as standard base64 text, enum numbers by name, integers as they are.
        """
        return {name: _plain(value) for name, value in self.values.items()}


def _leaves(
    path: tuple[str, ...], value: Value | Mapping[str, Value]
) -> Iterator[tuple[tuple[str, ...], Leaf | None]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves((*path, key_text(name)), part)
    elif isinstance(value, ListValue):
        for item in value.items:
            yield from _leaves(path, item)
    else:
        yield path, value


def key_text(key: str | int | bool) -> str:
    """Return a map key as JSON writes it: text as it is, integers in decimal, `true` and `false`."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _plain(value: Value) -> Plain:
    match value:
        case Record() | MapValue():
            return {key_text(name): _plain(part) for name, part in value.items()}
        case ListValue(items):
            return [_plain(item) for item in items]
        case EnumNumber():
            return value.name
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value
