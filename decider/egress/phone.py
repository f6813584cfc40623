"""Telephone numbers, by phonenumbers: valid in their numbering plan, not only alike in shape."""

import re
from typing import Final

import phonenumbers

from decider.egress.rulebook import Kind

REGIONS: Final = ("US", "GB", "DE", "FR", "IN", "JP", "PH", "TR")
"""In whose plans a number without a country code is looked up."""
MAX_NUMBERS: Final = 200
"""How many numbers of one text are looked up."""

_NUMBER: Final = re.compile(r"(?<![\w.])[+(]?[0-9][0-9 ()./-]{6,20}[0-9](?!\w)|[0-9]{3}-[0-9]{3}-[0-9]{4}")
_WORDS: Final = re.compile(
    r"phone|mobile|cell|tel\b|telefon|telepono|handy|whatsapp|call me|sms|fax|cep no|number is", re.IGNORECASE
)


def phones(text: str, path: str) -> tuple[Kind | None, bool]:
    """Return PERSONAL for an international number, or one with a word for it near; else POSSIBLE.

    Also returns whether all numbers were looked up.
    """
    best: Kind | None = None
    for tried, match in enumerate(_NUMBER.finditer(text)):
        if tried == MAX_NUMBERS:
            return best, False
        found = match.group()
        if found.startswith("+"):
            if _valid(found, None):
                return Kind.PERSONAL, True
        elif any(_valid(found, region) for region in REGIONS):
            if _WORDS.search(text) or _WORDS.search(path):
                return Kind.PERSONAL, True
            best = Kind.POSSIBLE
    return best, True


def _valid(found: str, region: str | None) -> bool:
    try:
        number = phonenumbers.parse(found, region)
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(number)
