"""What makes a text look like a credential and not like a placeholder, a name or a piece of code."""

import base64
import binascii
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

Check = Callable[[tuple[str, ...]], bool]
"""Takes the groups of a match, the value last."""

_VARIABLE: Final = re.compile(
    r"^\$[A-Za-z_\d]|\$\{[A-Za-z_][\w.]*[:}]|\$\{\{|\{\{[^{}]*\}\}|<[^>]*>|^\[[^\]]*\]|^%[A-Za-z(]|%\([a-z]+\)s"
    r"|process\.env|os\.environ|getenv|^\*+$|^\.+$|^x+$|^#+$|\$\([a-z]",
    re.IGNORECASE,
)
_PLACEHOLDER: Final = re.compile(
    r"(?:^|[^a-z])(?:your|my|the|some|fake|dummy|sample|example|placeholder|changeme|change[_-]me|redacted|todo"
    r"|null|none|undefined|true|false|string|token|password|username|secret)(?:[^a-z]|$)|x{5,}|\*{4,}|\.{4,}",
    re.IGNORECASE,
)
_DOCUMENTED: Final = re.compile(
    r"(?i)example|placeholder|changeme|redacted|dummy|sample|insert|your[_-]|x{5,}|0?123456789|abcdefgh|deadbeef"
)
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PLAIN_WORDS: Final = frozenset(
    {"password", "passwd", "pass", "pwd", "token", "secret", "user", "username", "apikey", "key", "api_key"}
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS: Final = frozenset(
    {
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "secrete",
        "secrets",
        "token",
        "apikey",
        "credential",
    }
    | {"credentials", "auth", "pass", "pw"}
)
_KEY_KINDS: Final = frozenset(
    {"api", "access", "private", "secret", "auth", "encryption", "signing", "license"}
)
_NOT_SECRET: Final = frozenset({"csrf", "xsrf", "public", "page", "next", "cursor", "continuation", "sync"})
_COUNTING: Final = re.compile(r"(?i)0?123456789(?:0|abc)|abcdefghijk")
"""What people type where a key would stand."""
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CODE: Final = re.compile(r"^[A-Za-z_][\w.]*(?:\(|\[|$)|^[\w./-]+\.[a-z]{2,4}$")
_KEBAB: Final = re.compile(r"^(?:[a-z]{2,}[0-9]{0,3}|[0-9]+)(?:[-_.](?:[a-z]{2,}[0-9]{0,3}|[0-9]+))+$")
_COMPOUND: Final = re.compile(r"(?:[A-Za-z]+|[0-9]+)(?:[-_./](?:[A-Za-z]+|[0-9]+))+$")
"""`SHA-256-hashed`, `2031-03-04`: words and numbers joined."""
_MIN_ENTROPY: Final = 3.0
_MIN_LENGTH: Final = 8
_MAX_LENGTH: Final = 4_096
_HEADER_WORDS: Final = frozenset({"basic", "bearer", "token", "apikey", "digest"})


def entropy(text: str) -> float:
    """Return the Shannon entropy of a text in bits a character."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values()) if text else 0.0


def repeated(value: str) -> bool:
    """Say whether a value is a placeholder made of one repeated character, as documentation writes it."""
    body = re.sub(r"[^A-Za-z0-9]", "", value)
    longest = max((len(run.group()) for run in re.finditer(r"(.)\1*", body)), default=0)
    return longest >= max(6, 0.4 * len(body)) and bool(re.search(r"[xX]{6,}|0{8,}|1{8,}|\*{6,}", value))


def not_placeholder(groups: tuple[str, ...]) -> bool:
    """Say whether a value stands for itself and not for one to be put in."""
    value = groups[-1]
    return not _VARIABLE.search(value) and not repeated(value)


def _no_example_suffix(groups: tuple[str, ...]) -> bool:
    return (not groups[-1].endswith("EXAMPLE") and len(set(groups[-1][4:])) > 1) or groups[-1][4:] == "Z" * 16


def _mixed_letters(groups: tuple[str, ...]) -> bool:
    """Words of code are long runs of one case; a token changes case all the time."""
    body = groups[-1].rpartition("_")[2]
    changes = sum(a.isupper() != b.isupper() for a, b in itertools.pairwise(body))
    return changes >= len(body) // 4


def _varied(groups: tuple[str, ...]) -> bool:
    return max(len(run.group()) for run in re.finditer(r"(.)\1*", groups[-1])) < 6


def _not_word(groups: tuple[str, ...]) -> bool:
    return any(char.isdigit() for char in groups[-1][3:])


def _jwt(groups: tuple[str, ...]) -> bool:
    """A token's first part is a JSON object that names an algorithm; two words that begin alike are not."""
    head = groups[0].partition(".")[0]
    try:
        data = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return False
    return isinstance(data, dict)


def _user_password(groups: tuple[str, ...]) -> bool:
    user, _, password = groups[-1].partition(":")
    password = password.strip("\"'")
    if not password or _VARIABLE.search(user) or not not_placeholder((password,)):
        return False
    return password.lower() not in _PLAIN_WORDS and not password.endswith(">")


def _credential_value(groups: tuple[str, ...]) -> bool:
    value = groups[-1]
    if not not_placeholder(groups) or _PLACEHOLDER.search(value) or value.lower() in _HEADER_WORDS:
        return False
    return any(not char.isalpha() for char in value) or len(value) >= 16


def _assigned(groups: tuple[str, ...]) -> bool:
    """A name that ends in a word for a secret, and a value that is neither a name nor a placeholder."""
    name, value = groups[0], groups[-1]
    return secret_name(name) and credential(value)


def _told(groups: tuple[str, ...]) -> bool:
    """What a sentence says a password is: no word of the language, no place, nothing that words make up."""
    value = groups[-1].rstrip(".,;:!?)")
    if "://" in value or re.search(r"@[\w-]+\.\w", value) or _COMPOUND.match(value):
        return False
    return credential(value) and bool(re.search(r"[0-9!@#$%^&*+=~?]", value))


def _issued(groups: tuple[str, ...]) -> bool:
    """Nothing that documentation writes in place of a key, and no alphabet."""
    return not_placeholder(groups) and not _DOCUMENTED.search(groups[-1])


def _issued_digits(groups: tuple[str, ...]) -> bool:
    """Words of code joined by underscores hold no two digits."""
    return _issued(groups) and sum(char.isdigit() for char in groups[-1]) >= 2


def _wif(groups: tuple[str, ...]) -> bool:
    """A private key of Bitcoin, by its four bytes of check sum (Base58Check)."""
    number = 0
    for char in groups[-1]:
        number = number * 58 + _BASE58.index(char)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return data[:1] == b"\x80" and sha256(sha256(data[:-4]).digest()).digest()[:4] == data[-4:]


def _stellar(groups: tuple[str, ...]) -> bool:
    """A secret seed of Stellar, by its CRC16-XModem."""
    data = base64.b32decode(groups[-1])
    return data[0] == 18 << 3 and binascii.crc_hqx(data[:-2], 0) == int.from_bytes(data[-2:], "little")


def secret_name(name: str) -> bool:
    """Say whether a field so named holds a secret: `db_password`, `apiKey`; not `passwordFile`, `tokenId`."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or not _NOT_SECRET.isdisjoint(words):
        return False
    if words[-2:] == ["key", "base"]:
        words.pop()  # Rails' `secret_key_base`
    last = words[-1]
    if last in _SECRET_WORDS or last.endswith(("password", "passwd", "apikey")):
        return True
    return last == "key" and len(words) > 1 and words[-2] in _KEY_KINDS


def credential(value: str) -> bool:
    """Say whether a value is long, varied and mixed enough to be a credential."""
    value = value.strip().rstrip(";,")
    if "(" not in value:
        value = value.rstrip(")")  # `if (password !== again)` compares; `(key: s3cret…)` is in brackets
    if (
        not _MIN_LENGTH <= len(value) <= _MAX_LENGTH
        or not not_placeholder((value,))
        or _PLACEHOLDER.search(value)
    ):
        return False
    if _COUNTING.search(value):
        return False
    if value.lower() in _PLAIN_WORDS or _UUID.fullmatch(value) or _KEBAB.match(value):
        return False
    if entropy(value) < _MIN_ENTROPY:
        return False
    kinds = sum(bool(re.search(kind, value)) for kind in ("[a-z]", "[A-Z]", "[0-9]", r"[^\w\s]"))
    if _CODE.match(value) and not (kinds >= 3 or (kinds == 2 and len(value) >= 16 and "-" not in value)):
        return False
    return kinds >= 2 and bool(re.search("[A-Za-z0-9]", value))


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "assigned": _assigned,
        "credential_value": _credential_value,
        "issued": _issued,
        "issued_digits": _issued_digits,
        "jwt": _jwt,
        "mixed_letters": _mixed_letters,
        "no_example_suffix": _no_example_suffix,
        "not_placeholder": not_placeholder,
        "not_word": _not_word,
        "stellar": _stellar,
        "told": _told,
        "user_password": _user_password,
        "varied": _varied,
        "wif": _wif,
    }
)
"""Every check by the name that the rule file uses."""
