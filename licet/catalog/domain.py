"""Which domain an address is of, for addresses that every reader reads alike; all others are of none.

Guaranteed: an address that `domain_of` gives a domain for is printable ASCII, has one host, and no part of it
(user information, backslash, percent sign before the path, trailing dot, number for a host) lets one program
take another host from it than another does. A domain in letters of another script is refused, not converted:
write its `xn--` form, in the catalog and in the call.
"""

import re
from collections.abc import Collection
from typing import Final

DEFAULT_SCHEMES: Final = frozenset({"https"})
"""The schemes that a web address may have where a rule names none."""

_PORTS: Final = {"https": "443", "http": "80", "wss": "443", "ws": "80"}
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST: Final = rf"(?:{_LABEL}\.)+(?:[A-Za-z]|[Xx][Nn]--)(?:[A-Za-z0-9-]{{0,61}}[A-Za-z0-9])"
_WEB: Final = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{{0,20}})://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?"
    r"(?:/[\x21-\x5b\x5d-\x7e]*)?",  # `?` or `#` at once after the host: readers differed (CVE-2016-8624)
    re.ASCII,
)
_MAIL: Final = re.compile(
    rf"[A-Za-z0-9_+=~-]{{1,64}}(?:\.[A-Za-z0-9_+=~-]{{1,64}}){{0,8}}@(?P<host>{_HOST})", re.ASCII
)
_NAMED: Final = re.compile(rf"(?:\*\.)?{_HOST}", re.ASCII)
_MAX_HOST: Final = 253


def domain_of(address: str, schemes: Collection[str] = DEFAULT_SCHEMES) -> str | None:
    """Return the lower-case domain of a web or e-mail address; None where it has none that is certain.

    A web address needs one of `schemes` and takes that scheme's own port at most; a mail address is bare,
    without a name, a list or a comment.
    """
    if "://" in address:
        found = _WEB.fullmatch(address)
        if found is None or found["scheme"].lower() not in schemes:
            return None
        if found["port"] is not None and found["port"] != _PORTS.get(found["scheme"].lower()):
            return None
    else:
        found = _MAIL.fullmatch(address)
    if found is None or len(found["host"]) > _MAX_HOST:
        return None
    return str(found["host"]).lower()


def within(domain: str, named: Collection[str]) -> bool:
    """Tell whether a domain is one of `named`, or lies below one that is named with `*.`."""
    return domain in named or any(
        f"*.{domain[at + 1 :]}" in named for at, letter in enumerate(domain) if letter == "."
    )


def named_domain(text: str) -> bool:
    """Tell whether a catalog may name this: `example.com` or `*.example.com`, lower case, no address."""
    return text == text.lower() and len(text) <= _MAX_HOST and _NAMED.fullmatch(text) is not None
