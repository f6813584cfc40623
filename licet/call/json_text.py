"""JSON text that every parser reads alike, and only such.

RFC 8259 leaves to each parser what a repeated name, a huge number or a lone surrogate means; every such text
is refused, so nobody can read another call than the one that was decided. What remains is I-JSON (RFC 7493)
and narrower: UTF-8 without a byte order mark, no name twice, integers within ±(2^53 - 1), no negative zero,
no number that a double would turn into another one.

A number without a fraction is an integer however it is written: `1`, `1.0` and `10e-1` are one value.
"""

import re
from decimal import Decimal
from json import JSONDecodeError, JSONDecoder, dumps
from typing import Final, NoReturn

from licet.call.stop import Stop
from licet.call.tree import MAX_DEPTH, MAX_NODES
from licet.refusal import Reason, Refusal

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
"""A parsed JSON text."""

MAX_INTEGER: Final = 2**53 - 1
"""Largest integer that every JSON parser reads exactly; larger ones travel as text."""
MAX_NUMBER_CHARACTERS: Final = 1_100
"""Longest number, in characters: the exact decimal of any double fits."""

# Possessive, and the closing quote optional: one pass over any text, also one full of escaped quotes.
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")


def parse_json(body: bytes) -> Json:
    """Parse one JSON text strictly, any value at the top. Raises Stop when it could be read in two ways."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Stop(Reason.JSON_STRICT, "not valid UTF-8") from None
    if text.startswith("\ufeff"):
        raise Stop(Reason.JSON_STRICT, "begins with a byte order mark")
    _check_extent(text)
    try:
        parsed: Json = _DECODER.decode(text)
    except JSONDecodeError as error:
        raise Stop(Reason.JSON_STRICT, f"not JSON: {error.msg} at character {error.pos}") from None
    if "\\u" in text:  # only an escape can spell half a surrogate pair: UTF-8 was checked
        try:
            dumps(parsed, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Stop(Reason.JSON_STRICT, "a lone surrogate") from None
    return parsed


def read_json_text(body: bytes) -> Json | Refusal:
    """Return the one JSON text in `body`, strictly read, or why it is none."""
    try:
        return parse_json(body)
    except Stop as stop:
        return stop.refusal


def _check_extent(text: str) -> None:
    """Refuse too many or too deeply nested values before they are parsed: parsers recurse."""
    skeleton = _STRING.sub("", text)
    opened = skeleton.count("[") + skeleton.count("{")
    if max(opened, skeleton.count(",") + skeleton.count(":")) > MAX_NODES:
        raise Stop(Reason.ARGUMENTS_MALFORMED, f"more than {MAX_NODES} values")
    if opened <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _BRACKET.findall(skeleton):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise Stop(Reason.ARGUMENTS_MALFORMED, f"nested deeper than {MAX_DEPTH}")


def _integer(digits: str) -> int:
    if digits == "-0":
        raise Stop(Reason.JSON_STRICT, "a number is negative zero")
    if len(digits) > len(str(-MAX_INTEGER)) or abs(value := int(digits)) > MAX_INTEGER:
        raise Stop(Reason.JSON_STRICT, "an integer beyond 2^53 - 1")
    return value


def _number(digits: str) -> int | float:
    """Read a number with a fraction or an exponent; refuse what a double would silently change into another.

    Rounding in the last digit is what doubles are; becoming zero, infinite or whole is another number.
    """
    if len(digits) > MAX_NUMBER_CHARACTERS:
        raise Stop(Reason.JSON_STRICT, f"a number of more than {MAX_NUMBER_CHARACTERS} characters")
    value = float(digits)
    if value == 0:
        if digits.lower().partition("e")[0].strip("0."):  # a sign or a digit is left
            raise Stop(Reason.JSON_STRICT, "a number is negative zero, or too small")
        return 0
    if abs(value) > MAX_INTEGER:
        raise Stop(Reason.JSON_STRICT, "a number beyond 2^53 - 1")
    if not value.is_integer():
        return value
    if Decimal(digits) != int(value):
        raise Stop(Reason.JSON_STRICT, "a number with more digits than a double holds")
    return int(value)


def _constant(_: str) -> NoReturn:
    raise Stop(Reason.JSON_STRICT, "NaN or Infinity")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise Stop(Reason.JSON_STRICT, "a name twice in one object")
    return names


_DECODER: Final = JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_number,  # whole numbers come out as integers
    parse_int=_integer,
    parse_constant=_constant,
)
