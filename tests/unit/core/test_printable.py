import pytest

from licet.printable import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Gebühr 5 €", "Gebühr 5 €"),
        ("a\n{}\x1b[31m", "a?{}?[31m"),
        ("\u202ea\u2028b", "?a?b"),
        ("12345678901", "1234567890"),
    ],
)
def test_what_is_claimed_moves_no_cursor_and_is_cut(text: str, expected: str) -> None:
    assert printable(text, 10) == expected
