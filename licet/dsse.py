"""The signature scheme: Ed25519 over DSSE's pre-authentication encoding (DSSE v1.0.2, protocol.md).

Guarantees: a signature made for one payload type is never valid for another; the bytes that are checked are
the bytes that were received. Does not know keys' roles or validity (licet.statement) and parses nothing.
"""

from enum import StrEnum

from nacl.bindings import (
    crypto_core_ed25519_is_valid_point,
    crypto_sign,
    crypto_sign_open,
    crypto_sign_seed_keypair,
)
from nacl.exceptions import BadSignatureError

from licet.v1.statement_pb2 import Signed

SIGNATURE_BYTES = 64
PUBLIC_KEY_BYTES = 32
SEED_BYTES = 32


class PayloadType(StrEnum):
    """What a signature is for. A constant of the slot that verifies; never read from the wire."""

    PERMIT = "application/vnd.licet.permit.v1+protobuf"
    DECISION = "application/vnd.licet.decision.v1+protobuf"
    BEACON = "application/vnd.licet.beacon.v1+protobuf"
    BUNDLE = "application/vnd.licet.bundle.v1+protobuf"
    CATALOG = "application/vnd.licet.catalog.v1+protobuf"
    KEYSET = "application/vnd.licet.keyset.v1+protobuf"
    APPROVAL = "application/vnd.licet.approval.v1+protobuf"
    DELEGATION = "application/vnd.licet.delegation.v1+protobuf"
    TASK = "application/vnd.licet.task.v1+protobuf"
    SPEND = "application/vnd.licet.spend.v1+protobuf"
    CHECKPOINT = "application/vnd.licet.checkpoint.v1+protobuf"
    REVOCATIONS = "application/vnd.licet.revocations.v1+protobuf"


def pae(payload_type: PayloadType, payload: bytes) -> bytes:
    """Return the bytes that are signed: both parts, each with its length in bytes (DSSE v1.0.2)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


class SigningKey:
    """An Ed25519 signing key and the id it is known by. Never prints its secret."""

    __slots__ = ("_secret", "key_id", "public_key")

    def __init__(self, key_id: str, public_key: bytes, secret: bytes) -> None:
        self.key_id = key_id
        self.public_key = public_key
        self._secret = secret

    @classmethod
    def from_seed(cls, key_id: str, seed: bytes) -> "SigningKey":
        """Return the key of a 32-byte seed (RFC 8032, 5.1.5); raises ValueError on another length."""
        if len(seed) != SEED_BYTES:
            raise ValueError(f"the seed of key `{key_id}` must be {SEED_BYTES} bytes, not {len(seed)}")
        public_key, secret = crypto_sign_seed_keypair(seed)
        return cls(key_id, public_key, secret)

    def sign(self, slot: PayloadType, payload: bytes) -> Signed:
        """Return `payload` signed for `slot`. Deterministic: the same bytes give the same signature."""
        signature = crypto_sign(pae(slot, payload), self._secret)[:SIGNATURE_BYTES]
        return Signed(payload=payload, signature=signature, key_id=self.key_id)

    def __repr__(self) -> str:
        return f"SigningKey({self.key_id!r})"


def signature_fits(slot: PayloadType, signed: Signed, public_key: bytes) -> bool:
    """Say whether the signature over the received payload bytes is `public_key`'s for this slot.

    Cofactorless verification by libsodium, which also refuses small-order keys and non-canonical S (RFC 8032,
    5.1.7). A bad signature costs no more than a good one.
    """
    if len(signed.signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signed.signature + pae(slot, signed.payload), public_key)
    except BadSignatureError:
        return False
    return True


def is_strong_public_key(public_key: bytes) -> bool:
    """Say whether this is a key to register: canonical, of prime order, not the identity.

    With a small-order key one signature fits many messages; a mixed-order one makes verifiers disagree.
    """
    return len(public_key) == PUBLIC_KEY_BYTES and crypto_core_ed25519_is_valid_point(public_key)
