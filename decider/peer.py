"""Who asks, as the transport knows it.

Guaranteed: under mTLS the peer is the one URI SAN of its certificate, if that is a SPIFFE id, and nothing it
sends can change that. Without TLS there is no peer, but under the development setting, which holds for
connections from this machine only and is announced at every start.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote

from licet.identity import parse_spiffe_id
from licet.metadata import DEV_IDENTITY

_SAN: Final = "x509_subject_alternative_name"
_LOOPBACK: Final = ("ipv4:127.", "ipv6:[::1]", "unix:")


def certified_peer(auth_context: Mapping[str, Iterable[bytes]]) -> str:
    """Return the one SPIFFE id of the peer's certificate; empty for none or more than one (X.509-SVID 2)."""
    names = [bytes(name).decode("utf-8", "replace") for name in auth_context.get(_SAN, ())]
    uris = [name for name in names if "://" in name]
    return uris[0] if len(uris) == 1 and parse_spiffe_id(uris[0]) is not None else ""


def development_peer(origin: str, metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """Return the id that a caller on this machine claims; empty for none, several, or one from elsewhere."""
    claims = [value for key, value in metadata if key == DEV_IDENTITY]
    if len(claims) != 1 or not isinstance(claims[0], str) or not unquote(origin).startswith(_LOOPBACK):
        return ""
    return claims[0] if parse_spiffe_id(claims[0]) is not None else ""
