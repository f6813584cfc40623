"""Who calls, as the transport knows it.

Guaranteed: under mTLS the peer is the one URI SAN of its certificate, if that is a SPIFFE id, and nothing
it sends can change that. Without TLS there is no peer, but under the development setting, which holds for
connections from this machine only and is announced at every start.
"""

from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from licet.identity import parse_spiffe_id
from licet.metadata import DEV_IDENTITY
from sidecar.exchange import Pairs

_URI_SANS: Final = "peer_uri"
"""Not `x509_subject_alternative_name`, where host names and mailboxes stand among the URIs."""

_TLS_VERSION: Final = "ssl_tls_version"
_LOOPBACK: Final = ("ipv4:127.", "ipv6:[::1]", "unix:")


def certified_peer(auth_context: dict[str, Any]) -> str:
    """Return the one SPIFFE id of the peer's certificate; empty when there is none or more than one.

    X.509-SVID 2: exactly one URI SAN; a certificate with two names nobody. A peer below TLS 1.3 is nobody.
    """
    if tuple(auth_context.get(_TLS_VERSION, ())) != (b"TLSv1.3",):
        return ""
    uris = [name.decode("utf-8", "replace") for name in auth_context.get(_URI_SANS, ())]
    return uris[0] if len(uris) == 1 and _is_spiffe_id(uris[0]) else ""


def development_peer(origin: str, pairs: Pairs) -> str:
    """Return the id that a caller on this machine claims; empty for none, several, or one from elsewhere."""
    claims = [value for key, value in pairs if key == DEV_IDENTITY]
    if len(claims) != 1 or not isinstance(claims[0], str) or not is_loopback(origin):
        return ""
    return claims[0] if _is_spiffe_id(claims[0]) else ""


@lru_cache(maxsize=1_024)
def _is_spiffe_id(text: str) -> bool:
    """The same few callers come again and again; what they are called is parsed once."""
    return parse_spiffe_id(text) is not None


@lru_cache(maxsize=1_024)
def is_loopback(origin: str) -> bool:
    """Return whether a gRPC peer string (`ipv4:127.0.0.1:4711`) is of this machine."""
    return unquote(origin).startswith(_LOOPBACK)
