# ruff: noqa: E501, T201 - one case a line, whatever its width; a script talks to a person
"""Write the vectors of tests/vectors/{digest,json,ceilings}: run it after adding a case at the end of a list here.

Vectors are append-only: a file that exists is never written again, and a case is never renumbered. When a
vector no longer passes, the protocol has changed, and its first bytes must say so (`licet-call-v2`).
"""

import hashlib
import json
import struct
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from licet.call import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_REQUEST_BYTES,
    Arguments,
    Plan,
    Schema,
    call_digest,
    compile_plan,
    compile_schema,
    read_json,
    tool_key,
    walk,
)
from licet.ceilings import check_ceilings
from licet.v1.catalog_pb2 import Money
from licet.v1.decision_pb2 import Constraint, ConstraintOp
from licet.v1.statement_pb2 import Scalar

HERE = Path(__file__).parent
MASTER = bytes(range(32))
AUDIENCE = "spiffe://licet.local/dev/tool/vectors"
GENERATION = 1
METHOD = "/vectors.v1.Refunds/Refund"
METHOD_DIGEST = hashlib.sha256(b"any method entry").digest()
DESCRIPTORS = (HERE / "protos" / "requests.binpb").read_bytes()
ANY_TYPES = ["vectors.v1.Item", "vectors.v1.Refund"]
ITEM = "type.googleapis.com/vectors.v1.Item"
REFUND = "type.googleapis.com/vectors.v1.Refund"
MONEY = Money(amount="amount.amount_minor", currency="amount.currency")
LONGEST_TREE_SHOWN = 2048

Part = tuple[bytes, int]


@dataclass(frozen=True)
class Case:
    """A request, what is special about it, and its type; in parts where it would be long."""

    flaw: str
    why: str
    parts: tuple[Part, ...]
    type: str = "vectors.v1.Refund"

    @property
    def request(self) -> bytes:
        return b"".join(data * times for data, times in self.parts)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", value)


def entry(field: int, key: bytes, value: bytes) -> bytes:
    return data(field, key + value)


def labels(key: bytes | str, value: bytes | str) -> bytes:
    return entry(5, data(1, key), data(2, value))


def any_of(url: str, content: bytes) -> bytes:
    return data(10, data(1, url) + data(2, content))


def nest(field: int, levels: int) -> bytes:
    inside = b""
    for _ in range(levels):
        inside = data(field, inside)
    return inside


def case(flaw: str, why: str, *parts: bytes | Part, type: str = "vectors.v1.Refund") -> Case:
    return Case(flaw, why, tuple(part if isinstance(part, tuple) else (part, 1) for part in parts), type)


def legacy(flaw: str, why: str, *parts: bytes) -> Case:
    return case(flaw, why, *parts, type="vectors.v1.Legacy")


BASE = data(1, "O1") + data(2, number(1, 50_00) + data(2, "USD"))
UNKNOWN = number(999, 1)
ID = data(1, "id")

DIGEST = [
    case("empty_request", "a message without present fields", b""),
    case("refund_of_50_usd", "order O1, 50.00 USD: the base of many others", BASE),
    case("one_minor_unit_more", "50.01 is another call", data(1, "O1") + data(2, number(1, 50_01) + data(2, "USD"))),
    case("appended_amount_merges", "the last amount wins: 99.99", BASE, data(2, number(1, 99_99))),
    case("appended_amount_is_the_same", "merging the same amount changes nothing", BASE, data(2, number(1, 50_00))),
    case("optional_explicitly_empty", "present and empty is not absent", BASE, data(3, "")),
    case("message_explicitly_empty", "a present message without fields is not absent", BASE, data(23, b"")),
    case("default_without_presence", "implicit presence: false is absent, the digest is the base's", BASE, number(14, 0)),
    case("overlong_tag", "a tag in four bytes: the digest is the base's", b"\x8a\x80\x80\x00\x02O1", BASE[4:]),
    case("overlong_length", "a length in three bytes: the digest is the base's", b"\x0a\x82\x80\x00O1", BASE[4:]),
    case("fields_in_another_order", "amount before order: the digest is the base's", BASE[4:], BASE[:4]),
    case("map_in_order", "three entries", labels("a", "1"), labels("b", "2"), labels("c", "3")),
    case("map_out_of_order", "the same three: the same digest", labels("c", "3"), labels("a", "1"), labels("b", "2")),
    case("map_key_twice", "the last entry of a key wins", labels("a", "first"), labels("a", "last")),
    case("map_entry_without_value", "a missing value is the default", entry(5, data(1, "a"), b"")),
    case("map_with_negative_keys", "sorted by encoded bytes: -1 comes after 1", *(entry(20, number(1, n), number(2, n)) for n in (-1, 1))),
    case("map_with_truth_keys", "false before true", entry(21, number(1, 1), data(2, "y")), entry(21, b"", data(2, "n"))),
    case("list_packed", "numbers in one field", data(4, b"\x01\x02\x03")),
    case("list_unpacked", "numbers in a field each: the same digest", number(4, 1), number(4, 2), number(4, 3)),
    case("list_half_packed", "both forms in one request: the same digest", number(4, 1), data(4, b"\x02\x03")),
    case("list_in_another_order", "another call", data(4, b"\x03\x02\x01")),
    case("list_declared_unpacked", "sent packed, forwarded unpacked", data(22, b"\x01\x02")),
    case("oneof_given_twice", "the last member wins, the first is gone", data(18, "DE00"), data(19, data(1, "s"))),
    case("number_negative", "int32 -1 takes ten bytes", data(4, varint(-1))),
    case("number_truncated_to_32_bits", "2^32 + 1 in an int32 field reads as 1", number(22, 2**32 + 1)),
    case("truth_value_of_two", "any number but 0 is true", number(14, 2)),
    case("int64_highest", "exact", data(2, number(1, 2**63 - 1))),
    case("int64_lowest", "exact", data(2, number(1, -(2**63)))),
    case("uint64_highest", "exact", number(15, 2**64 - 1)),
    case("past_2_to_53", "2^53 + 1 is no double", data(2, number(1, 2**53 + 1))),
    case("sint64_and_fixed32", "zigzag and fixed width", number(16, 3), b"\x8d\x01\x07\x00\x00\x00"),
    case("double_and_float", "a float is widened to a double", double(11, -1.5), single(12, 0.1)),
    case("enum_alias", "two names, one number", number(8, 1)),
    case("text_composed", "no normalisation: é in one code point", data(1, "\u00e9")),
    case("text_decomposed", "no normalisation: é in two, another digest", data(1, "e\u0301")),
    case("text_outside_the_basic_plane", "four bytes of UTF-8", data(1, "\U0001f600")),
    case("text_with_nul", "text, though no identifier", data(1, "O\0")),
    case("any_listed", "the content as a message of its own", any_of(ITEM, data(1, "s") + number(2, 1))),
    case("any_content_in_another_form", "the same content: the same digest", any_of(ITEM, number(2, 1) + b"\x8a\x00\x01s")),
    case("any_in_any", "a request in a request", any_of(REFUND, any_of(ITEM, data(1, "s")))),
    case("messages_in_list_and_map", "presence inside", data(6, b""), data(6, number(2, 0)), entry(7, data(1, "k"), data(2, data(1, "s")))),
    case("deepest", f"{MAX_DEPTH} messages in one another", nest(23, MAX_DEPTH - 1)),
    case("widest", f"{MAX_NODES} values", data(4, b"\x01" * (MAX_NODES - 2))),
    case("largest", f"{MAX_REQUEST_BYTES} bytes", varint(13 << 3 | 2) + varint(MAX_REQUEST_BYTES - 4), (b"\0", MAX_REQUEST_BYTES - 4)),
    legacy("proto2_default_present", "the default is present when sent", ID, number(5, 7)),
    legacy("proto2_default_absent", "and absent when not", ID),
    legacy("proto2_closed_enum", "in a field and in a map", ID, number(3, 1), entry(4, data(1, "k"), number(2, 1))),
    case("unknown_field", "at the top", BASE, UNKNOWN),
    case("unknown_field_nested", "in a message", BASE, data(2, UNKNOWN)),
    case("unknown_field_in_list_item", "in an item", data(6, UNKNOWN)),
    case("unknown_field_in_map_entry", "beside key and value", entry(5, data(1, "k"), data(2, "v") + UNKNOWN)),
    case("unknown_field_in_map_value", "in the value's message", entry(7, data(1, "k"), data(2, UNKNOWN))),
    case("unknown_field_in_any", "in the content", any_of(ITEM, UNKNOWN)),
    case("unknown_group", "an old-style group", BASE, b"\xbb\x3e\xbc\x3e"),
    case("wrong_wire_type", "a number where text is declared", number(1, 7)),
    case("unknown_enum_number", "open enum", number(8, 9)),
    case("unknown_enum_number_packed", "among known ones", data(9, b"\x01\x09")),
    case("unknown_enum_number_in_map", "as a value", entry(24, number(1, 1), number(2, 9))),
    legacy("unknown_number_of_closed_enum", "a reader of proto2 does not see it", ID, number(3, 9)),
    legacy("unknown_number_of_closed_enum_in_map", "the whole entry would vanish", ID, entry(4, data(1, "k"), number(2, 9))),
    legacy("extension", "though the descriptors declare it", ID, number(100, 1)),
    case("any_unlisted", "a type the catalog does not list", any_of("type.googleapis.com/vectors.v1.Legacy", ID)),
    case("any_of_another_host", "a second name for a listed type", any_of("evil.example/vectors.v1.Item", b"")),
    case("any_without_type", "no type at all", data(10, b"")),
    case("any_with_broken_content", "content that is no message", any_of(ITEM, b"\x0a\x7f")),
    case("nan", "unequal to itself", double(11, float("nan"))),
    case("infinity", "no JSON has it", double(11, float("inf"))),
    case("minus_infinity", "no JSON has it", single(12, float("-inf"))),
    case("negative_zero", "equal to zero and not the same", double(11, -0.0)),
    case("negative_zero_float", "equal to zero and not the same", single(12, -0.0)),
    case("invalid_utf8", "a lone byte", data(1, b"\xff")),
    case("surrogate_in_utf8", "U+D800 in three bytes", data(1, b"\xed\xa0\x80")),
    legacy("invalid_utf8_proto2", "proto2 readers let it pass", ID, data(2, b"\xff")),
    legacy("invalid_utf8_in_proto2_map_key", "and here they cannot find it again", ID, entry(6, data(1, b"\xff"), data(2, "v"))),
    legacy("required_field_missing", "no id", number(5, 1)),
    legacy("required_field_missing_nested", "no id within", ID, data(7, b"")),
    case("truncated", "a length past the end", b"\x0a\x05O1"),
    case("field_zero", "no field has the number 0", b"\x00\x00"),
    case("group_left_open", "no end", b"\xbb\x3e"),
    case("too_deep", f"{MAX_DEPTH + 1} messages in one another", nest(23, MAX_DEPTH)),
    case("too_wide", f"{MAX_NODES + 1} values", data(4, b"\x01" * (MAX_NODES - 1))),
    case("too_large", "one byte past the limit", varint(13 << 3 | 2) + varint(MAX_REQUEST_BYTES - 3), (b"\0", MAX_REQUEST_BYTES - 3)),
    legacy("required_field_missing_beside_a_map", "an encoder of protobuf crashed on it", data(7, b""), data(6, b"")),
    case("any_in_any_in_another_form", "each content in our own encoding, the inner one too", any_of(REFUND, any_of(ITEM, number(2, 1) + b"\x8a\x00\x01s"))),
]  # fmt: skip

SCHEMA = """{
  "type": "object",
  "properties": {
    "order_id": {"type": "string", "maxLength": 20},
    "amount_minor": {"type": "integer", "minimum": 1},
    "ratio": {"type": "number"},
    "urgent": {"type": "boolean"},
    "note": {"type": ["string", "null"]},
    "blob": {"type": "string"},
    "channel": {"enum": ["card", "bank"]},
    "lines": {"type": "array", "items": {"type": "integer"}},
    "nested": {"$ref": "#"},
    "\ufb33": {"type": "integer"},
    "\U0001f600": {"type": "integer"}
  },
  "required": [],
  "additionalProperties": false
}"""

JSON = [
    case("empty_object", "no arguments", b"{}"),
    case("refund_of_50_usd", "names sorted, no white space", b' {"order_id": "O1", "amount_minor": 5000}\n'),
    case("null_is_not_absent", "another digest than the empty object's", b'{"note":null}'),
    case("empty_list_is_not_absent", "another digest than the empty object's", b'{"lines":[]}'),
    case("whole_number_with_fraction", "1.0 is the integer 1", b'{"ratio":1.0,"amount_minor":1.0}'),
    case("whole_number_with_exponent", "50e-1 is the integer 5", b'{"amount_minor":50e-1,"ratio":1E2}'),
    case("number_with_fraction", "the shortest form that reads back", b'{"ratio":0.10000000000000000555}'),
    case("number_small", "RFC 8785 writes an exponent", b'{"ratio":0.0000001}'),
    case("integer_highest", "2^53 - 1", b'{"amount_minor":9007199254740991}'),
    case("integer_lowest", "-(2^53 - 1)", b'{"ratio":-9007199254740991}'),
    case("escapes", "the same text in another form", b'{"blob":"\\u0041\\/\\u000a\\ud83d\\ude00"}'),
    case("names_outside_the_basic_plane", "tree by UTF-8 bytes, RFC 8785 by UTF-16 units", b'{"\xef\xac\xb3":1,"\xf0\x9f\x98\x80":2}'),
    case("nested_objects", "objects in objects", b'{"nested":{"nested":{"order_id":"O1"},"lines":[1,2]}}'),
    case("deepest", f"{MAX_DEPTH} objects in one another", b'{"nested":' * (MAX_DEPTH - 1) + b"{}" + b"}" * (MAX_DEPTH - 1)),
    case("duplicate_name", "the last one wins for some", b'{"order_id":"O1","order_id":"O2"}'),
    case("duplicate_name_escaped", "the same name in another form", b'{"order_id":"O1","order\\u005fid":"O2"}'),
    case("nan", "no JSON", b'{"ratio":NaN}'),
    case("infinity", "no JSON", b'{"ratio":-Infinity}'),
    case("integer_2_to_53", "the first that is not exact", b'{"amount_minor":9007199254740992}'),
    case("integer_past_2_to_53", "2^53 + 1 reads as 2^53 for some", b'{"amount_minor":9007199254740993}'),
    case("integer_with_exponent_past_2_to_53", "in another form", b'{"amount_minor":9007199254740993e0}'),
    case("negative_zero", "as a token", b'{"ratio":-0}'),
    case("negative_zero_with_fraction", "in another form", b'{"ratio":-0.0}'),
    case("number_too_small", "would become zero", b'{"ratio":1e-400}'),
    case("number_too_large", "would become infinite", b'{"ratio":1e400}'),
    case("number_that_becomes_whole", "digits lost", b'{"ratio":1.00000000000000000001}'),
    case("lone_surrogate", "in a text", b'{"blob":"\\ud800"}'),
    case("lone_surrogate_in_a_name", "in a name", b'{"\\udc00":1}'),
    case("surrogates_swapped", "low before high", b'{"blob":"\\ude00\\ud83d"}'),
    case("invalid_utf8", "a lone byte", b'{"blob":"\xff"}'),
    case("surrogate_in_utf8", "U+D800 in three bytes", b'{"blob":"\xed\xa0\x80"}'),
    case("byte_order_mark", "before the text", b'\xef\xbb\xbf{"blob":"a"}'),
    case("batch", "an array of calls", b'[{"order_id":"O1"}]'),
    case("text_at_the_top", "no object", b'"O1"'),
    case("trailing_garbage", "after the object", b'{"order_id":"O1"}x'),
    case("second_object", "after the first", b'{"order_id":"O1"}{"order_id":"O2"}'),
    case("control_character", "a raw line feed in a text", b'{"blob":"\n"}'),
    case("comment", "no JSON", b'{"order_id":"O1"/**/}'),
    case("trailing_comma", "no JSON", b'{"order_id":"O1",}'),
    case("leading_zero", "octal for some", b'{"ratio":01}'),
    case("no_break_space", "white space for some", b'{"ratio":\xc2\xa01}'),
    case("unnamed_property", "no additional properties", b'{"_meta":{}}'),
    case("unnamed_property_nested", "at any depth", b'{"nested":{"Order_id":"O1"}}'),
    case("fraction_where_integer", "the schema says integer", b'{"amount_minor":1.5}'),
    case("truth_value_where_integer", "true is not 1", b'{"amount_minor":true}'),
    case("text_too_long", "the schema says 20 characters", b'{"order_id":"123456789012345678901"}'),
    case("value_not_listed", "the schema lists two", b'{"channel":"cash"}'),
    case("too_deep", f"{MAX_DEPTH + 1} objects in one another", b'{"nested":' * MAX_DEPTH + b"{}" + b"}" * MAX_DEPTH),
    case("too_wide", f"{MAX_NODES + 1} values", b'{"lines":[1', (b",1", MAX_NODES - 3), b"]}"),
    case("widest", f"{MAX_NODES} values", b'{"lines":[1', (b",1", MAX_NODES - 4), b"]}"),
    case("too_large", "one byte past the limit", b'{"blob":"', (b"a", MAX_REQUEST_BYTES - 10), b'"}'),
]  # fmt: skip


@dataclass(frozen=True)
class Ceiling:
    """A request, constraints, and whether the method moves money."""

    flaw: str
    why: str
    request: bytes
    constraints: tuple[Constraint, ...]
    has_money: bool = True


def constraint(path: str, op: str, *values: Any) -> Constraint:
    kinds = {int: "integer", str: "text", bool: "flag", bytes: "data"}
    scalars = [one if isinstance(one, Scalar) else Scalar(**{kinds[type(one)]: one}) for one in values]
    number = ConstraintOp.Value(f"CONSTRAINT_OP_{op}")
    return Constraint(path=path.split(".") if path else [], op=number, values=scalars)


def refund(minor: int, currency: str = "USD", order: str = "O1") -> bytes:
    return data(1, order) + data(2, number(1, minor) + data(2, currency))


ORDER = constraint("order_id", "EQ", "O1")
FLOOR, CEILING = constraint("amount.amount_minor", "GE", 1), constraint("amount.amount_minor", "LE", 50_00)
CURRENCY = constraint("amount.currency", "EQ", "USD")
UP_TO_50 = (ORDER, FLOOR, CEILING, CURRENCY)
ITEMS = (constraint("items", "MAX_ITEMS", 2), constraint("items.sku", "IN", "a", "b"))
ITEM_A, ITEM_B, ITEM_C = (data(6, data(1, sku)) for sku in "abc")


def alone(flaw: str, why: str, request: bytes, *constraints: Constraint) -> Ceiling:
    return Ceiling(flaw, why, request, constraints, has_money=False)


CEILINGS = [
    Ceiling("at_the_ceiling", "50.00 of 50.00", refund(50_00), UP_TO_50),
    Ceiling("at_the_floor", "0.01", refund(1), UP_TO_50),
    Ceiling("past_the_ceiling", "50.01 of 50.00", refund(50_01), UP_TO_50),
    Ceiling("negative_amount", "pays the other way", refund(-1), UP_TO_50),
    Ceiling("amount_of_zero", "not on the wire, so the constraints meet nothing", refund(0), UP_TO_50),
    Ceiling("another_currency", "50.00 JPY are not 50.00 USD", refund(50_00, "JPY"), UP_TO_50),
    Ceiling("currency_in_lower_case", "byte by byte", refund(50_00, "usd"), UP_TO_50),
    Ceiling("currency_dropped", "a constraint that meets nothing", data(1, "O1") + data(2, number(1, 1)), UP_TO_50),
    Ceiling("another_order", "O2", refund(50_00, order="O2"), UP_TO_50),
    Ceiling("field_uncovered", "a note that nobody spoke of", refund(1) + data(3, "to another account"), UP_TO_50),
    Ceiling("empty_field_uncovered", "present and empty", refund(1) + data(3, ""), UP_TO_50),
    Ceiling("empty_message_uncovered", "a present message without fields", refund(1) + data(23, b""), UP_TO_50),
    Ceiling("map_uncovered", "its keys come from the caller", refund(1) + labels("k", "v"), UP_TO_50),
    Ceiling("amount_merged", "99.99 after 50.00", refund(50_00) + data(2, number(1, 99_99)), UP_TO_50),
    Ceiling("no_constraint", "is no permission", refund(1), ()),
    Ceiling("money_without_floor", "the bundle's author forgot", refund(1), (ORDER, CEILING, CURRENCY)),
    Ceiling("money_with_floor_of_zero", "0 is no floor", refund(1), (*UP_TO_50[:1], constraint("amount.amount_minor", "GE", 0), CEILING, CURRENCY)),
    Ceiling("money_without_ceiling", "the bundle's author forgot", refund(1), (ORDER, FLOOR, CURRENCY)),
    Ceiling("money_in_one_of_two_currencies", "IN is no EQ", refund(1), (ORDER, FLOOR, CEILING, constraint("amount.currency", "IN", "USD", "EUR"))),
    alone("without_money", "the same constraints where the method moves none", refund(1), ORDER, CEILING, constraint("amount.currency", "IN", "USD", "EUR")),
    alone("past_2_to_53", "2^53 + 1 is past 2^53", data(2, number(1, 2**53 + 1)), constraint("amount.amount_minor", "LE", 2**53)),
    alone("int64_highest", "at the limit", data(2, number(1, 2**63 - 1)), constraint("amount.amount_minor", "LE", 2**63 - 1)),
    alone("int64_one_below_highest", "past the limit by one", data(2, number(1, 2**63 - 1)), constraint("amount.amount_minor", "LE", 2**63 - 2)),
    alone("int64_lowest", "below the floor by one", data(2, number(1, -(2**63))), constraint("amount.amount_minor", "GE", -(2**63) + 1)),
    alone("uint64_highest", "an unsigned operand", number(15, 2**64 - 1), constraint("big", "LE", Scalar(unsigned=2**64 - 1))),
    alone("uint64_past_a_signed_operand", "unsigned against signed", number(15, 2**63), constraint("big", "LE", 2**63 - 1)),
    alone("text_for_a_number", "cannot be compared", data(1, "5"), constraint("order_id", "LE", 5)),
    alone("number_for_a_text", "cannot be compared", data(1, "5"), constraint("order_id", "EQ", 5)),
    alone("truth_value_for_a_number", "true is not 1", number(14, 1), constraint("urgent", "EQ", 1)),
    alone("truth_value", "true is true", number(14, 1), constraint("urgent", "EQ", True)),
    alone("enum_by_number", "equal", number(8, 2), constraint("channel", "IN", 1, 2)),
    alone("enum_has_no_order", "cannot be compared", number(8, 2), constraint("channel", "LE", 2)),
    alone("bytes_equal", "byte by byte", data(13, b"\0"), constraint("blob", "EQ", b"\0")),
    alone("floating_point", "never decides", double(11, 0.5), constraint("ratio", "LE", 1)),
    alone("prefix", "begins with it", data(1, "O1-a"), constraint("order_id", "PREFIX", "O1")),
    alone("prefix_longer_than_the_text", "does not begin with it", data(1, "O"), constraint("order_id", "PREFIX", "O1")),
    alone("prefix_empty", "would cover any text", data(1, "O1"), constraint("order_id", "PREFIX", "")),
    alone("length_in_bytes", "two letters, three bytes", data(1, "éa"), constraint("order_id", "MAX_LENGTH", 2)),
    alone("length_at_the_limit", "three bytes", data(1, "éa"), constraint("order_id", "MAX_LENGTH", 3)),
    alone("absent", "nothing there", data(1, "O1"), ORDER, constraint("note", "ABSENT")),
    alone("absent_but_empty", "present and empty is present", data(1, "O1") + data(3, ""), ORDER, constraint("note", "ABSENT")),
    alone("list", "each element, and their number", ITEM_A + ITEM_B, *ITEMS),
    alone("list_too_long", "three of two", ITEM_A * 3, *ITEMS),
    alone("list_with_another_element", "c is not listed", ITEM_A + ITEM_C, *ITEMS),
    alone("list_with_an_empty_element", "the constraint meets nothing in it", ITEM_A + data(6, b""), *ITEMS),
    alone("list_without_bound", "needs MAX_ITEMS", ITEM_A, ITEMS[1]),
    alone("list_without_elements_covered", "needs a constraint on its elements", ITEM_A, ITEMS[0]),
    alone("list_absent", "a bound that meets no list", data(1, "O1"), ORDER, ITEMS[0]),
    alone("any_type_uncovered", "the type is a value too", any_of(ITEM, data(1, "s")), constraint("extra.sku", "EQ", "s")),
    alone("any_covered", "type and content", any_of(ITEM, data(1, "s")), constraint("extra.sku", "EQ", "s"), constraint("extra.@type", "EQ", ITEM)),
    alone("operator_unspecified", "refuses", data(1, "O1"), ORDER, constraint("order_id", "UNSPECIFIED", "O1")),
    alone("operator_of_the_future", "refuses", data(1, "O1"), ORDER, Constraint(path=["order_id"], op=99)),
    alone("operand_missing", "refuses", data(1, "O1"), ORDER, constraint("order_id", "IN")),
    alone("operand_unset", "refuses", data(1, "O1"), ORDER, constraint("order_id", "EQ", Scalar())),
    alone("one_operand_too_many", "refuses", data(1, "O1"), ORDER, constraint("order_id", "EQ", "O1", "O2")),
    alone("operands_of_two_types", "refuses", data(1, "O1"), constraint("order_id", "IN", "O1", 1)),
    alone("path_empty", "refuses", data(1, "O1"), ORDER, constraint("", "EQ", "O1")),
    alone("path_to_a_message", "is no value", data(2, number(1, 1)), constraint("amount", "EQ", 1)),
]  # fmt: skip


def expected(result: Any, codec: int) -> dict[str, str]:
    if not isinstance(result, Arguments):
        return {"reason": result.reason.value}
    k_tool = tool_key(MASTER, AUDIENCE, GENERATION)
    digest = call_digest(k_tool, codec, METHOD, METHOD_DIGEST, result.encoded)
    found = {"tree_sha256": hashlib.sha256(result.encoded).hexdigest(), "call_digest": digest.hex()}
    if len(result.encoded) <= LONGEST_TREE_SHOWN:
        found |= {"tree": result.encoded.hex(), "canonical": result.canonical.hex()}
    return found


def vector(one: Case, codec: int, reader: dict[str, Any], result: Any) -> dict[str, Any]:
    return {
        "why": one.why,
        "codec": codec,
        "master": MASTER.hex(),
        "audience": AUDIENCE,
        "generation": GENERATION,
        "k_tool": tool_key(MASTER, AUDIENCE, GENERATION).hex(),
        "method": METHOD,
        "method_digest": METHOD_DIGEST.hex(),
        **reader,
        "request": [{"hex": part.hex(), "times": times} for part, times in one.parts],
        "expected": expected(result, codec),
    }


def protobuf_vectors() -> Iterator[dict[str, Any]]:
    plans: dict[str, Plan] = {}
    for one in DIGEST:
        plan = plans.setdefault(one.type, compile_plan(DESCRIPTORS, one.type, ANY_TYPES))
        reader = {
            "descriptors": b64encode(DESCRIPTORS).decode(),
            "input_type": one.type,
            "any_types": ANY_TYPES,
        }
        yield vector(one, 1, reader, walk(plan, one.request))


def json_vectors() -> Iterator[dict[str, Any]]:
    schema: Schema = compile_schema(SCHEMA)
    for one in JSON:
        yield vector(one, 2, {"schema": json.loads(SCHEMA)}, read_json(schema, one.request))


def ceiling_vectors() -> Iterator[dict[str, Any]]:
    plan = compile_plan(DESCRIPTORS, "vectors.v1.Refund", ANY_TYPES)
    for one in CEILINGS:
        arguments = walk(plan, one.request)
        assert isinstance(arguments, Arguments), one.flaw
        refusal = check_ceilings(one.constraints, arguments, MONEY if one.has_money else None)
        yield {
            "why": one.why,
            "descriptors": b64encode(DESCRIPTORS).decode(),
            "input_type": "vectors.v1.Refund",
            "any_types": ANY_TYPES,
            "request": one.request.hex(),
            "constraints": [each.SerializeToString(deterministic=True).hex() for each in one.constraints],
            "money": {"amount": MONEY.amount, "currency": MONEY.currency} if one.has_money else None,
            "expected": {"passes": True} if refusal is None else {"reason": refusal.reason.value},
        }


def main() -> None:
    for folder, cases, vectors in (
        ("digest", DIGEST, protobuf_vectors()),
        ("json", JSON, json_vectors()),
        ("ceilings", CEILINGS, ceiling_vectors()),
    ):
        (HERE / folder).mkdir(exist_ok=True)
        for index, (one, content) in enumerate(zip(cases, vectors, strict=True), start=1):
            path = HERE / folder / f"{index:03}_{one.flaw}.json"
            if not path.exists():
                path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n")
                print(f"{path.relative_to(HERE)}: {content['expected'].get('reason', 'read')}")


if __name__ == "__main__":
    main()
