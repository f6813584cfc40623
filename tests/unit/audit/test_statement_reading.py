"""A request of ClickHouse's HTTP interface reads the same, however statement and data are divided."""

import pytest

from audit.store.engine import statement

HEAD = b"INSERT INTO events (a, b)"
DATA = b"\x00\xffFORMAT TSV\nSELECT 1"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (HEAD + b" FORMAT Protobuf", DATA),
        (HEAD + b" FORMAT Protobuf\n", DATA),
        (HEAD + b" FORMAT Protobuf;", DATA),
        (HEAD, b"FORMAT Protobuf\n" + DATA),
        (b"", HEAD + b" FORMAT Protobuf\n" + DATA),
        (HEAD + b" FORMAT Protobuf\n" + DATA, b""),
    ],
)
def test_insert_is_its_head_its_format_and_its_data(text: bytes, body: bytes) -> None:
    read = statement(text, body)
    assert (read.sql, read.format) == (HEAD, "Protobuf")
    # A line break of the text's own is one more before the data, as on a server.
    assert read.data == (b"\n" + DATA if text.endswith(b"\n") else DATA)


def test_data_of_an_insert_is_not_copied() -> None:
    assert statement(HEAD + b" FORMAT Protobuf", DATA).data is DATA


def test_values_and_questions_have_no_data_apart() -> None:
    values = statement(HEAD + b" FORMAT VALUES", b"(1, 2)")
    assert (values.sql, values.data) == (HEAD + b" FORMAT VALUES\n(1, 2)", None)
    asked = statement(b"SELECT 1", b"FORMAT CSV")
    assert (asked.sql, asked.data, asked.format) == (b"SELECT 1\nFORMAT CSV", None, "CSV")
