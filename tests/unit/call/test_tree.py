"""The tree encoding by hand, letter by letter."""

import struct

import pytest

from licet.call import tree


def test_letters_and_sizes() -> None:
    assert tree.integer(-1) == b"I" + b"\xff" * 8
    assert tree.unsigned(1) == b"U" + bytes(7) + b"\1"
    assert tree.flag(True) + tree.flag(False) == b"B\1B\0"
    assert tree.enum_number(-2) == b"E\xff\xff\xff\xfe"
    assert tree.text("é") == b"S\0\0\0\2\xc3\xa9"
    assert tree.data(b"\0") == b"Y\0\0\0\1\0"
    assert tree.floating(1.5) == b"F" + struct.pack(">d", 1.5)
    assert tree.message_head(2) + tree.field_number(1) == b"M\0\0\0\2\0\0\0\1"
    assert tree.list_head(3) == b"L\0\0\0\3"
    assert tree.any_head("u") == b"A\0\0\0\1u"
    assert tree.NULL == b"N"


def test_map_is_sorted_by_the_encoded_key() -> None:
    """-1 comes after 1: the bytes decide, not the numbers."""
    one, minus_one = tree.integer(1), tree.integer(-1)
    assert tree.mapping({minus_one: b"B\0", one: b"B\1"}) == b"K\0\0\0\2" + one + b"B\1" + minus_one + b"B\0"


def test_no_normalisation() -> None:
    assert tree.text("\u00e9") != tree.text("e\u0301")


@pytest.mark.parametrize(
    ("encode", "value"), [(tree.integer, 2**63), (tree.unsigned, -1), (tree.enum_number, 2**31)]
)
def test_number_that_does_not_fit_is_an_error(encode: object, value: int) -> None:
    assert callable(encode)
    with pytest.raises(struct.error):
        encode(value)
