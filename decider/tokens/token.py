"""Verifies one user token: an OpenID Connect ID or access token in compact form (RFC 7519, 7515). Pure.

Guarantees of `verify_token`: signed by the key that it names, of the issuer that it names, by the one
algorithm of that key, which the issuer may use; for our audience; within its times, with `LEEWAY_S` for
clocks; and with a subject. The algorithm is never taken from the token alone, so neither `none` nor an HMAC
with a public key passes. A key in the header (`jwk`, `jku`, `x5u`) is never looked at. Says nothing about
what the user may do.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError

from decider.tokens.keys import ALGORITHMS, Keys
from licet.call import Json, read_json_text
from licet.refusal import Reason, Refusal

MAX_TOKEN_BYTES: Final = 16 << 10
"""The longest token, in bytes."""

LEEWAY_S: Final = 5
"""How far an issuer's clock may be off, in s."""

MAX_LIFE_S: Final = 24 * 3_600
"""The longest life of a token, from `iat` to `exp`, in s: a session that never ends is no session."""

_COMPACT: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)\Z")
MAX_HEADER: Final = 2_048
MAX_CLAIMS: Final = 12 << 10


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whom to believe about users."""

    name: str
    """`iss`, byte for byte."""
    audience: str
    """What `aud` must be or contain."""
    principal: str = "sub"
    """The claim that names the principal as tasks do."""
    algorithms: frozenset[str] = ALGORITHMS


@dataclass(frozen=True, slots=True)
class User:
    """Who a verified token says it is for."""

    principal: str
    issuer: str


@dataclass(frozen=True, slots=True)
class Unverified:
    """What a token claims before anything of it is verified: enough to find its issuer and key."""

    token: str
    algorithm: str
    key_id: str
    claims: Mapping[str, Any]

    @property
    def issuer(self) -> str:
        """The claimed `iss`; empty where it is no text."""
        name = self.claims.get("iss")
        return name if isinstance(name, str) else ""


def read_token(token: str) -> Unverified | Refusal:
    """Return what a token claims, strictly read; else TOKEN_MALFORMED, _ALGORITHM or _KEY_UNKNOWN."""
    if len(token.encode()) > MAX_TOKEN_BYTES:
        return _malformed(f"it is longer than {MAX_TOKEN_BYTES} bytes")
    compact = _COMPACT.match(token)
    if compact is None or (compact[3] and _decoded(compact[3]) is None):
        return _malformed("it is no compact JWS")
    header, claims = _part(compact[1], MAX_HEADER), _part(compact[2], MAX_CLAIMS)
    if not isinstance(header, dict) or not isinstance(claims, dict):
        faults = [part.detail for part in (header, claims) if isinstance(part, Refusal)]
        return _malformed(faults[0] if faults else "header or claims are no object")
    algorithm, key_id = header.get("alg"), header.get("kid")
    if "crit" in header or "b64" in header:
        return _malformed("it asks for what is not supported")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        return Refusal(Reason.TOKEN_ALGORITHM, "an algorithm that is not taken")
    if not isinstance(key_id, str) or not key_id:
        return Refusal(Reason.TOKEN_KEY_UNKNOWN, "it names no key")
    return Unverified(token, algorithm, key_id, claims)


def _part(segment: str, limit: int) -> Json | Refusal:
    if len(segment) > limit:
        return _malformed("header or claims are too long")
    data = _decoded(segment)
    return _malformed("header or claims are no base64url") if data is None else read_json_text(data)


def _decoded(segment: str) -> bytes | None:
    """Return the bytes that `segment` is the one spelling of."""
    try:
        data = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except binascii.Error:
        return None
    return data if base64.urlsafe_b64encode(data).rstrip(b"=").decode() == segment else None


def verify_token(read: Unverified, issuer: Issuer, keys: Keys, *, now_ms: int) -> User | Refusal:
    """Return whom a token is for, or why it is not believed."""
    if read.issuer != issuer.name:
        return Refusal(Reason.TOKEN_ISSUER, "it is another issuer's")
    key = keys.get(read.key_id)
    if key is None:
        return Refusal(Reason.TOKEN_KEY_UNKNOWN, "its issuer has no such key")
    if read.algorithm != key.algorithm or key.algorithm not in issuer.algorithms:
        return Refusal(Reason.TOKEN_ALGORITHM, "not the algorithm of its key")
    try:
        PyJWS().decode(read.token, key.key, algorithms=[key.algorithm])
    except (PyJWTError, ValueError, TypeError):
        return Refusal(Reason.TOKEN_SIGNATURE, "its signature does not fit")
    return _check_claims(read.claims, issuer, now_ms // 1000)


def _check_claims(claims: Mapping[str, Any], issuer: Issuer, now_s: int) -> User | Refusal:
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if issuer.audience not in audiences:
        return Refusal(Reason.TOKEN_AUDIENCE, "it is for another audience")
    refusal = _check_times(claims, now_s)
    if refusal is not None:
        return refusal
    principal = claims.get(issuer.principal)
    if not isinstance(principal, str) or not principal.strip() or not principal.isprintable():
        return _malformed(f"it has no claim `{issuer.principal}`")
    if issuer.principal == "email" and claims.get("email_verified") is not True:
        return _malformed("its address is not verified")
    return User(principal, issuer.name)


def _check_times(claims: Mapping[str, Any], now_s: int) -> Refusal | None:
    times = {name: claims.get(name) for name in ("exp", "iat", "nbf")}
    if any(isinstance(time, bool) or not isinstance(time, int | float | None) for time in times.values()):
        return _malformed("a time that is no number")
    ends, issued, begins = times["exp"], times["iat"], times["nbf"]
    if ends is None or issued is None:
        return _malformed("it does not say when it was issued and when it ends")
    if now_s >= ends + LEEWAY_S:
        return Refusal(Reason.TOKEN_EXPIRED, f"it ended {now_s - ends:.0f} s ago")
    if issued > now_s + LEEWAY_S or (begins is not None and begins > now_s + LEEWAY_S):
        return Refusal(Reason.TOKEN_NOT_YET_VALID, "it begins later")
    if ends - issued > MAX_LIFE_S:
        return _malformed(f"it lives longer than {MAX_LIFE_S} s")
    return None


def _malformed(detail: str) -> Refusal:
    return Refusal(Reason.TOKEN_MALFORMED, detail)
