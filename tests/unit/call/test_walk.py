"""The strict walk refuses what two parsers could understand in two ways, and forgets how it was written."""

import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from licet.call import MAX_DEPTH, MAX_NODES, MAX_REQUEST_BYTES, Arguments, call_digest, compile_plan, walk
from licet.refusal import Reason, Refusal

ITEM = "type.googleapis.com/vectors.v1.Item"
KEY = bytes(32)


def read(plan: Any, body: bytes) -> Arguments:
    arguments = walk(plan, body)
    assert isinstance(arguments, Arguments), arguments
    return arguments


def reason(plan: Any, body: bytes) -> Reason:
    refusal = walk(plan, body)
    assert isinstance(refusal, Refusal), refusal
    assert refusal.step == 10 or refusal.reason is Reason.TOO_LARGE
    return refusal.reason


def digest(plan: Any, body: bytes) -> bytes:
    return call_digest(KEY, 1, "/vectors.v1.Refunds/Refund", bytes(32), read(plan, body).encoded)


@pytest.fixture(scope="module")
def base(wire: Any) -> bytes:
    """O1, 50.00 USD."""
    return wire.data(1, "O1") + wire.data(2, wire.number(1, 50_00) + wire.data(2, "USD"))


def test_lawful_request_gives_values_and_canonical_bytes(samples: Any, base: bytes) -> None:
    arguments = read(samples.refund, base)
    assert arguments.to_plain() == {"order_id": "O1", "amount": {"amount_minor": 5000, "currency": "USD"}}
    assert arguments.canonical == base


def test_empty_request_is_the_message_without_fields(samples: Any) -> None:
    assert read(samples.refund, b"").encoded == b"M\0\0\0\0"


# Unknown fields


@pytest.mark.negative(17)
@pytest.mark.parametrize(
    "where",
    ["top", "nested", "map entry", "map value", "list item", "any", "group", "wrong wire type", "oneof"],
)
def test_unknown_field_is_refused_wherever_it_hides(samples: Any, wire: Any, base: bytes, where: str) -> None:
    """An ignored field could be one that the tool's newer parser obeys."""
    unknown = wire.number(999, 1)
    hidden = {
        "top": unknown,
        "nested": wire.data(2, unknown),
        "map entry": wire.data(5, wire.data(1, "k") + wire.data(2, "v") + unknown),
        "map value": wire.data(7, wire.data(1, "k") + wire.data(2, wire.data(1, "s") + unknown)),
        "list item": wire.data(6, wire.data(1, "s") + unknown),
        "any": wire.data(10, wire.data(1, ITEM) + wire.data(2, wire.data(1, "s") + unknown)),
        "group": wire.group(999, wire.number(1, 1)),
        "wrong wire type": wire.number(1, 7),
        "oneof": wire.data(19, wire.data(1, "s") + unknown),
    }
    assert reason(samples.refund, base + hidden[where]) is Reason.UNKNOWN_FIELD


@pytest.mark.negative(17)
def test_known_fields_in_the_same_places_pass(samples: Any, wire: Any, base: bytes) -> None:
    item = wire.data(1, "s") + wire.number(2, 1)
    body = base + wire.data(5, wire.data(1, "k") + wire.data(2, "v"))
    body += wire.data(7, wire.data(1, "k") + wire.data(2, item)) + wire.data(6, item) + wire.data(19, item)
    body += wire.data(10, wire.data(1, ITEM) + wire.data(2, item))
    assert read(samples.refund, body).to_plain()["parts"] == {"k": {"sku": "s", "quantity": 1}}


@pytest.mark.parametrize("field", ["one", "list", "packed list", "map value"])
def test_unknown_number_of_an_open_enum_is_refused(samples: Any, wire: Any, field: str) -> None:
    bodies = {
        "one": wire.number(8, 9),
        "list": wire.number(9, 9),
        "packed list": wire.data(9, b"\x01\x09"),
        "map value": wire.data(24, wire.number(1, 1) + wire.number(2, 9)),
    }
    assert reason(samples.refund, bodies[field]) is Reason.UNKNOWN_FIELD
    assert read(
        samples.refund, bodies[field].replace(b"\x09", b"\x02") if field != "one" else wire.number(8, 2)
    )


@pytest.mark.parametrize("field", ["one", "map value"])
def test_unknown_number_of_a_closed_enum_is_refused(samples: Any, wire: Any, field: str) -> None:
    """protobuf keeps it among the unknown fields, where no reader sees it."""
    lawful = {"one": wire.number(3, 1), "map value": wire.data(4, wire.data(1, "k") + wire.number(2, 1))}
    hostile = lawful[field][:-1] + b"\x09"
    start = wire.data(1, "id")
    assert reason(samples.legacy, start + hostile) is Reason.UNKNOWN_FIELD
    assert read(samples.legacy, start + lawful[field])


def test_extension_is_refused_though_the_descriptors_know_it(samples: Any, wire: Any) -> None:
    start = wire.data(1, "id")
    assert reason(samples.legacy, start + wire.number(100, 1)) is Reason.UNKNOWN_FIELD
    assert reason(samples.legacy, start + wire.data(7, start + wire.number(100, 1))) is Reason.UNKNOWN_FIELD
    assert read(samples.legacy, start + wire.data(7, start))


@pytest.mark.parametrize(
    "url", ["", "vectors.v1.Item", "evil.example/vectors.v1.Item", "/vectors.v1.Item", ITEM + "x"]
)
def test_unlisted_any_is_refused(samples: Any, wire: Any, url: str) -> None:
    content = wire.data(2, wire.data(1, "s"))
    assert reason(samples.refund, wire.data(10, wire.data(1, url) + content)) is Reason.UNKNOWN_FIELD
    assert read(samples.refund, wire.data(10, wire.data(1, ITEM) + content)).to_plain() == {
        "extra": {"@type": ITEM, "sku": "s"}
    }


def test_nothing_may_stand_in_an_any_unless_listed(samples: Any, wire: Any) -> None:
    plan = compile_plan(samples.descriptors, "vectors.v1.Refund")
    assert reason(plan, wire.data(10, wire.data(1, ITEM))) is Reason.UNKNOWN_FIELD
    assert read(samples.refund, wire.data(10, wire.data(1, ITEM)))


def test_content_of_an_any_that_cannot_be_parsed_is_refused(samples: Any, wire: Any) -> None:
    body = wire.data(10, wire.data(1, ITEM) + wire.data(2, b"\x0a\x7f"))
    assert reason(samples.refund, body) is Reason.ARGUMENTS_MALFORMED


# Values that compare unlike they look


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -0.0])
def test_number_that_compares_unlike_it_looks_is_refused(samples: Any, wire: Any, value: float) -> None:
    assert reason(samples.refund, wire.double(11, value)) is Reason.ARGUMENTS_MALFORMED
    assert reason(samples.refund, wire.single(12, value)) is Reason.ARGUMENTS_MALFORMED


def test_finite_numbers_pass(samples: Any, wire: Any) -> None:
    body = wire.double(11, -1.5) + wire.single(12, 0.1)
    widened = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert read(samples.refund, body).to_plain() == {"ratio": -1.5, "weight": widened}


@pytest.mark.parametrize("text", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3"])
@pytest.mark.parametrize("place", ["text", "map key", "map value"])
@pytest.mark.parametrize("syntax", ["proto3", "proto2"])
def test_invalid_utf8_is_refused(samples: Any, wire: Any, text: bytes, place: str, syntax: str) -> None:
    """proto2 does not check text, and hands out bytes in its place."""
    plan, start, note, labels = (
        (samples.refund, b"", 3, 5) if syntax == "proto3" else (samples.legacy, wire.data(1, "id"), 2, 6)
    )

    def body(text: bytes) -> bytes:
        key, value = (text, b"v") if place == "map key" else (b"k", text)
        entry = wire.data(labels, wire.data(1, key) + wire.data(2, value))
        return start + (wire.data(note, text) if place == "text" else entry)

    assert reason(plan, body(text)) is Reason.ARGUMENTS_MALFORMED
    assert read(plan, body("é".encode()))


def test_missing_required_field_is_refused(samples: Any, wire: Any) -> None:
    assert reason(samples.legacy, b"") is Reason.ARGUMENTS_MALFORMED
    assert reason(samples.legacy, wire.data(1, "id") + wire.data(7, b"")) is Reason.ARGUMENTS_MALFORMED
    assert read(samples.legacy, wire.data(1, ""))


CRASH = """
from pathlib import Path
from licet.call import compile_plan, walk
plan = compile_plan(Path({path!r}).read_bytes(), "vectors.v1.Legacy", ["vectors.v1.Legacy"])
for body in map(bytes.fromhex, {bodies!r}):
    for _ in range(20_000):
        walk(plan, body)
print("alive")
"""


def test_missing_required_field_beside_a_map_does_not_end_the_process() -> None:
    """Found by fuzzing: upb's encoder crashes on it, and any caller could have stopped the door."""
    path = Path(__file__).parents[2] / "vectors" / "protos" / "requests.binpb"
    code = CRASH.format(path=str(path), bodies=["3a003200", "3a02100832003200", "3a0032003200"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n")


@pytest.mark.parametrize("body", [b"\x0a", b"\x0a\x05abc", b"\x00", b"\x0c", b"\xff" * 11, b"\x0b"])
def test_bytes_that_are_no_message_are_refused(samples: Any, body: bytes) -> None:
    assert reason(samples.refund, body) is Reason.ARGUMENTS_MALFORMED


# Limits


def test_request_may_have_as_many_bytes_as_the_limit_and_no_more(samples: Any, wire: Any) -> None:
    head = len(wire.data(13, bytes(MAX_REQUEST_BYTES))) - MAX_REQUEST_BYTES
    assert read(samples.refund, wire.data(13, bytes(MAX_REQUEST_BYTES - head)))
    assert reason(samples.refund, wire.data(13, bytes(MAX_REQUEST_BYTES - head + 1))) is Reason.TOO_LARGE
    assert (
        reason(samples.refund, b"\xff" * (MAX_REQUEST_BYTES + 1)) is Reason.TOO_LARGE
    )  # before it is parsed


def test_request_that_grows_past_the_limit_when_it_is_forwarded_is_refused(samples: Any, wire: Any) -> None:
    """Else the guard, which walks the forwarded bytes, would refuse what the door let through."""
    packed = wire.data(22, b"\x01" * 9_000)  # one byte each; forwarded two bytes and a tag each
    room = MAX_REQUEST_BYTES - len(packed) - 10
    assert reason(samples.refund, packed + wire.data(13, bytes(room))) is Reason.TOO_LARGE
    assert read(samples.refund, packed + wire.data(13, bytes(room - 20_000)))


def test_nesting_may_be_as_deep_as_the_limit_and_no_deeper(samples: Any, wire: Any) -> None:
    assert read(samples.refund, wire.nest(23, MAX_DEPTH - 1))
    assert reason(samples.refund, wire.nest(23, MAX_DEPTH)) is Reason.ARGUMENTS_MALFORMED
    assert reason(samples.refund, wire.nest(23, 5_000)) is Reason.ARGUMENTS_MALFORMED


def test_nesting_goes_on_inside_any(samples: Any, wire: Any) -> None:
    def nested(levels: int) -> bytes:
        body = b""
        for _ in range(levels):
            url = "type.googleapis.com/vectors.v1.Refund"
            body = wire.data(10, wire.data(1, url) + wire.data(2, body))
        return body

    deepest = (MAX_DEPTH - 1) // 2  # an Any and its content are a level each
    assert read(samples.refund, nested(deepest))
    assert reason(samples.refund, nested(deepest + 1)) is Reason.ARGUMENTS_MALFORMED


@pytest.mark.parametrize("kind", ["packed", "items", "map", "any"])
def test_request_may_have_as_many_values_as_the_limit_and_no_more(samples: Any, wire: Any, kind: str) -> None:
    any_item = wire.data(25, wire.data(1, ITEM))

    def body(left: int) -> bytes:
        """A request of `left` values beside the top message."""
        if kind == "packed":
            return wire.data(4, b"\x01" * (left - 1))
        if kind == "items":
            return wire.data(6, b"") * (left - 1)
        if kind == "any":  # an Any and the message in it: two values
            return any_item * ((left - 1) // 2) + wire.number(14, 1) * ((left - 1) % 2)
        entries = (wire.data(20, wire.number(1, n) + wire.number(2, n)) for n in range((left - 1) // 2))
        return b"".join(entries) + wire.number(14, 1) * ((left - 1) % 2)

    assert read(samples.refund, body(MAX_NODES - 1))
    assert reason(samples.refund, body(MAX_NODES)) is Reason.ARGUMENTS_MALFORMED


def test_values_are_counted_before_anything_is_made_of_them(samples: Any, wire: Any) -> None:
    """Half a million messages fit into a request; as Python's objects they take seconds of a slow machine."""
    many = wire.data(6, b"") * (MAX_REQUEST_BYTES // 2)
    tracemalloc.start()
    try:
        assert reason(samples.refund, many) is Reason.ARGUMENTS_MALFORMED
        assert tracemalloc.get_traced_memory()[1] < 8 * MAX_REQUEST_BYTES
    finally:
        tracemalloc.stop()
    assert len(read(samples.refund, wire.data(6, b"") * 1_000).canonical) == 2_000


# How it was written is forgotten


@pytest.mark.negative(16)
def test_appended_message_merges_and_is_another_call(samples: Any, wire: Any, base: bytes) -> None:
    """A reader that looks at the first amount sees 50.00, one that follows the format sees 99.99."""
    merged = base + wire.data(2, wire.number(1, 99_99))
    assert read(samples.refund, merged).leaf("amount.amount_minor") == 99_99
    assert read(samples.refund, merged).leaf("amount.currency") == "USD"
    assert digest(samples.refund, merged) != digest(samples.refund, base)


@pytest.mark.negative(16)
def test_appended_message_with_the_same_amount_is_the_same_call(samples: Any, wire: Any, base: bytes) -> None:
    repeated = base + wire.data(2, wire.number(1, 50_00))
    assert digest(samples.refund, repeated) == digest(samples.refund, base)
    assert read(samples.refund, repeated).canonical == base


def test_last_of_a_oneof_and_last_of_a_map_key_win_and_only_they_are_forwarded(
    samples: Any, wire: Any
) -> None:
    entry = [wire.data(5, wire.data(1, "k") + wire.data(2, value)) for value in ("first", "last")]
    body = wire.data(18, "DE00") + wire.data(19, wire.data(1, "s")) + b"".join(entry)
    arguments = read(samples.refund, body)
    assert arguments.to_plain() == {"labels": {"k": "last"}, "voucher": {"sku": "s"}}
    assert b"first" not in arguments.canonical
    assert b"DE00" not in arguments.canonical


@pytest.mark.negative(18)
@pytest.mark.parametrize("field", ["optional", "message", "any content"])
def test_explicitly_empty_is_another_call_than_absent(
    samples: Any, wire: Any, base: bytes, field: str
) -> None:
    pairs = {
        "optional": (b"", wire.data(3, b"")),
        "message": (b"", wire.data(23, b"")),
        "any content": (
            wire.data(10, wire.data(1, ITEM)),
            wire.data(10, wire.data(1, ITEM) + wire.data(2, wire.number(2, 0))),
        ),
    }
    absent, empty = pairs[field]
    assert digest(samples.refund, base + absent) != digest(samples.refund, base + empty)


@pytest.mark.negative(18)
def test_default_without_presence_is_the_same_call_as_absent(samples: Any, wire: Any, base: bytes) -> None:
    """Where the type cannot tell them apart, neither can the tool."""
    assert digest(samples.refund, base) == digest(samples.refund, base + wire.number(14, 0))
    assert digest(samples.refund, base) == digest(samples.refund, base + wire.data(4, b""))


def test_proto2_default_is_another_call_than_absent(samples: Any, wire: Any) -> None:
    start = wire.data(1, "id")
    assert digest(samples.legacy, start) != digest(samples.legacy, start + wire.number(5, 7))


@pytest.mark.negative(19)
@pytest.mark.parametrize(
    "form", ["overlong tag", "overlong number", "map order", "packed", "unpacked", "order"]
)
def test_other_form_of_the_same_values_is_the_same_call(
    samples: Any, wire: Any, base: bytes, form: str
) -> None:
    entries = [wire.data(5, wire.data(1, key) + wire.data(2, "v")) for key in ("a", "b", "c")]
    lines = wire.data(4, b"\x01\x02")
    forms = {
        "overlong tag": (base, base.replace(b"\x0a\x02O1", b"\x8a\x80\x00\x02O1")),
        "overlong number": (base + wire.number(14, 1), base + b"\x70\x81\x80\x00"),
        "map order": (b"".join(entries), b"".join(reversed(entries))),
        "packed": (wire.number(22, 1) + wire.number(22, 2), wire.data(22, b"\x01\x02")),
        "unpacked": (lines, wire.number(4, 1) + wire.number(4, 2)),
        "order": (base + lines, lines + base),
    }
    plain, other = forms[form]
    assert plain != other
    assert digest(samples.refund, plain) == digest(samples.refund, other)
    assert read(samples.refund, plain).canonical == read(samples.refund, other).canonical


@pytest.mark.negative(19)
def test_other_order_of_a_list_is_another_call(samples: Any, wire: Any) -> None:
    assert digest(samples.refund, wire.data(4, b"\x01\x02")) != digest(
        samples.refund, wire.data(4, b"\x02\x01")
    )


def test_content_of_an_any_is_forwarded_in_our_own_encoding(samples: Any, wire: Any) -> None:
    plain = wire.data(10, wire.data(1, ITEM) + wire.data(2, wire.data(1, "s") + wire.number(2, 1)))
    other = wire.data(10, wire.data(2, wire.number(2, 1) + b"\x8a\x00\x01s") + wire.data(1, ITEM))
    assert read(samples.refund, other).canonical == plain
    assert digest(samples.refund, other) == digest(samples.refund, plain)


def test_content_of_an_any_in_an_any_is_forwarded_in_our_own_encoding(samples: Any, wire: Any) -> None:
    """Else the tool might read a field given twice inside as its first value, where the last was decided."""

    def nested(inner: bytes) -> bytes:
        item = wire.data(10, wire.data(1, ITEM) + wire.data(2, inner))
        return bytes(wire.data(10, wire.data(1, ITEM.replace("Item", "Refund")) + wire.data(2, item)))

    plain = nested(wire.data(1, "s") + wire.number(2, 2))
    twice = nested(wire.number(2, 9) + wire.data(1, "s") + wire.number(2, 2))
    assert read(samples.refund, twice).canonical == read(samples.refund, plain).canonical == plain
    assert digest(samples.refund, twice) == digest(samples.refund, plain)


def test_presence_is_told_apart_from_the_value_in_every_kind_of_field(samples: Any, wire: Any) -> None:
    """One request with all kinds, against the tree by hand."""
    body = wire.number(8, 1) + wire.number(15, 2**64 - 1) + wire.number(16, 1) + wire.data(13, b"\0")
    body += wire.data(21, wire.number(1, 1) + wire.data(2, "y")) + wire.number(14, 1)
    assert read(samples.refund, body).encoded == (
        b"M\0\0\0\6"
        + (b"\0\0\0\x08" + b"E\0\0\0\1")
        + (b"\0\0\0\x0d" + b"Y\0\0\0\1\0")
        + (b"\0\0\0\x0e" + b"B\1")
        + (b"\0\0\0\x0f" + b"U" + b"\xff" * 8)
        + (b"\0\0\0\x10" + b"I" + b"\xff" * 8)  # zigzag 1 is -1
        + (b"\0\0\0\x15" + b"K\0\0\0\1" + b"B\1" + b"S\0\0\0\1y")
    )


def test_features_of_an_edition_are_kept(samples: Any, wire: Any) -> None:
    """Presence, required fields and closed enums are features there, and no longer the file's syntax."""
    plan = compile_plan(samples.descriptors, "vectors.v1.Featured", ["vectors.v1.Item"])
    needed = wire.number(5, 1)
    assert read(plan, needed + wire.number(1, 0)).to_plain() == {"present": 0, "needed": 1}
    assert read(plan, needed + wire.data(4, "")).to_plain() == {"needed": 1}
    assert read(plan, needed + wire.number(3, 1)).to_plain() == {"switch": "SWITCH_ON", "needed": 1}
    assert reason(plan, wire.number(1, 1)) is Reason.ARGUMENTS_MALFORMED
    assert reason(plan, needed + wire.number(3, 2)) is Reason.UNKNOWN_FIELD


def test_content_of_an_any_in_a_map_is_forwarded_in_our_own_encoding(samples: Any, wire: Any) -> None:
    plan = compile_plan(samples.descriptors, "vectors.v1.Featured", ["vectors.v1.Item"])

    def body(content: bytes) -> bytes:
        extra = wire.data(1, ITEM) + wire.data(2, content)
        return wire.data(2, wire.data(1, "k") + wire.data(2, extra)) + wire.number(5, 1)

    plain = body(wire.data(1, "s") + wire.number(2, 1))
    assert read(plan, body(wire.number(2, 1) + wire.data(1, "s"))).canonical == plain
    assert reason(plan, body(wire.number(9, 1))) is Reason.UNKNOWN_FIELD
