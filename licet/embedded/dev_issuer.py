"""An issuer of user tokens for development: one key, a key set, the file that a decider believes it by.

Whoever can read its key can be any user. In production users come from your own OpenID Connect issuer.
"""

import base64
import json
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from licet.keyfile import read_secret, write_secret

ISSUER: Final = "https://issuer.licet.local"
AUDIENCE: Final = "licet"
KEY_ID: Final = "dev"
KEY_FILE: Final = "issuer.secret"
ISSUERS_FILE: Final = "issuers.yaml"
JWKS_FILE: Final = "issuer.jwks"
HOUR_S: Final = 3_600


def make_dev_issuer(directory: Path) -> Path:
    """Make what is missing in `directory`; return the issuers file. Raises `KeyFileError`, OSError."""
    key = directory / KEY_FILE
    with suppress(FileExistsError):
        if not key.exists():
            write_secret(key, secrets.token_bytes(32))
    public = SigningKey(read_secret(key)).verify_key.encode()
    jwk = {"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": KEY_ID, "x": _text(public)}
    (directory / JWKS_FILE).write_text(json.dumps({"keys": [jwk]}) + "\n")
    issuers = directory / ISSUERS_FILE
    issuers.write_text(
        f"# Development only: {KEY_FILE} beside this file makes anybody any user.\n"
        f"issuers:\n  {ISSUER}:\n    audience: {AUDIENCE}\n    jwks_file: {JWKS_FILE}\n"
    )
    return issuers


def dev_token(directory: Path, principal: str, *, hours: int = 1, now_s: int | None = None) -> str:
    """Return a token for `principal`. Raises `KeyFileError` where there is no issuer's key."""
    now = int(time.time()) if now_s is None else now_s
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": principal, "iat": now, "exp": now + hours * HOUR_S}
    signed = f"{_json({'alg': 'EdDSA', 'kid': KEY_ID, 'typ': 'JWT'})}.{_json(claims)}"
    signature = SigningKey(read_secret(directory / KEY_FILE)).sign(signed.encode()).signature
    return f"{signed}.{_text(signature)}"


def _json(value: Mapping[str, object]) -> str:
    return _text(json.dumps(value, separators=(",", ":")).encode())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
