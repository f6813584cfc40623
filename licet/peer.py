"""Who calls, as gRPC's transport knows it: at a door and at a decider alike.

Guaranteed: under mTLS the peer is the one URI SAN of its certificate, if that is a SPIFFE id, TLS is 1.3 and
the certificate has not ended, and nothing the peer sends can change that. Without TLS there is no peer, but
under the development setting, which holds for connections from this machine only and is announced at every
start. Not guaranteed: that an authority above the certificate has not ended since the handshake.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from licet.certificate import ends_at_ms
from licet.identity import parse_spiffe_id
from licet.metadata import DEV_IDENTITY

URI_SANS: Final = "peer_uri"
"""Not `x509_subject_alternative_name`, where host names and mailboxes stand among the URIs."""

TLS_VERSION: Final = "ssl_tls_version"
CERTIFICATE: Final = "x509_pem_cert"

_LOOPBACK: Final = ("ipv4:127.", "ipv6:[::1]", "unix:")


def certified_peer(auth_context: Mapping[str, Iterable[bytes]], *, now_ms: int) -> str:
    """Return the one SPIFFE id of the peer's certificate; empty when there is none or more than one.

    X.509-SVID 2: exactly one URI SAN; a certificate with two names nobody. A peer below TLS 1.3 is nobody.
    A certificate names nobody once it has ended: a handshake that resumes an earlier one asks for no
    certificate, BoringSSL lets it for days, and a connection may stand for long.
    """
    if tuple(auth_context.get(TLS_VERSION, ())) != (b"TLSv1.3",):
        return ""
    uris = [bytes(name).decode("utf-8", "replace") for name in auth_context.get(URI_SANS, ())]
    if len(uris) != 1 or not _is_spiffe_id(uris[0]):
        return ""
    ends = [ends_at_ms(bytes(pem)) for pem in auth_context.get(CERTIFICATE, ())]
    return uris[0] if len(ends) == 1 and ends[0] is not None and now_ms <= ends[0] else ""


def development_peer(origin: str, pairs: Iterable[tuple[str, str | bytes]]) -> str:
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
