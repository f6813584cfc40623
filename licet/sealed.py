"""Sealed payloads: what an event tells nobody but the holder of its tenant's payload key.

`Sealed` is HPKE (licet.hpke) under the tenant's public key. Bound into it: environment, tenant, key id (as
HPKE's `info`) and the event's id (as its associated data), so a payload opens for the one event it was made
for, in the one place, and any other bit refuses. The event in turn names the payload by `payload_ref`, the
SHA-256 of its bytes, and stands in its source's signed chain: neither can be exchanged alone, nor both.

A payload key is an Ed25519 key of role PAYLOAD, owned by the tenant, in the key set that the root signs;
HPKE uses its X25519 form. So whom payloads are sealed for is the root's word, and its secret is a key file
like every other.

Pure: ephemeral key and message number are arguments. Not here: where the bytes are kept, and for how long.
Destroying the private key makes every payload under it unreadable, wherever copies lie.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, Literal

from nacl.bindings import (
    crypto_sign_ed25519_pk_to_curve25519,
    crypto_sign_ed25519_sk_to_curve25519,
    crypto_sign_seed_keypair,
)
from nacl.exceptions import CryptoError

from licet.hpke import KEY_BYTES, TAG_BYTES, Context, receiver, sender
from licet.keys import MAX_KEY_ID_BYTES, KeyRole, KeySet, PublicKey
from licet.refusal import Refusal
from licet.revocation import NONE, RevocationKind, Revocations
from licet.strict import canonical, strict_parse
from licet.v1.payload_pb2 import DecisionInput, Sealed

SEALED_VERSION: Final = 1
"""The one version that is written and opened; another suite would be another version."""

INPUT_VERSION: Final = 1
"""Version of the message DecisionInput."""

MAX_SEALED_BYTES: Final = 448 << 10
"""How large sealed bytes may be; what carries them takes 512 KiB."""

MAX_PLAINTEXT_BYTES: Final = MAX_SEALED_BYTES - 1024
"""How large a payload may be before it is sealed: room for key id, `enc`, tag and framing."""

_GIVES_WAY: Final[tuple[Literal["request", "rule_input"], ...]] = ("request", "rule_input")
_INFO: Final = b"licet-payload-v1\0"
_AAD: Final = b"licet-payload-event-v1\0"


class Fault(StrEnum):
    """Why sealed bytes cannot be opened: a closed list."""

    TOO_LARGE = "TOO_LARGE"
    MALFORMED = "MALFORMED"
    VERSION_UNKNOWN = "VERSION_UNKNOWN"
    KEY_MISSING = "KEY_MISSING"
    NOT_OPENED = "NOT_OPENED"


@dataclass(frozen=True, slots=True)
class Unopened:
    """Why a payload stays closed. `detail` holds nothing of it."""

    fault: Fault
    detail: str

    def __bool__(self) -> bool:
        raise TypeError("whether a payload was opened is asked with isinstance")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a payload belongs: it opens nowhere else."""

    environment: str
    tenant: str
    event_id: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A context for many payloads of one tenant, agreed once. Each of its numbers seals one payload."""

    environment: str
    tenant: str
    key_id: str
    enc: bytes
    context: Context


def payload_keys(keys: KeySet) -> Mapping[str, tuple[PublicKey, ...]]:
    """Return the payload keys of a key set by tenant, the newest first.

    Of two that began at once, the one with the greater id comes first: every process takes the same.
    """
    found: dict[str, list[PublicKey]] = {}
    for key in keys.keys.values():
        if key.role is KeyRole.PAYLOAD and key.owner and key.environment == keys.environment:
            found.setdefault(key.owner, []).append(key)
    return {
        tenant: tuple(sorted(owned, key=lambda key: (key.not_before_ms, key.key_id), reverse=True))
        for tenant, owned in found.items()
    }


def payload_key(
    owned: Iterable[PublicKey], revocations: Revocations = NONE, *, now_ms: int
) -> PublicKey | None:
    """Return the key that payloads are sealed under now: of a tenant's, the newest in force, or None."""
    for key in owned:
        in_force = key.not_before_ms <= now_ms < key.not_after_ms
        if in_force and not revocations.names(RevocationKind.KEY, key.key_id):
            return key
    return None


def address(key: PublicKey, ephemeral: bytes) -> Envelope:
    """Agree on a context with the owner of `key`; `ephemeral` is 32 random bytes that nothing else uses.

    Raises ValueError unless `key` is a payload key and of prime order: one that signs must not seal.
    """
    if key.role is not KeyRole.PAYLOAD or not key.owner:
        raise ValueError(f"key `{key.key_id}` is no tenant's payload key")
    try:  # libsodium converts points of prime order alone; a key set holds no others
        recipient = bytes(crypto_sign_ed25519_pk_to_curve25519(key.public_key))
    except CryptoError:
        raise ValueError(f"key `{key.key_id}` is no point of prime order") from None
    info = _info(key.environment, key.owner, key.key_id)
    return Envelope(key.environment, key.owner, key.key_id, *sender(ephemeral, recipient, info))


def seal(envelope: Envelope, number: int, event_id: str, payload: bytes) -> bytes:
    """Return `payload` sealed for the event, as the bytes of a `Sealed`.

    Args:
        envelope: from `address`, for the event's tenant.
        number: counted from 0 by the caller; one that is used twice gives both payloads away.
        event_id: the event it belongs to.
        payload: at most MAX_PLAINTEXT_BYTES.

    Raises:
        ValueError: a payload too large, an empty event id, or a number that is none.
    """
    if len(payload) > MAX_PLAINTEXT_BYTES:
        raise ValueError(f"a payload of {len(payload)} bytes, at most {MAX_PLAINTEXT_BYTES}")
    if not event_id:
        raise ValueError("a payload is sealed for an event")
    ciphertext = envelope.context.seal(number, _aad(event_id), payload)
    return canonical(
        Sealed(
            version=SEALED_VERSION,
            key_id=envelope.key_id,
            enc=envelope.enc,
            number=number,
            ciphertext=ciphertext,
        )
    )


def payload_ref(sealed: bytes) -> str:
    """Return what an event calls these bytes: their SHA-256, lower hex."""
    return sha256(sealed).hexdigest()


def read_sealed(raw: bytes) -> Sealed | Unopened:
    """Return the frame of sealed bytes, unopened: which key would open them. Needs no key."""
    if len(raw) > MAX_SEALED_BYTES:
        return Unopened(Fault.TOO_LARGE, f"{len(raw)} bytes")
    sealed = strict_parse(Sealed, raw)
    if isinstance(sealed, Refusal):
        return Unopened(Fault.MALFORMED, sealed.detail)
    if sealed.version != SEALED_VERSION:
        return Unopened(Fault.VERSION_UNKNOWN, f"version {sealed.version}, known is {SEALED_VERSION}")
    id_fits = 1 <= len(sealed.key_id.encode()) <= MAX_KEY_ID_BYTES
    if not id_fits or len(sealed.enc) != KEY_BYTES or len(sealed.ciphertext) < TAG_BYTES:
        return Unopened(Fault.MALFORMED, "key id, ephemeral key or ciphertext")
    return sealed


def open_sealed(raw: bytes, place: Place, seed: bytes) -> bytes | Unopened:
    """Return the payload of sealed bytes, or why it stays closed.

    Args:
        raw: as they are kept.
        place: the environment, tenant and event id of the event that names them.
        seed: the 32 secret bytes of the key that `read_sealed` names. Raises ValueError on another length.
    """
    sealed = read_sealed(raw)
    if isinstance(sealed, Unopened):
        return sealed
    _, signing = crypto_sign_seed_keypair(seed)
    secret = bytes(crypto_sign_ed25519_sk_to_curve25519(signing))
    context = receiver(secret, sealed.enc, _info(place.environment, place.tenant, sealed.key_id))
    opened = None
    if context is not None:
        opened = context.open(sealed.number, _aad(place.event_id), sealed.ciphertext)
    if opened is None:
        return Unopened(Fault.NOT_OPENED, "another key, tenant, environment or event, or it was changed")
    return opened


def read_input(payload: bytes) -> DecisionInput | Unopened:
    """Return the decision input that an opened payload is."""
    message = strict_parse(DecisionInput, payload)
    if isinstance(message, Refusal):
        return Unopened(Fault.MALFORMED, message.detail)
    if message.version != INPUT_VERSION:
        return Unopened(Fault.VERSION_UNKNOWN, f"decision input of version {message.version}")
    return message


def input_payload(message: DecisionInput) -> bytes:
    """Return the payload of a decision input, at most MAX_PLAINTEXT_BYTES; `message` is left as it was.

    Where the whole would be larger, the request gives way, then what the rules were asked, each named in
    `left_out`; the request's size and SHA-256 stay. Raises ValueError where that is not enough.
    """
    payload = canonical(message)
    shorter = DecisionInput()
    shorter.CopyFrom(message)
    for name in _GIVES_WAY:
        if len(payload) <= MAX_PLAINTEXT_BYTES:
            break
        shorter.ClearField(name)
        shorter.left_out.append(name)
        payload = canonical(shorter)
    if len(payload) > MAX_PLAINTEXT_BYTES:
        raise ValueError(f"a decision input of {len(payload)} bytes without its request and its facts")
    return payload


def _info(environment: str, tenant: str, key_id: str) -> bytes:
    return _INFO + _parts((environment, tenant, key_id))


def _aad(event_id: str) -> bytes:
    return _AAD + _parts((event_id,))


def _parts(texts: Iterable[str]) -> bytes:
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)
