"""When a certificate ends: the one thing of it that gRPC's auth context does not say.

Guaranteed: of a certificate that a handshake has verified, the very end that stands in it (RFC 5280,
4.1.2.5). Nothing is verified here. Of what is no certificate the end is unknown, and whoever asks denies.
"""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from calendar import timegm
from functools import lru_cache
from typing import Final

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")
_TIME: Final = re.compile(rb"(\d{2}|\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})Z")

_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_YEAR_BYTES: Final = {_UTC_TIME: 2, _GENERALIZED_TIME: 4}
_PIVOT: Final = 50
"""UTCTime's two digits: below it 20xx, else 19xx."""


@lru_cache(maxsize=1_024)
def ends_at_ms(pem: bytes) -> int | None:
    """Return the last moment of a certificate's validity, Unix ms, or None for what is no certificate."""
    found = _PEM.search(pem)
    if found is None:
        return None
    try:
        return _not_after_ms(a2b_base64(found[1]))
    except (Base64Error, ValueError, IndexError):
        return None


def _not_after_ms(der: bytes) -> int:
    """Certificate, TBSCertificate: version?, serial, algorithm, issuer, validity (notBefore, notAfter)."""
    _, certificate, _ = _element(der, _SEQUENCE)
    _, rest, _ = _element(certificate, _SEQUENCE)
    if rest[0] == _VERSION:
        _, _, rest = _element(rest)
    for _ in range(3):
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest, _SEQUENCE)
    _, _, after = _element(validity)
    tag, text, _ = _element(after)
    return _moment_ms(tag, text)


def _element(der: bytes, expected: int | None = None) -> tuple[int, bytes, bytes]:
    """Return tag, content and what follows; raises ValueError or IndexError for what is none."""
    tag, length, at = der[0], der[1], 2
    if length >= 0x80:
        at += length & 0x7F
        length = int.from_bytes(der[2:at], "big")
    content = der[at : at + length]
    if len(content) != length or expected not in {None, tag}:
        raise ValueError("no such element")
    return tag, content, der[at + length :]


def _moment_ms(tag: int, text: bytes) -> int:
    found = _TIME.fullmatch(text)
    if found is None or len(found[1]) != _YEAR_BYTES.get(tag):
        raise ValueError("no such time")
    year, month, day, hour, minute, second = map(int, found.groups())
    if tag == _UTC_TIME:
        year += 2000 if year < _PIVOT else 1900
    return timegm((year, month, day, hour, minute, second, 0, 0, 0)) * 1_000
