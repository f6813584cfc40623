"""An OpenID Connect issuer for tests: honest tokens, and some that no issuer should make."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER = "https://login.example.com"
AUDIENCE = "licet"
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
KEYS: dict[str, tuple[str, Any]] = {"r": ("RS256", RSA_KEY), "e": ("ES256", EC_KEY), "d": ("EdDSA", ED_KEY)}


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int, size: int) -> str:
    return b64(value.to_bytes(size, "big"))


def jwk(key_id: str, key: Any = None) -> dict[str, Any]:
    key = KEYS[key_id][1] if key is None else key
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.public_key().public_numbers()
        return {"kty": "RSA", "kid": key_id, "n": number(numbers.n, key.key_size // 8), "e": "AQAB"}
    if isinstance(key, ec.EllipticCurvePrivateKey):
        point = key.public_key().public_numbers()
        return {
            "kty": "EC",
            "crv": "P-256",
            "kid": key_id,
            "x": number(point.x, 32),
            "y": number(point.y, 32),
        }
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "kid": key_id, "x": b64(raw)}


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys) or [jwk("r"), jwk("e"), jwk("d")]}).encode()


def claims(now_s: int | None = None, **changes: Any) -> dict[str, Any]:
    now = int(time.time()) if now_s is None else now_s
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ana@t1.example.com", "iat": now, "exp": now + 600}
    return {key: value for key, value in (made | changes).items() if value is not None}


def signature(algorithm: str, key: Any, data: bytes) -> bytes:
    match algorithm:
        case "RS256":
            return bytes(key.sign(data, padding.PKCS1v15(), hashes.SHA256()))
        case "ES256":
            r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        case "HS256":
            return hmac.new(key, data, hashlib.sha256).digest()
        case "none":
            return b""
        case _:
            return bytes(key.sign(data))


def token(
    key_id: str = "r",
    said: dict[str, Any] | str | None = None,
    *,
    algorithm: str = "",
    key: Any = None,
    **header: Any,
) -> str:
    """A signed token; `said` are its claims, or their exact JSON."""
    known_algorithm, known_key = KEYS.get(key_id, ("RS256", RSA_KEY))
    algorithm = algorithm or known_algorithm
    head = {"alg": algorithm, "typ": "JWT", "kid": key_id} | header
    head = {name: value for name, value in head.items() if value is not None}
    body = said if isinstance(said, str) else json.dumps(claims() if said is None else said)
    signed = f"{b64(json.dumps(head).encode())}.{b64(body.encode())}"
    made = signature(algorithm, known_key if key is None else key, signed.encode())
    return f"{signed}.{b64(made)}"
