"""HPKE in its base mode (RFC 9180): DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305; nothing else.

Guarantees, of what `open` returned: whoever sealed it knew the recipient's public key, `info` and `aad`, and
not a bit of it was changed. Does not say who sealed it: the base mode authenticates no sender.

A context seals many messages under numbers of its own; a number used twice gives the messages away, so the
caller counts. The ephemeral key is an argument: nothing here is random.
"""

import hmac
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from nacl.bindings import (
    crypto_aead_chacha20poly1305_ietf_decrypt,
    crypto_aead_chacha20poly1305_ietf_encrypt,
    crypto_scalarmult,
    crypto_scalarmult_base,
)
from nacl.exceptions import CryptoError

KEY_BYTES: Final = 32
"""Length of X25519 keys, of `enc` and of the context's own key."""
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
MAX_NUMBER: Final = (1 << 32) - 1
"""The last message of one context; the RFC would allow 2^96."""

_KEM: Final = b"KEM\x00\x20"
_SUITE: Final = b"HPKE\x00\x20\x00\x01\x00\x03"
_BASE_MODE: Final = b"\x00"


@dataclass(frozen=True, slots=True)
class Context:
    """What both sides hold once the key is agreed. Never prints its secrets."""

    key: bytes = field(repr=False)
    base_nonce: bytes = field(repr=False)

    def seal(self, number: int, aad: bytes, plaintext: bytes) -> bytes:
        """Return message `number`, sealed. Raises ValueError on a number outside 0 to MAX_NUMBER."""
        nonce = self._nonce(number)
        return bytes(crypto_aead_chacha20poly1305_ietf_encrypt(plaintext, aad, nonce, self.key))

    def open(self, number: int, aad: bytes, ciphertext: bytes) -> bytes | None:
        """Return the plaintext of message `number`; None for anything that was not sealed as just this."""
        if len(ciphertext) < TAG_BYTES:
            return None
        nonce = self._nonce(number)
        try:
            return bytes(crypto_aead_chacha20poly1305_ietf_decrypt(ciphertext, aad, nonce, self.key))
        except CryptoError:
            return None

    def _nonce(self, number: int) -> bytes:
        if not 0 <= number <= MAX_NUMBER:
            raise ValueError(f"`{number}` is no message number of a context")
        mask = number.to_bytes(NONCE_BYTES, "big")
        return bytes(one ^ other for one, other in zip(self.base_nonce, mask, strict=True))


def public_of(secret: bytes) -> bytes:
    """Return the X25519 public key of 32 secret bytes; they are clamped."""
    return bytes(crypto_scalarmult_base(secret))


def sender(ephemeral: bytes, recipient: bytes, info: bytes) -> tuple[bytes, Context]:
    """Return `enc`, which goes with the messages, and the context they are sealed in.

    Args:
        ephemeral: 32 random bytes, used for this one context and never again.
        recipient: the X25519 public key of who may open.
        info: what both sides know; another gives another context.

    Raises:
        ValueError: `recipient` is a point of small order, with which anybody would know the key, or a
            key is not 32 bytes long.
    """
    agreed = _agree(ephemeral, recipient)
    if agreed is None:
        raise ValueError("an X25519 key of small order agrees with nobody")
    enc = public_of(ephemeral)
    return enc, _context(agreed, enc + recipient, info)


def receiver(secret: bytes, enc: bytes, info: bytes) -> Context | None:
    """Return the context that the owner of `secret` shares with whoever sent `enc`; None at a small order.

    Raises ValueError unless both keys are 32 bytes long.
    """
    agreed = _agree(secret, enc)
    return None if agreed is None else _context(agreed, enc + public_of(secret), info)


def _agree(secret: bytes, public: bytes) -> bytes | None:
    if len(secret) != KEY_BYTES or len(public) != KEY_BYTES:
        raise ValueError(f"an X25519 key has {KEY_BYTES} bytes")
    try:
        return bytes(
            crypto_scalarmult(secret, public)
        )  # libsodium refuses an all-zero result (RFC 7748, 6.1)
    except CryptoError:
        return None


def _context(agreed: bytes, kem_context: bytes, info: bytes) -> Context:
    secret = _labeled_extract(_KEM, b"", b"eae_prk", agreed)
    shared = _labeled_expand(_KEM, secret, b"shared_secret", kem_context, KEY_BYTES)
    psk_id_hash = _labeled_extract(_SUITE, b"", b"psk_id_hash", b"")
    info_hash = _labeled_extract(_SUITE, b"", b"info_hash", info)
    schedule = _BASE_MODE + psk_id_hash + info_hash
    secret = _labeled_extract(_SUITE, shared, b"secret", b"")
    return Context(
        _labeled_expand(_SUITE, secret, b"key", schedule, KEY_BYTES),
        _labeled_expand(_SUITE, secret, b"base_nonce", schedule, NONCE_BYTES),
    )


def _labeled_extract(suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    return hmac.digest(salt or bytes(sha256().digest_size), b"HPKE-v1" + suite + label + ikm, sha256)


def _labeled_expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand of one block: every length here is at most 32."""
    labeled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(secret, labeled + b"\x01", sha256)[:length]
