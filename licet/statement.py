"""Signed statements: verify the received bytes, then parse those same bytes.

Guarantees: what `verify` returns was signed, for this slot, by a key that may sign for this slot, in this
environment, at this time. The payload type is a constant of the slot; `Signed.key_id` is a hint that picks
a key and proves nothing. Does not say whether the key is revoked: licet.revocation does.
"""

from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING

from licet.dsse import PayloadType, SigningKey, pae, signature_fits
from licet.keys import MAX_KEYSET_BYTES, KeyRole, KeySet
from licet.refusal import Reason, Refusal
from licet.strict import canonical, strict_parse
from licet.v1.statement_pb2 import Signed

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "ROLE_OF_SLOT",
    "PayloadType",
    "SigningKey",
    "artifact_sha256",
    "canonical",
    "pae",
    "parse_signed",
    "strict_parse",
    "verify",
]

ROLE_OF_SLOT: "Mapping[PayloadType, KeyRole]" = MappingProxyType(
    {
        PayloadType.PERMIT: KeyRole.DECIDER,
        PayloadType.DECISION: KeyRole.DECIDER,
        PayloadType.REVOCATIONS: KeyRole.DECIDER,
        PayloadType.BEACON: KeyRole.BEACON,
        PayloadType.BUNDLE: KeyRole.BUNDLE,
        PayloadType.CATALOG: KeyRole.CATALOG,
        PayloadType.APPROVAL: KeyRole.APPROVER,
        PayloadType.DELEGATION: KeyRole.DELEGATOR,
        PayloadType.TASK: KeyRole.TASK,
        PayloadType.SPEND: KeyRole.SPEND,
        PayloadType.CHECKPOINT: KeyRole.CHECKPOINT,
    }
)
"""Which role may sign what. KEYSET is missing on purpose: only the root key signs key sets, and it is in
none.
"""


MAX_PAYLOAD_BYTES: "Mapping[PayloadType, int]" = MappingProxyType(
    {
        PayloadType.PERMIT: 4 << 10,
        PayloadType.DECISION: 64 << 10,
        PayloadType.REVOCATIONS: 16 << 20,
        PayloadType.BEACON: 4 << 10,
        PayloadType.BUNDLE: 16 << 20,
        PayloadType.CATALOG: 16 << 20,
        PayloadType.KEYSET: MAX_KEYSET_BYTES,
        PayloadType.APPROVAL: 4 << 10,
        PayloadType.DELEGATION: 64 << 10,
        PayloadType.TASK: 64 << 10,
        PayloadType.SPEND: 64 << 10,
        PayloadType.CHECKPOINT: 4 << 10,
    }
)
"""How large a payload of each slot may be, inclusive; total. Looked at before the signature is."""


def parse_signed(raw: bytes) -> Signed | Refusal:
    """Return the Signed that `raw` spells in its one encoding, else PERMIT_MALFORMED or _UNKNOWN_FIELD."""
    return strict_parse(Signed, raw)


def verify(slot: PayloadType, signed: Signed, keys: KeySet, *, now_ms: int) -> bytes | Refusal:
    """Return the payload if its signature holds for `slot` here and now.

    TOO_LARGE: more bytes than MAX_PAYLOAD_BYTES. KEY_UNKNOWN: no key of this id. KEY_ROLE: a key that may
    not sign this. KEY_SCOPE: a key of another environment, or outside its validity (`not_before_ms`
    inclusive, `not_after_ms` exclusive). SIGNATURE_INVALID: the signature does not fit these bytes and this
    slot, or is not 64 bytes.
    """
    if len(signed.payload) > MAX_PAYLOAD_BYTES[slot]:
        return Refusal(Reason.TOO_LARGE, f"{len(signed.payload)} bytes of {slot}")
    key = keys.keys.get(signed.key_id)
    if key is None:
        return Refusal(Reason.KEY_UNKNOWN, f"no key `{signed.key_id[:128]}` in key set {keys.version}")
    if ROLE_OF_SLOT.get(slot) is not key.role:
        return Refusal(Reason.KEY_ROLE, f"key `{key.key_id}` ({key.role}) may not sign {slot}")
    if key.environment != keys.environment:
        return Refusal(Reason.KEY_SCOPE, f"key `{key.key_id}` is of environment `{key.environment}`")
    if not key.not_before_ms <= now_ms < key.not_after_ms:
        return Refusal(Reason.KEY_SCOPE, f"key `{key.key_id}` is outside its validity")
    if not signature_fits(slot, signed, key.public_key):
        return Refusal(Reason.SIGNATURE_INVALID, f"not signed by key `{key.key_id}` as {slot}")
    return signed.payload


def artifact_sha256(signed: Signed) -> bytes:
    """Return the SHA-256 of the serialised Signed: the name an artifact is stored and announced under."""
    return sha256(canonical(signed)).digest()
