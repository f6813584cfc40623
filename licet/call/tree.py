"""The tree encoding: one unambiguous byte string for the arguments of a call.

Every value begins with one letter that says its kind and, where its size is not fixed, with its length or
count, so no two different trees have the same bytes and no tree's bytes begin another's. All integers are
big-endian; lengths and counts are 32 bits. Text is UTF-8 as it came: no Unicode normalisation, because two
texts that look alike are two texts.

| letter | value | bytes after the letter |
|---|---|---|
| `M` | message | count of present fields, then per field (ascending by number) number and value |
| `I` | signed integer | 8 bytes, two's complement |
| `U` | unsigned integer | 8 bytes |
| `B` | truth value | 1 byte, 0 or 1 |
| `E` | enum number | 4 bytes, two's complement |
| `S` | text | length, UTF-8 |
| `Y` | raw bytes | length, bytes |
| `F` | floating point | 8 bytes, IEEE 754 double |
| `L` | list | count, values in order |
| `K` | map or JSON object | count, then key and value, ascending by the bytes of the encoded key |
| `A` | Any | length and UTF-8 of the type URL, then the message |
| `N` | JSON null | nothing |
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

MAX_REQUEST_BYTES = 1 << 20
"""Largest request, in bytes: as it came, and as it is forwarded."""
MAX_DEPTH = 32
"""Deepest nesting: messages (the content of an Any is one more) in protobuf, objects and arrays in JSON."""
MAX_NODES = 10_000
"""Most values of a request: each letter of its tree counts one."""

_I64 = struct.Struct(">cq")
_U64 = struct.Struct(">cQ")
_F64 = struct.Struct(">cd")
_I32 = struct.Struct(">ci")
_U32 = struct.Struct(">cI")
_NUMBER = struct.Struct(">I")

TRUE, FALSE, NULL = b"B\x01", b"B\x00", b"N"


class EnumNumber(int):
    """The number of an enum value, with its name for people and rules; compares as the number."""

    name: str

    def __new__(cls, number: int, name: str) -> Self:
        """Make the number `number`, called `name`."""
        self = super().__new__(cls, number)
        self.name = name
        return self


class MapValue(dict["int | str | bool", "Value"]):
    """A protobuf map: its keys come from the caller, so no ceiling can speak of them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ListValue:
    """A repeated field or a JSON array."""

    items: "tuple[Value, ...]"


class Record(dict[str, "Value"]):
    """The present fields of a message or JSON object, by name; never shown outside as a mutable value."""

    __slots__ = ()


Leaf = int | str | bool | bytes | float
"""A single value: integers are exact, enum numbers are `EnumNumber`."""

Value = Leaf | None | Record | ListValue | MapValue
"""A value of a tree; None is JSON's null."""


def field_number(number: int) -> bytes:
    """Encode the number of a field, 1 to 2^29 - 1."""
    return _NUMBER.pack(number)


def integer(value: int) -> bytes:
    """Encode a signed integer, -2^63 to 2^63 - 1."""
    return _I64.pack(b"I", value)


def unsigned(value: int) -> bytes:
    """Encode an unsigned integer, 0 to 2^64 - 1."""
    return _U64.pack(b"U", value)


def flag(value: bool) -> bytes:
    """Encode a truth value."""
    return TRUE if value else FALSE


def enum_number(value: int) -> bytes:
    """Encode the number of an enum value, -2^31 to 2^31 - 1."""
    return _I32.pack(b"E", value)


def text(value: str) -> bytes:
    """Encode text; raises UnicodeEncodeError on a lone surrogate, which no UTF-8 can carry."""
    data = value.encode()
    return _U32.pack(b"S", len(data)) + data


def data(value: bytes) -> bytes:
    """Encode raw bytes."""
    return _U32.pack(b"Y", len(value)) + value


def floating(value: float) -> bytes:
    """Encode a floating point number; a 32 bit one is widened, which is exact."""
    return _F64.pack(b"F", value)


def message_head(fields: int) -> bytes:
    """Begin a message of so many present fields."""
    return _U32.pack(b"M", fields)


def list_head(items: int) -> bytes:
    """Begin a list of so many items."""
    return _U32.pack(b"L", items)


def any_head(type_url: str) -> bytes:
    """Begin an Any; its message follows."""
    url = type_url.encode()
    return _U32.pack(b"A", len(url)) + url


def mapping(entries: Mapping[bytes, bytes]) -> bytes:
    """Encode a map of encoded keys and encoded values, sorted by the encoded key.

    A mapping cannot hold a key twice; who builds it refuses or merges duplicates first.
    """
    return _U32.pack(b"K", len(entries)) + b"".join(_sorted(entries))


def _sorted(entries: Mapping[bytes, bytes]) -> Iterable[bytes]:
    for key in sorted(entries):
        yield key
        yield entries[key]
