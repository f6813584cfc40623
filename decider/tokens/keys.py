"""Key sets of issuers (JWKS, RFC 7517), read strictly. Pure: bytes in, keys or an error out.

Guarantees: only signature keys of the algorithms taken here: RSA of at least 2048 bits (RS256), P-256
(ES256), Ed25519 (EdDSA); each may only be used with its own algorithm. Symmetric keys and keys with a
private half are refused with the whole set: a set that shows one has been leaked. Keys of other kinds are
left out, as RFC 7517 (5) wants it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from licet.call import read_json_text
from licet.refusal import Refusal

MAX_JWKS_BYTES: Final = 256 << 10
"""The largest key set, in bytes."""

MAX_KEYS: Final = 64
MAX_KEY_ID: Final = 256
MIN_RSA_BITS: Final = 2048
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "k"})
_ALGORITHMS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {("RSA", ""): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
)
"""The one algorithm of each kind of key."""

ALGORITHMS: Final = frozenset(_ALGORITHMS.values())
"""Every algorithm that can be taken."""


class KeysError(ValueError):
    """A key set cannot be used; `str()` says why, without its contents."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """One public key of an issuer, with the one algorithm it may be used by."""

    key_id: str
    algorithm: str
    key: Any = field(repr=False)


Keys = Mapping[str, TokenKey]


def read_jwks(text: bytes) -> Keys:
    """Return the usable keys of a key set by their id. Raises `KeysError`."""
    if len(text) > MAX_JWKS_BYTES:
        raise KeysError(f"the key set is larger than {MAX_JWKS_BYTES} bytes")
    parsed = read_json_text(text)
    if isinstance(parsed, Refusal):
        raise KeysError(f"the key set cannot be read: {parsed.detail}")
    listed = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise KeysError(f"the key set has no list `keys` of at most {MAX_KEYS}")
    keys: dict[str, TokenKey] = {}
    for entry in listed:
        if not isinstance(entry, dict):
            raise KeysError("the key set lists something that is no key")
        if _PRIVATE & entry.keys():
            raise KeysError("the key set shows a secret: a private or symmetric key")
        key = _key(entry)
        if key is None:
            continue
        if key.key_id in keys:
            raise KeysError("two keys have one id")
        keys[key.key_id] = key
    if not keys:
        raise KeysError("the key set has no key that can be used here")
    return MappingProxyType(keys)


def _key(entry: Mapping[str, Any]) -> TokenKey | None:
    kind, curve, key_id = entry.get("kty"), entry.get("crv", ""), entry.get("kid")
    if not isinstance(kind, str) or not isinstance(curve, str):
        return None
    algorithm = _ALGORITHMS.get((kind, curve))
    if algorithm is None or entry.get("alg", algorithm) != algorithm or entry.get("use", "sig") != "sig":
        return None
    if not isinstance(key_id, str) or not 1 <= len(key_id) <= MAX_KEY_ID:
        return None
    try:
        key = PyJWK(dict(entry), algorithm=algorithm).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        raise KeysError(f"a key of kind {kind[:8]} cannot be read") from None
    if kind == "RSA" and key.key_size < MIN_RSA_BITS:
        raise KeysError(f"an RSA key of less than {MIN_RSA_BITS} bits")
    return TokenKey(key_id, algorithm, key)
