"""Over all requests: one meaning, one digest, one form; another meaning, another digest."""

import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from licet.call import Arguments, compile_plan, compile_schema, read_json, walk
from licet.refusal import Reason, Refusal

DESCRIPTORS = (Path(__file__).parents[1] / "vectors" / "protos" / "requests.binpb").read_bytes()
POOL = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS).file:
    POOL.AddSerializedFile(_file.SerializeToString())
REFUND = message_factory.GetMessageClass(POOL.FindMessageTypeByName("vectors.v1.Refund"))
PLAN = compile_plan(DESCRIPTORS, "vectors.v1.Refund", ["vectors.v1.Item", "vectors.v1.Refund"])
LEGACY = compile_plan(DESCRIPTORS, "vectors.v1.Legacy")
URL = "type.googleapis.com/vectors.v1."


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), st.integers(-2, 2))


def unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(0, 2**bits - 1), st.integers(0, 2))


TEXT = st.text(max_size=5)
CHANNEL = st.integers(0, 2)
FINITE = st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: value != 0)
SINGLE = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda value: value != 0)
ITEM = st.fixed_dictionaries({}, optional={"sku": TEXT, "quantity": signed(64)})
AMOUNT = st.fixed_dictionaries({}, optional={"amount_minor": signed(64), "currency": TEXT})
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "order_id": TEXT,
    "amount": AMOUNT,
    "note": TEXT,
    "lines": st.lists(signed(32), max_size=3),
    "labels": st.dictionaries(TEXT, TEXT, max_size=3),
    "items": st.lists(ITEM, max_size=2),
    "channel": CHANNEL,
    "channels": st.lists(CHANNEL, max_size=3),
    "ratio": FINITE,
    "weight": SINGLE,
    "blob": st.binary(max_size=5),
    "urgent": st.booleans(),
    "big": unsigned(64),
    "delta": signed(64),
    "fixed": unsigned(32),
    "counts": st.dictionaries(signed(32), signed(64), max_size=3),
    "answers": st.dictionaries(st.booleans(), TEXT, max_size=2),
    "loose": st.lists(signed(32), max_size=3),
    "routes": st.dictionaries(unsigned(64), CHANNEL, max_size=3),
}


@st.composite
def refunds(draw: st.DrawFn, depth: int = 2) -> Any:
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=6, unique=True))
    message = REFUND(**{name: draw(FIELDS[name]) for name in names})
    way = draw(st.sampled_from(["", "iban", "voucher"]))
    if way == "iban":
        message.iban = draw(TEXT)
    elif way:
        message.voucher.CopyFrom(type(message.voucher)(**draw(ITEM)))
    for key in draw(st.lists(TEXT, max_size=2)):
        message.parts[key].CopyFrom(type(message.voucher)(**draw(ITEM)))
    if depth and draw(st.booleans()):
        message.nested.CopyFrom(draw(refunds(depth=depth - 1)))
    if depth and draw(st.booleans()):
        content = draw(refunds(depth=depth - 1))
        message.extra.type_url = URL + "Refund"
        message.extra.value = content.SerializeToString(deterministic=True)
    return message


def body_of(message: Any) -> bytes:
    return message.SerializeToString(deterministic=True)


def read(body: bytes) -> Arguments:
    arguments = walk(PLAN, body)
    assert isinstance(arguments, Arguments), arguments
    return arguments


class Reader:
    """Reads the tree encoding back, by its table alone; knows nothing of how it is written."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        assert len(self.data) >= count
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def count(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def value(self) -> Any:
        letter = self.take(1)
        if letter in b"IUFE":
            form = {b"I": ">q", b"U": ">Q", b"F": ">d", b"E": ">i"}[letter]
            return (letter, *struct.unpack(form, self.take(struct.calcsize(form))))
        if letter == b"B":
            return (letter, self.take(1) == b"\1")
        if letter in b"SY":
            return (letter, self.take(self.count()))
        if letter == b"M":
            return (letter, tuple((self.count(), self.value()) for _ in range(self.count())))
        if letter == b"L":
            return (letter, tuple(self.value() for _ in range(self.count())))
        if letter == b"K":
            return (letter, tuple((self.value(), self.value()) for _ in range(self.count())))
        if letter == b"A":
            return (letter, self.take(self.count()), self.value())
        assert letter == b"N"
        return (letter,)


def tree_of(encoded: bytes) -> Any:
    reader = Reader(encoded)
    tree = reader.value()
    assert reader.data == b""
    return tree


def write(tree: Any) -> bytes:
    letter, *parts = tree
    if letter in b"IUFE":
        return letter + struct.pack({b"I": ">q", b"U": ">Q", b"F": ">d", b"E": ">i"}[letter], *parts)
    if letter == b"B":
        return letter + bytes(parts)
    if letter == b"N":
        return letter
    if letter == b"A":
        return letter + len(parts[0]).to_bytes(4, "big") + parts[0] + write(parts[1])
    head = letter + len(parts[0]).to_bytes(4, "big")
    if letter in b"SY":
        return head + parts[0]
    if letter == b"M":
        assert [number for number, _ in parts[0]] == sorted({number for number, _ in parts[0]})
        return head + b"".join(number.to_bytes(4, "big") + write(value) for number, value in parts[0])
    if letter == b"K":
        keys = [write(key) for key, _ in parts[0]]
        assert keys == sorted(set(keys))
        return head + b"".join(write(key) + write(value) for key, value in parts[0])
    return head + b"".join(write(item) for item in parts[0])


@given(refunds())
def test_what_is_forwarded_is_what_was_sent_and_what_is_digested(message: Any) -> None:
    arguments = read(body_of(message))
    assert REFUND.FromString(arguments.canonical) == message
    assert read(arguments.canonical) == arguments
    assert dict(read(arguments.canonical).values) == dict(arguments.values)


@given(refunds(), refunds())
def test_requests_are_equal_exactly_when_their_trees_are(one: Any, other: Any) -> None:
    assert (body_of(one) == body_of(other)) == (read(body_of(one)).encoded == read(body_of(other)).encoded)


@given(refunds())
def test_tree_reads_back_by_its_table_alone(message: Any) -> None:
    """So two trees cannot share one encoding, and none begins another."""
    encoded = read(body_of(message)).encoded
    assert write(tree_of(encoded)) == encoded


@given(refunds(), st.sampled_from(sorted(FIELDS)), st.data())
def test_another_value_in_any_field_is_another_digest(message: Any, name: str, data: st.DataObject) -> None:
    changed = REFUND()
    changed.CopyFrom(message)
    changed.ClearField(name)
    changed.MergeFrom(REFUND(**{name: data.draw(FIELDS[name])}))
    assume(changed != message)
    assert read(body_of(changed)).encoded != read(body_of(message)).encoded


@given(refunds(depth=1))
@settings(max_examples=30)
def test_every_single_bit_flipped_is_refused_or_another_digest(message: Any) -> None:
    """Unless only the form changed (a truth value may be any number but 0): then the same bytes go on."""
    body = body_of(message)
    arguments = read(body)
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        result = walk(PLAN, bytes(flipped))
        if isinstance(result, Arguments) and result.encoded == arguments.encoded:
            assert result.canonical == arguments.canonical


@given(refunds(), refunds())
def test_concatenated_requests_are_the_merged_one(one: Any, other: Any) -> None:
    merged = REFUND.FromString(body_of(one) + body_of(other))
    walked = read(body_of(one) + body_of(other))
    assert walked.encoded == read(body_of(merged)).encoded
    assert (walked.encoded == read(body_of(one)).encoded) == (merged == one)


@given(refunds(), st.data())
def test_fields_in_any_order_and_in_parts_are_the_same_call(message: Any, data: st.DataObject) -> None:
    pieces = []
    for descriptor, _ in message.ListFields():
        piece = REFUND()
        piece.CopyFrom(message)
        for other, _ in message.ListFields():
            if other.number != descriptor.number:
                piece.ClearField(other.name)
        pieces.append(body_of(piece))
    shuffled = b"".join(data.draw(st.permutations(pieces)))
    assert read(shuffled) == read(body_of(message))


@given(refunds(), st.integers(26, 2**29 - 1), st.binary(max_size=4))
def test_unknown_field_is_refused_in_any_request(message: Any, number: int, data: bytes) -> None:
    tag, out = number << 3 | 2, bytearray()
    while tag > 0x7F:
        out.append(tag & 0x7F | 0x80)
        tag >>= 7
    unknown = bytes([*out, tag, len(data)]) + data
    result = walk(PLAN, body_of(message) + unknown)
    assert isinstance(result, Refusal)
    assert result.reason is Reason.UNKNOWN_FIELD


@pytest.mark.parametrize("plan", [PLAN, LEGACY], ids=["proto3", "proto2"])
@given(data=st.data())
def test_any_bytes_are_walked_or_refused(plan: Any, data: st.DataObject) -> None:
    """Wire-like bytes, so that many of them parse."""
    field = st.tuples(st.sampled_from(range(1, 200)), st.sampled_from([0, 1, 2, 5]), st.binary(max_size=9))

    def wire(number: int, kind: int, content: bytes) -> bytes:
        tag = number << 3 | kind
        head = bytes([tag & 0x7F | 0x80, tag >> 7]) if tag > 0x7F else bytes([tag])
        sizes = {0: content[:1], 1: content.ljust(8, b"\0")[:8], 5: content.ljust(4, b"\0")[:4]}
        return head + sizes.get(kind, bytes([len(content)]) + content)

    body = b"".join(wire(*part) for part in data.draw(st.lists(field, max_size=6)))
    result = walk(plan, body)
    if isinstance(result, Arguments):
        assert walk(plan, result.canonical) == result
    else:
        assert isinstance(result, Refusal)


# JSON

SCHEMA = compile_schema(
    json.dumps(
        {
            "type": "object",
            "properties": {
                "order": {"type": "string"},
                "note": {"type": ["string", "null"]},
                "ratio": {"type": "number"},
                "minor": {"type": "integer"},
                "urgent": {"type": "boolean"},
                "lines": {"type": "array", "items": {"type": ["integer", "string", "null"]}},
                "nested": {"$ref": "#"},
            },
            "additionalProperties": False,
        }
    )
)
EXACT = st.integers(-(2**53) + 1, 2**53 - 1)
RATIO = st.one_of(EXACT, st.floats(-(2.0**40), 2.0**40).filter(lambda value: value != 0))
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "order": TEXT,
    "note": st.none() | TEXT,
    "ratio": RATIO,
    "minor": EXACT,
    "urgent": st.booleans(),
    "lines": st.lists(EXACT | TEXT | st.none(), max_size=3),
}
OBJECTS = st.recursive(
    st.fixed_dictionaries({}, optional=LEAVES),
    lambda inner: st.fixed_dictionaries({}, optional=LEAVES | {"nested": inner}),
    max_leaves=4,
)


def read_object(body: bytes) -> Arguments:
    arguments = read_json(SCHEMA, body)
    assert isinstance(arguments, Arguments), arguments
    return arguments


@given(OBJECTS, st.booleans(), st.sampled_from([None, 0, 2]))
def test_json_in_any_form_is_one_call(value: Any, ascii_only: bool, indent: int | None) -> None:
    arguments = read_object(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode())
    assert arguments == read_object(rfc8785.dumps(value)) == read_object(arguments.canonical)
    assert arguments.canonical == rfc8785.dumps(value)
    assert json.loads(arguments.canonical) == value == arguments.to_plain()


@given(OBJECTS, OBJECTS)
def test_json_objects_are_equal_exactly_when_their_trees_are(one: Any, other: Any) -> None:
    same = rfc8785.dumps(one) == rfc8785.dumps(other)
    assert same == (read_object(rfc8785.dumps(one)).encoded == read_object(rfc8785.dumps(other)).encoded)


@given(OBJECTS)
def test_json_tree_reads_back_by_its_table_alone(value: Any) -> None:
    encoded = read_object(rfc8785.dumps(value)).encoded
    assert write(tree_of(encoded)) == encoded


@given(OBJECTS)
@settings(max_examples=30)
def test_every_single_bit_of_json_flipped_is_refused_or_another_digest(value: Any) -> None:
    body = rfc8785.dumps(value)
    arguments = read_object(body)
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        result = read_json(SCHEMA, bytes(flipped))
        if isinstance(result, Arguments) and result.encoded == arguments.encoded:
            assert result.canonical == arguments.canonical


@given(st.text(st.sampled_from('{}[]",:0123456789.eE+-ntfu\\ \ud800é"'), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    result = read_json(SCHEMA, text.encode("utf-8", "surrogatepass"))
    assert isinstance(result, Arguments | Refusal)


@given(st.from_regex(r"\A-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?\Z"))
def test_number_is_refused_or_keeps_its_value(token: str) -> None:
    """Exactly for whole numbers; to the nearest double for others, and then not to a whole one."""
    result = read_json(SCHEMA, b'{"ratio":' + token.encode() + b"}")
    if isinstance(result, Refusal):
        assert result.reason is Reason.JSON_STRICT
        return
    value = result.leaf("ratio")
    if isinstance(value, int):
        assert value == Fraction(token)
    else:
        assert value == float(token)
