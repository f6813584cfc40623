"""Texts that look like another text: refused wherever a person or a rule would take one for the other. Pure.

Refused: what is not in Unicode's composed form (NFC), so that an accented letter has one spelling; characters
that nobody sees (format and control characters, bidirectional controls among them), private and unassigned
ones; Latin letters mixed with Cyrillic or Greek ones; and Cyrillic or Greek letters all of which look Latin,
which is how one order number passes for another. Other names in one script are that script's own business.
"""

import unicodedata
from typing import Final

_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
_ALIKE: Final = ("LATIN", "CYRILLIC", "GREEK")
_LINES: Final = frozenset("\n\r\t")
_LOOK_LATIN: Final = frozenset(
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u04ae"
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd"
)
"""Cyrillic and Greek letters that most fonts draw as Latin ones."""


def unseen(text: str, *, lines: bool = False) -> str:
    """Return what of a text nobody sees, as `U+202E`; empty for none. `lines`: it may have several."""
    for letter in text:
        if unicodedata.category(letter) in _UNSEEN and not (lines and letter in _LINES):
            return f"U+{ord(letter):04X}"
    return ""


def printable(text: str) -> str:
    """Return a text for one line of a terminal: what nobody sees, and what would move it, is spelled out."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def misleads(text: str) -> str:
    """Return why an identifier may be taken for another one; empty where it may not."""
    if text.isascii():
        return "" if text.isprintable() else "it has a character that nobody sees"
    found = unseen(text)
    if found:
        return f"it has {found}, which nobody sees"
    if not unicodedata.is_normalized("NFC", text):
        return "it is not in Unicode's composed form"
    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in text if letter.isalpha()}
    mixed = [script.lower() for script in _ALIKE if script in scripts]
    if len(mixed) > 1:
        return f"it mixes {' and '.join(mixed)} letters"
    letters = {letter for letter in text if letter.isalpha()}
    return "all its letters look like Latin ones and are not" if letters and letters <= _LOOK_LATIN else ""
