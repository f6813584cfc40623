"""The ways in which a text can be read: as it stands, and with what may hide something taken off.

Each reading is the whole text, or a run of it, after undoing one thing: percent encoding, HTML references,
backslash escapes, quoted-printable, invisible characters and look-alike forms (NFKC), base64, base64url,
base32, hex, gzip and zlib, letters set apart, pieces set apart. Readings are read again, `MAX_DEPTH`
deep; what is wrapped once more is noted as not read. One is undone when the one before it has been read, so
that what a text may be made to hold is bounded by `Bounds`.

Not undone: encryption, ciphers of letters (rot13), reversed text, words of another language, images, and
values divided among several calls.
"""

import base64
import binascii
import html
import quopri
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

MAX_DEPTH: Final = 3
"""How many things are undone one after another."""
MAX_MASKS: Final = 8
"""How many masks (percent encoding, references, escapes, the unseen) are taken off the deepest reading."""
MAX_READINGS: Final = 400
"""How many readings one call has at most."""
MAX_READ_BYTES: Final = 3 << 20
"""How many characters all readings of one call have at most."""
FREE_BYTES: Final = 128 << 10
"""How many characters the readings of even the smallest call may have …"""
TIMES_LARGER: Final = 16
"""… and how many more for each byte of its arguments: a small call cannot cost what a large one does."""
MAX_TRIES_IN_ALL: Final = 40_000
"""How many finds are checked in one call; then a few of each rule in each reading."""
MADE_TIMES: Final = 4
"""How many times the characters that may be read may be unpacked, what is no text or was read before too."""
MAX_INFLATED_BYTES: Final = 256 << 10
"""How much of a compressed run is read, in bytes."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}(?:\s?[\r\n][A-Za-z0-9+/_-]{4,})*={0,2}")
_BASE32: Final = re.compile(r"\b[A-Z2-7]{24,}={0,6}")
_HEX: Final = re.compile(r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ :,-]{0,2}){12,}")
_PERCENT: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_QUOTED: Final = re.compile(r"=[0-9A-Fa-f]{2}")
MIN_QUOTED: Final = 3
_REFERENCE: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});")
_ESCAPE: Final = re.compile(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
_SPACED: Final = re.compile(r"[!-~]([ \t.,\-_/|:;*])(?:[!-~]\1){14,}[!-~]")
_BETWEEN: Final = re.compile(r"[\s\"'`+,\\|()\[\]{}]+")
_LINE_BREAK: Final = re.compile(r"=?[ \t]{0,8}[\r\n][ \t\r\n]{0,64}")
_INVISIBLE: Final = frozenset({"Cf", "Mn", "Cc"})
_LOOK_ALIKE: Final = str.maketrans(
    "аеорсухіјѕАВЕКМНОРСТХІЈЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧо‐‑‒–—−",  # noqa: RUF001 - the attack
    "aeopcyxijsABEKMHOPCTXIJSABEZHIKMNOPTYXo------",
)
"""Cyrillic and Greek letters that look like Latin ones, and dashes, to what they look like."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the check of one call may take: readings, their characters, finds that are checked."""

    readings: int = MAX_READINGS
    characters: int = MAX_READ_BYTES
    tries: int = MAX_TRIES_IN_ALL


AT_ONCE: Final = Bounds(readings=40, characters=16 << 10, tries=200)
"""What may be read on the event loop, about 10 ms; a call that takes more is read again beside it."""


def bounds_of(size: int) -> Bounds:
    """Return what the check of arguments of so many bytes may take."""
    return Bounds(characters=min(MAX_READ_BYTES, FREE_BYTES + TIMES_LARGER * size))


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a text."""

    text: str
    pieces: str = ""
    """Where it was put together from pieces: these, as they stood. Words may have run together in `text`."""
    whole: bool = True
    """False for the beginning of what a compressed run holds."""
    made: int = 0
    """How many bytes were unpacked for it; `text` is empty where they are no text."""

    @property
    def joined(self) -> bool:
        """Whether it was put together from pieces."""
        return bool(self.pieces)


class Readings:
    """All readings of the texts of one call, within its bounds; `cut` says that one was met."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:
        self._left_bytes, self._left = bounds.characters, bounds.readings
        self._left_made = MADE_TIMES * bounds.characters
        self.tries = bounds.tries
        """How many finds may still be checked."""
        self.cut = False
        self.read_bytes = 0
        """How many characters were read so far."""

    def of(self, text: str, pieces: str = "") -> Iterator[Reading]:
        """Yield the readings of a text, itself first, each once."""
        seen: set[tuple[str, bool]] = set()
        making = [iter((Reading(text, pieces),))]
        while making:
            reading = next(making[-1], None)
            if reading is None:
                making.pop()
                continue
            if not self._charged(reading):
                return
            if not reading.text or (reading.text, reading.joined) in seen:
                continue
            if self._left <= 0 or self._left_bytes < len(reading.text):
                self.cut = True
                return
            self._left -= 1
            self._left_bytes -= len(reading.text)
            self.read_bytes += len(reading.text)
            seen.add((reading.text, reading.joined))
            yield reading
            if len(making) <= MAX_DEPTH:
                making.append(_undone(reading))
            elif len(making) == MAX_DEPTH + 1:
                making.append(self._deeper(reading, seen))

    def text_of(self, data: bytes) -> Iterator[str]:
        """Yield the text that bytes of the arguments hold, if they hold one."""
        if self._left_made < 0:
            self.cut = True
            return
        for reading in readable(data):
            if self._charged(reading) and reading.text:
                yield reading.text

    def _charged(self, reading: Reading) -> bool:
        self._left_made -= max(reading.made, len(reading.text))
        self.cut = self.cut or not reading.whole or self._left_made < 0
        return self._left_made >= 0

    def _deeper(self, reading: Reading, seen: AbstractSet[tuple[str, bool]]) -> Iterator[Reading]:
        """Yield the deepest reading without any mask; note what is packed once more than is undone."""
        text = reading.text
        for _ in range(MAX_MASKS):
            changed = next(_unmasked(text), text)
            if changed == text:
                break
            text = changed
        else:
            self.cut = True
        yield Reading(text, reading.pieces)
        for made in _decoded(text):
            if not self._charged(made):
                return
            if made.text and (made.text, False) not in seen:
                self.cut = True
                return


def _undone(reading: Reading) -> Iterator[Reading]:
    text = reading.text
    for changed in _unmasked(text):
        yield Reading(changed, reading.pieces)
    if not reading.joined:
        for squeezed in _squeezed(text):
            if squeezed != text:
                yield Reading(squeezed, text)
    yield from _decoded(text)


def _unmasked(text: str) -> Iterator[str]:
    for undo in (_plain, _percent, _references, _escapes, _quoted):
        changed = undo(text)
        if changed != text:
            yield changed


def _decoded(text: str) -> Iterator[Reading]:
    for pattern, decode in _ENCODED:
        for run in pattern.finditer(text):
            yield from decode(run.group())


def _plain(text: str) -> str:
    """Return `text` in compatibility form, without what is not seen and with Latin for what looks Latin."""
    if text.isascii() and text.isprintable():
        return text
    kept = (
        char
        for char in unicodedata.normalize("NFKC", text)
        if char in "\n\t\r" or unicodedata.category(char) not in _INVISIBLE
    )
    return "".join(kept).translate(_LOOK_ALIKE)


def _percent(text: str) -> str:
    if not _PERCENT.search(text):
        return text
    return unquote_to_bytes(text).decode("utf-8", "replace")


def _references(text: str) -> str:
    return html.unescape(text) if _REFERENCE.search(text) else text


def _quoted(text: str) -> str:
    """Undo quoted-printable (RFC 2045), soft line breaks too, where three signs or more are so written."""
    if "=" not in text or len(_QUOTED.findall(text)) < MIN_QUOTED:
        return text
    return quopri.decodestring(text.encode()).decode("utf-8", "replace")


def _escapes(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        number = int(match[1] or match[2] or match[3], 16)
        return chr(number) if number < 0x110000 else ""

    return _ESCAPE.sub(char, text) if "\\" in text else text


def _squeezed(text: str) -> Iterator[str]:
    """Yield `text` with letters that stand apart, broken lines and separate pieces put together."""
    for run in _SPACED.finditer(text):
        yield run.group().replace(run.group(1), "")
    if "\n" in text or "\r" in text:
        yield _LINE_BREAK.sub("", text)
    yield _BETWEEN.sub("", text)


def readable(data: bytes) -> Iterator[Reading]:
    """Yield the text that bytes hold, empty if they hold none; compressed bytes are inflated first."""
    whole = True
    if data[:2] in {b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda"}:
        inflater = zlib.decompressobj(wbits=47)
        try:
            data = inflater.decompress(data, MAX_INFLATED_BYTES)
        except zlib.error:
            return
        whole = not inflater.unconsumed_tail and not inflater.unused_data.strip(b"\0")
    encoding = "utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8"
    if encoding == "utf-8" and data[1:8:2].count(0) >= 3:
        encoding = "utf-16-le"
    text = data.decode(encoding, "replace")
    shown = sum(char.isprintable() or char.isspace() for char in text) - text.count("\ufffd")
    yield Reading(text if shown >= 0.85 * len(text) else "", whole=whole, made=len(data))


def _from_base64(run: str) -> Iterator[Reading]:
    packed = "".join(run.split()).rstrip("=").replace("-", "+").replace("_", "/")
    whole = packed[: len(packed) // 4 * 4 + (len(packed) % 4 if len(packed) % 4 != 1 else 0)]
    try:
        data = base64.b64decode(whole + "=" * (-len(whole) % 4))
    except binascii.Error:
        return
    yield from readable(data)


def _from_base32(run: str) -> Iterator[Reading]:
    packed = run.rstrip("=")
    try:
        data = base64.b32decode(packed + "=" * (-len(packed) % 8))
    except binascii.Error:
        return
    yield from readable(data)


def _from_hex(run: str) -> Iterator[Reading]:
    digits = re.sub(r"0x|\\x|[ :,-]", "", run)
    yield from readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))


_ENCODED: Final[tuple[tuple[re.Pattern[str], Callable[[str], Iterator[Reading]]], ...]] = (
    (_BASE64, _from_base64),
    (_BASE32, _from_base32),
    (_HEX, _from_hex),
)
