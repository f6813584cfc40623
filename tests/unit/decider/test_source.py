"""YAML as people write it: read strictly, every fault with file, line and field."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decider.source import SourceError, parse

GOOD = "name: finance\ncount: 3\nopen: true\nlist: [a, b]\n"


def read(text: str) -> tuple[str, int, bool, tuple[str, ...]]:
    top, faults = parse(text, "t.yaml")
    read = (
        top.text("name"),
        top.integer("count", low=0, high=9),
        top.flag("open", default=False),
        top.texts("list"),
    )
    top.close()
    faults.raise_any()
    return read


def test_lawful_source_is_read() -> None:
    assert read(GOOD) == ("finance", 3, True, ("a", "b"))


@pytest.mark.parametrize(
    ("text", "line", "field", "why"),
    [
        (GOOD + "name: other\n", 5, "name", "given twice"),
        (GOOD + "colour: red\n", 5, "colour", "unknown field"),
        (GOOD.replace("3", "three"), 2, "count", "must be an integer"),
        (GOOD.replace("3", "3.5"), 2, "count", "is a float"),
        (GOOD.replace("3", ".nan"), 2, "count", "is a float"),
        (GOOD.replace("3", ".inf"), 2, "count", "is a float"),
        (GOOD.replace("3", "1e3"), 2, "count", "is a float"),
        (GOOD.replace("3", "-1"), 2, "count", "must be from 0 to 9"),
        (GOOD.replace("3", "99999999999999999999"), 2, "count", "must be an integer"),
        (GOOD.replace("3", "0x3"), 2, "count", "must be an integer"),
        (GOOD.replace("3", "1_0"), 2, "count", "must be an integer"),
        (GOOD.replace("3", "null"), 2, "count", "must not be null"),
        (GOOD.replace("3", ""), 2, "count", "must not be null"),
        (GOOD.replace("3", "true"), 2, "count", "must be an integer"),
        (GOOD.replace("true", "yes"), 3, "open", "must be true or false"),
        (GOOD.replace("true", "1"), 3, "open", "must be true or false"),
        (GOOD.replace("finance", "7"), 1, "name", "must be text"),
        (GOOD.replace("finance", "~"), 1, "name", "must not be null"),
        (GOOD.replace("finance", "{a: b}"), 1, "name", "single value"),
        (GOOD.replace("[a, b]", "a"), 4, "list", "must be a list"),
        (GOOD.replace("[a, b]", "[a, 1]"), 4, "list[1]", "must be text"),
        (GOOD.replace("name: finance\n", ""), 1, "name", "is required"),
        ("a: &x 1\nb: *x\n", 1, "", "anchors and aliases"),
        ("a: !!python/name:os.system x\n", 1, "", "tags"),
        ("- a\n", 1, "", "must be a mapping"),
        ("", 0, "", "is empty"),
        ("a: b\n---\nc: d\n", 2, "", "is not YAML"),
        ("a: [\n", 2, "", "is not YAML"),
        ("a: b\n\tc: d\n", 2, "", "is not YAML"),
        ("a: \x00\n", 0, "", "is not YAML"),
        (GOOD.replace("finance", '"\\ud83d"'), 1, "name", "half a character"),
        (GOOD.replace("finance", '"\\ud83d\\ude00"'), 1, "name", "half a character"),
        (GOOD.replace("b]", '"\\udc00"]'), 4, "list[1]", "half a character"),
        (GOOD + '"\\ud83d": 1\n', 5, "", "half a character"),
    ],
)
def test_bad_source_names_file_line_and_field(text: str, line: int, field: str, why: str) -> None:
    with pytest.raises(SourceError) as error:
        read(text)
    assert any(
        fault.file == "t.yaml" and fault.line == line and fault.field == field and why in fault.message
        for fault in error.value.faults
    ), str(error.value)


JSON = '{"name": "finance",\n "count": 3,\n "open": true,\n "list": ["a", "b"]}\n'


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "why"),
    [
        ('"open"', '"name": "other",\n "open"', 3, "name", "given twice"),
        ('"open"', '"colour": "red",\n "open"', 3, "colour", "unknown field"),
        ("3", '"3"', 2, "count", "must be an integer"),
        ("3", "3.0", 2, "count", "is a float"),
        ("3", "NaN", 2, "count", "must be an integer"),
        ("3", "1e400", 2, "count", "is a float"),
        ("3", "null", 2, "count", "must not be null"),
        ("3", "[3]", 2, "count", "single value"),
        ("true", '"true"', 3, "open", "must be true or false"),
        ('"b"', "1", 4, "list[1]", "must be text"),
        ('"finance"', '"\\ud800"', 1, "name", "half a character"),
        (' "list"', '\t"list"', 4, "", "is not YAML"),
    ],
)
def test_json_is_read_as_strictly(old: str, new: str, line: int, field: str, why: str) -> None:
    assert read(JSON) == read(GOOD)
    with pytest.raises(SourceError) as error:
        read(JSON.replace(old, new, 1))
    assert any(
        (fault.line, fault.field) == (line, field) and why in fault.message for fault in error.value.faults
    ), str(error.value)


def test_all_faults_come_at_once() -> None:
    with pytest.raises(SourceError) as error:
        read("name: 1\ncount: x\nopen: perhaps\nlist: 5\nmore: 1\n")
    assert len(error.value.faults) == 5


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_source_error(text: str) -> None:
    with contextlib.suppress(SourceError):
        parse(text, "t.yaml")
