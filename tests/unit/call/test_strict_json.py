"""JSON that two parsers could read in two ways is refused; what is left has one tree and one form."""

import base64
from typing import Any

import pytest

from licet.call import MAX_DEPTH, MAX_NODES, MAX_REQUEST_BYTES, Arguments, Schema, compile_schema, read_json
from licet.call.json_text import MAX_NUMBER_CHARACTERS, parse_json, read_json_text
from licet.call.stop import Stop
from licet.refusal import Reason, Refusal

SCHEMA = """{
  "type": "object",
  "properties": {
    "order_id": {"type": "string", "maxLength": 20},
    "amount_minor": {"type": "integer", "minimum": 1},
    "ratio": {"type": "number"},
    "urgent": {"type": "boolean"},
    "note": {"type": ["string", "null"]},
    "blob": {"type": "string"},
    "lines": {"type": "array", "items": {"type": "integer"}},
    "nested": {"$ref": "#"},
    "lists": {"$ref": "#/$defs/lists"}
  },
  "$defs": {"lists": {"type": "array", "items": {"$ref": "#/$defs/lists"}}},
  "required": [],
  "additionalProperties": false
}"""


@pytest.fixture(scope="module")
def schema() -> Schema:
    return compile_schema(SCHEMA)


def read(schema: Any, body: bytes) -> Arguments:
    arguments = read_json(schema, body)
    assert isinstance(arguments, Arguments), arguments
    return arguments


def reason(schema: Any, body: bytes) -> Reason:
    refusal = read_json(schema, body)
    assert isinstance(refusal, Refusal), refusal
    return refusal.reason


def test_lawful_arguments_give_values_tree_and_rfc_8785_bytes(schema: Schema) -> None:
    arguments = read(schema, b' {"order_id": "O1", "amount_minor": 5000, "note": null, "lines": [1, 2]} ')
    assert arguments.canonical == b'{"amount_minor":5000,"lines":[1,2],"note":null,"order_id":"O1"}'
    assert arguments.to_plain() == {"order_id": "O1", "amount_minor": 5000, "note": None, "lines": [1, 2]}
    assert arguments.encoded == (
        b"K\0\0\0\4"
        + (b"S\0\0\0\4note" + b"N")
        + (b"S\0\0\0\5lines" + b"L\0\0\0\2" + b"I" + bytes(7) + b"\1" + b"I" + bytes(7) + b"\2")
        + (b"S\0\0\0\x08order_id" + b"S\0\0\0\2O1")
        + (b"S\0\0\0\x0camount_minor" + b"I" + (5000).to_bytes(8, "big"))
    )


def test_schema_may_be_given_as_text(schema: Schema) -> None:
    assert read_json(SCHEMA, b'{"order_id": "O1"}') == read(schema, b'{"order_id":"O1"}')


PAIRS = {
    "duplicate name": (b'{"order_id":"O1","order_id":"O2"}', b'{"order_id":"O1","blob":"O2"}'),
    "duplicate name, escaped": (b'{"order_id":"O1","order\\u005fid":"O2"}', b'{"order\\u005fid":"O2"}'),
    "duplicate name, nested": (b'{"nested":{"blob":"a","blob":"a"}}', b'{"blob":"a","nested":{"blob":"a"}}'),
    "NaN": (b'{"ratio":NaN}', b'{"ratio":1.5}'),
    "Infinity": (b'{"ratio":Infinity}', b'{"ratio":9007199254740991}'),
    "-Infinity": (b'{"ratio":-Infinity}', b'{"ratio":-9007199254740991}'),
    "2^53": (b'{"amount_minor":9007199254740992}', b'{"amount_minor":9007199254740991}'),
    "2^53 + 1": (b'{"amount_minor":9007199254740993}', b'{"blob":"9007199254740993"}'),
    "-2^53": (b'{"ratio":-9007199254740992}', b'{"ratio":-9007199254740991}'),
    "many digits": (b'{"amount_minor":1' + b"0" * 5000 + b"}", b'{"amount_minor":1000}'),
    "2^53 + 1 with an exponent": (b'{"ratio":9007199254740993e0}', b'{"ratio":9007199254740991e0}'),
    "lone surrogate": (b'{"blob":"\\ud800"}', b'{"blob":"\\ud83d\\ude00"}'),
    "lone low surrogate": (b'{"blob":"\\ude00"}', b'{"blob":"\\ud83d\\ude00"}'),
    "surrogates in the wrong order": (b'{"blob":"\\ude00\\ud83d"}', b'{"blob":"\\ud83d\\ude00"}'),
    "lone surrogate in a name": (b'{"\\ud800":1}', b'{"order\\u005fid":"O1"}'),
    "surrogate in UTF-8": (b'{"blob":"\xed\xa0\x80"}', b'{"blob":"\xed\x9f\xbf"}'),
    "overlong UTF-8": (b'{"blob":"\xc0\x80"}', b'{"blob":"\xc2\x80"}'),
    "invalid UTF-8": (b'{"blob":"\xff"}', b'{"blob":"\xc3\xbf"}'),
    "UTF-16": ('{"blob":"a"}'.encode("utf-16"), b'{"blob":"a"}'),
    "byte order mark": (b'\xef\xbb\xbf{"blob":"a"}', b'{"blob":"a"}'),
    "-0": (b'{"ratio":-0}', b'{"ratio":0}'),
    "-0.0": (b'{"ratio":-0.0}', b'{"ratio":0.0}'),
    "-0e5": (b'{"ratio":-0e5}', b'{"ratio":0e5}'),
    "too small": (b'{"ratio":1e-400}', b'{"ratio":1e-300}'),
    "too large": (b'{"ratio":1e400}', b'{"ratio":1e15}'),
    "digits lost": (b'{"ratio":1.00000000000000000001}', b'{"ratio":1.00000000000000000000}'),
    "long number": (b'{"ratio":0.' + b"1" * 1100 + b"}", b'{"ratio":0.' + b"1" * 1000 + b"}"),
    "batch": (b'[{"order_id":"O1"}]', b'{"order_id":"O1"}'),
    "text at the top": (b'"O1"', b'{"order_id":"O1"}'),
    "null at the top": (b"null", b"{}"),
    "nothing": (b"", b"{}"),
    "trailing garbage": (b'{"order_id":"O1"}x', b'{"order_id":"O1"} \r\n\t'),
    "second object": (b'{"order_id":"O1"}{"order_id":"O2"}', b'{"order_id":"O1"}'),
    "trailing NUL": (b'{"order_id":"O1"}\0', b'{"order_id":"O1"}'),
    "comment": (b'{"order_id":"O1"/**/}', b'{"order_id":"O1/**/"}'),
    "trailing comma": (b'{"order_id":"O1",}', b'{"order_id":"O1"}'),
    "single quotes": (b"{'order_id':'O1'}", b'{"order_id":"\'O1\'"}'),
    "control character in a text": (b'{"blob":"\n"}', b'{"blob":"\\n"}'),
    "unknown escape": (b'{"blob":"\\x41"}', b'{"blob":"\\u0041"}'),
    "leading zero": (b'{"ratio":01}', b'{"ratio":10}'),
    "plus": (b'{"ratio":+1}', b'{"ratio":1e+1}'),
    "hex": (b'{"ratio":0x1}', b'{"ratio":1}'),
    "other digits": ('{"ratio":\u0661}'.encode(), b'{"ratio":1}'),
    "other white space": (b'{"ratio":\xc2\xa01}', b'{"ratio":\t1}'),
    "unfinished text full of escaped quotes": (b'{"blob":"' + b'\\"' * 100_000, b'{"blob":"\\""}'),
}


@pytest.mark.negative(21)
@pytest.mark.parametrize("case", PAIRS)
def test_text_that_could_be_read_in_two_ways_is_refused(schema: Schema, case: str) -> None:
    hostile, lawful = PAIRS[case]
    assert reason(schema, hostile) is Reason.JSON_STRICT
    assert read(schema, lawful)


@pytest.mark.parametrize(
    ("hostile", "lawful"),
    [
        (b'{"amount_minor":1.5}', b'{"amount_minor":1}'),
        (b'{"amount_minor":0}', b'{"amount_minor":1}'),
        (b'{"amount_minor":"1"}', b'{"amount_minor":1}'),
        (b'{"amount_minor":true}', b'{"urgent":true}'),
        (b'{"urgent":1}', b'{"urgent":false}'),
        (b'{"order_id":"123456789012345678901"}', b'{"order_id":"12345678901234567890"}'),
        (b'{"lines":[1.5]}', b'{"lines":[1]}'),
        (b'{"lines":{}}', b'{"lines":[]}'),
        (b'{"note":1}', b'{"note":null}'),
    ],
)
def test_what_the_schema_does_not_ask_for_is_refused(schema: Schema, hostile: bytes, lawful: bytes) -> None:
    assert reason(schema, hostile) is Reason.ARGUMENTS_MALFORMED
    assert read(schema, lawful)


@pytest.mark.negative(17)
@pytest.mark.parametrize("body", [b'{"_meta":{}}', b'{"nested":{"Order_id":"O1"}}', b'{"":1}'])
def test_unnamed_property_is_refused_at_any_depth(schema: Schema, body: bytes) -> None:
    assert reason(schema, body) is Reason.UNKNOWN_FIELD


def test_refusal_says_what_was_wrong(schema: Schema) -> None:
    for body, detail in (
        (b"\xef\xbb\xbf{}", "begins with a byte order mark"),
        (b"[]", "the arguments are no object"),
    ):
        assert read_json(schema, body) == Refusal(Reason.JSON_STRICT, detail)


def test_refusal_names_the_place_and_never_the_value(schema: Schema) -> None:
    refusal = read_json(schema, b'{"nested":{"amount_minor":"4111111111111111"}}')
    assert isinstance(refusal, Refusal)
    assert refusal.detail == "against the schema's `properties/amount_minor/type`"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"ratio":1}', b'{"ratio":1.0}'),
        (b'{"ratio":100}', b'{"ratio":1e2}'),
        (b'{"amount_minor":5}', b'{"amount_minor":50e-1}'),
        (b'{"ratio":0.5}', b'{"ratio":0.50e0}'),
        (b'{"blob":"A/"}', b'{"blob":"\\u0041\\/"}'),
        (b'{"blob":"a","ratio":1}', b'{ "ratio" : 1 , "blob" : "a" }'),
    ],
)
def test_other_form_of_the_same_values_is_the_same_call(schema: Schema, one: bytes, other: bytes) -> None:
    assert read(schema, one) == read(schema, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"{}", b'{"note":null}'),
        (b"{}", b'{"lines":[]}'),
        (b'{"note":null}', b'{"note":""}'),
        (b'{"ratio":0.1}', b'{"ratio":0.10000000000000002}'),
        (b'{"blob":"\\u00e9"}', b'{"blob":"e\\u0301"}'),
        (b'{"lines":[1,2]}', b'{"lines":[2,1]}'),
        (b'{"nested":{}}', b"{}"),
    ],
)
def test_other_values_are_another_call(schema: Schema, one: bytes, other: bytes) -> None:
    assert read(schema, one).encoded != read(schema, other).encoded


def test_text_may_have_as_many_bytes_as_the_limit_and_no_more(schema: Schema) -> None:
    room = MAX_REQUEST_BYTES - len(b'{"blob":""}')
    assert read(schema, b'{"blob":"' + b"a" * room + b'"}')
    assert reason(schema, b'{"blob":"' + b"a" * (room + 1) + b'"}') is Reason.TOO_LARGE
    assert reason(schema, b"[" * (MAX_REQUEST_BYTES + 1)) is Reason.TOO_LARGE  # before it is parsed


def test_text_that_grows_past_the_limit_when_it_is_forwarded_is_refused(schema: Schema) -> None:
    numbers = b'{"lines":[' + b",".join([b"1e15"] * 4_000) + b'],"blob":"'
    room = MAX_REQUEST_BYTES - len(numbers) - 2
    assert reason(schema, numbers + b"a" * room + b'"}') is Reason.TOO_LARGE
    assert read(schema, numbers + b"a" * (room - 12 * 4_000) + b'"}')


@pytest.mark.parametrize(
    ("before", "after", "extra"), [(b'{"nested":', b"}", 1), (b"[", b"]", 0)], ids=["objects", "arrays"]
)
def test_nesting_may_be_as_deep_as_the_limit_and_no_deeper(
    schema: Schema, before: bytes, after: bytes, extra: int
) -> None:
    def nested(depth: int) -> bytes:
        if extra:
            return before * (depth - 1) + b"{}" + after * (depth - 1)
        return b'{"lists":' + before * (depth - 1) + after * (depth - 1) + b"}"

    assert read(schema, nested(MAX_DEPTH))
    assert reason(schema, nested(MAX_DEPTH + 1)) is Reason.ARGUMENTS_MALFORMED
    assert reason(schema, nested(50_000)) is Reason.ARGUMENTS_MALFORMED


def test_depth_is_counted_along_one_path(schema: Schema) -> None:
    beside = b'{"lines":[],"nested":' * (MAX_DEPTH - 1) + b"{}" + b"}" * (MAX_DEPTH - 1)
    assert read(schema, beside)
    deeper = b'{"lines":[],"nested":' * MAX_DEPTH + b"{}" + b"}" * MAX_DEPTH
    assert reason(schema, deeper) is Reason.ARGUMENTS_MALFORMED


def test_text_of_too_many_values_is_refused_before_it_is_parsed() -> None:
    """The text is no JSON, and still its extent is what refuses it."""
    for opened, separator in ((b"[", b",1"), (b"{", b":1")):
        with pytest.raises(Stop, match="values"):
            parse_json(opened + separator * (MAX_NODES + 1))
        with pytest.raises(Stop, match="not JSON"):
            parse_json(opened + separator * MAX_NODES)
    with pytest.raises(Stop, match="values"):
        parse_json(b"[]" * (MAX_NODES + 1))
    with pytest.raises(Stop, match="not JSON"):
        parse_json(b"[]" * MAX_NODES)


def test_many_brackets_in_a_text_or_side_by_side_are_not_deep(schema: Schema) -> None:
    assert read(schema, b'{"blob":"' + b"[{" * 20_000 + b'","lists":[' + b",".join([b"[]"] * 1000) + b"]}")


def test_text_may_have_as_many_values_as_the_limit_and_no_more(schema: Schema) -> None:
    def lines(values: int) -> bytes:
        """The object, the name, the list, and so many numbers less three."""
        return b'{"lines":[' + b",".join([b"1"] * (values - 3)) + b"]}"

    assert read(schema, lines(MAX_NODES))
    assert reason(schema, lines(MAX_NODES + 1)) is Reason.ARGUMENTS_MALFORMED
    assert reason(schema, lines(MAX_NODES + 50)) is Reason.ARGUMENTS_MALFORMED
    names = b",".join(b'"%d":1' % n for n in range(MAX_NODES // 2 + 1))
    assert reason(schema, b"{" + names + b"}") is Reason.ARGUMENTS_MALFORMED
    assert (
        reason(schema, b'{"lists":[' + b",".join([b"[]"] * MAX_NODES) + b"]}") is Reason.ARGUMENTS_MALFORMED
    )


def test_longest_number_is_read(schema: Schema) -> None:
    smallest = b"0." + b"0" * 323 + b"49406564584124654"
    longest = b"0." + b"1" * (MAX_NUMBER_CHARACTERS - 2)
    assert read(schema, b'{"ratio":' + longest + b"}")
    assert reason(schema, b'{"ratio":' + longest + b"1}") is Reason.JSON_STRICT
    assert read(schema, b'{"ratio":' + smallest + b"}").canonical == b'{"ratio":5e-324}'


def test_bytes_travel_as_text(schema: Schema) -> None:
    assert read(schema, b'{"blob":"' + base64.b64encode(b"\xff") + b'"}').leaf("blob") == "/w=="


def test_text_outside_a_call_is_read_as_strictly() -> None:
    """Claims of a token and keys of an issuer have no schema, and are ambiguous in the same ways."""
    assert read_json_text(b'{"sub": "ana", "aud": ["a", null]}') == {"sub": "ana", "aud": ["a", None]}
    for body in (b'{"sub": "ana", "sub": "eve"}', b'{"exp": 1e400}', b"[NaN]", b'"\\ud800"', b"", b"{}{}"):
        refusal = read_json_text(body)
        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.JSON_STRICT
