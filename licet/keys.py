"""Public keys: one role, one environment, one validity each; the set of them signed by the root key.

Guarantees of a KeySet that `read_keyset` returned: signed by the root, every id once, every key strong
(canonical, prime order), every role known. Says nothing about revocation. Private keys are not here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from licet.dsse import PayloadType, is_strong_public_key, signature_fits
from licet.refusal import Reason, Refusal
from licet.strict import canonical, strict_parse
from licet.v1 import keys_pb2
from licet.v1.statement_pb2 import Signed

KEYSET_VERSION = 1
"""Version of the message KeySet that is written and read."""

MAX_KEYS = 10_000
"""Keys in one set."""

MAX_KEYSET_BYTES = 16 << 20
"""Size of the payload of a key set."""

MAX_KEY_ID_BYTES = 128
"""Length of a key id."""


class KeyRole(StrEnum):
    """What a key is for. One key, one role; PAYLOAD signs nothing, payloads are sealed under it."""

    DECIDER = "DECIDER"
    BEACON = "BEACON"
    BUNDLE = "BUNDLE"
    CATALOG = "CATALOG"
    APPROVER = "APPROVER"
    DELEGATOR = "DELEGATOR"
    TASK = "TASK"
    SPEND = "SPEND"
    CHECKPOINT = "CHECKPOINT"
    PAYLOAD = "PAYLOAD"


_NUMBERS: "Mapping[KeyRole, keys_pb2.KeyRole.ValueType]" = {
    role: keys_pb2.KeyRole.Value(f"KEY_ROLE_{role}") for role in KeyRole
}
_ROLES: Mapping[int, KeyRole] = {number: role for role, number in _NUMBERS.items()}


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key and what it is good for.

    `owner` is a SPIFFE id, an approver's subject, or the tenant of a payload key. `audience`: the tool a
    spend or checkpoint key speaks for. Times are Unix ms; `not_after_ms` is the first moment after its
    validity.
    """

    key_id: str
    role: KeyRole
    environment: str
    public_key: bytes
    not_before_ms: int
    not_after_ms: int
    owner: str = ""
    approver_roles: tuple[str, ...] = ()
    audience: str = ""


@dataclass(frozen=True, slots=True)
class KeySet:
    """Every key of an environment, by key id."""

    environment: str
    version: int
    keys: Mapping[str, PublicKey]


def make_keyset(environment: str, version: int, keys: Iterable[PublicKey]) -> bytes:
    """Return the payload of a key set, for the root key to sign under PayloadType.KEYSET."""
    message = keys_pb2.KeySet(version=KEYSET_VERSION, keyset_version=version, environment=environment)
    for key in keys:
        message.keys.add(
            key_id=key.key_id,
            role=_NUMBERS[key.role],
            environment=key.environment,
            public_key=key.public_key,
            not_before_ms=key.not_before_ms,
            not_after_ms=key.not_after_ms,
            owner=key.owner,
            approver_roles=key.approver_roles,
            audience=key.audience,
        )
    return canonical(message)


def read_keyset(signed: Signed, root_public_key: bytes, *, environment: str) -> KeySet | Refusal:
    """Return the key set that the root key signed for `environment`, or why not.

    Refuses the whole set for one bad key: an id given twice or empty, a role that is none, a key that is
    not a canonical point of prime order, a validity that is empty.
    """
    if len(signed.payload) > MAX_KEYSET_BYTES:
        return Refusal(Reason.TOO_LARGE, f"a key set of {len(signed.payload)} bytes")
    if not is_strong_public_key(root_public_key) or not signature_fits(
        PayloadType.KEYSET, signed, root_public_key
    ):
        return Refusal(Reason.SIGNATURE_INVALID, "the key set is not signed by the root key")
    message = strict_parse(keys_pb2.KeySet, signed.payload)
    if isinstance(message, Refusal):
        return message
    return _read(message, environment)


def _read(message: keys_pb2.KeySet, environment: str) -> KeySet | Refusal:
    if message.environment != environment:
        return Refusal(Reason.ENVIRONMENT_MISMATCH, f"the key set is for environment `{message.environment}`")
    if message.version != KEYSET_VERSION or not 1 <= len(message.keys) <= MAX_KEYS:
        return _malformed(f"version {message.version} with {len(message.keys)} keys")
    keys: dict[str, PublicKey] = {}
    for entry in message.keys:
        key = _read_key(entry)
        if isinstance(key, Refusal):
            return key
        if key.key_id in keys:
            return _malformed(f"the key id `{key.key_id}` is given twice")
        keys[key.key_id] = key
    return KeySet(environment, message.keyset_version, MappingProxyType(keys))


def _read_key(entry: keys_pb2.Key) -> PublicKey | Refusal:
    role = _ROLES.get(entry.role)
    if role is None:
        return _malformed(f"key `{entry.key_id}` has the unknown role {entry.role}")
    if not 1 <= len(entry.key_id.encode()) <= MAX_KEY_ID_BYTES:
        return _malformed("a key id must be 1 to 128 bytes long")
    if not is_strong_public_key(entry.public_key):
        return _malformed(f"key `{entry.key_id}` is no canonical Ed25519 point of prime order")
    if not 0 <= entry.not_before_ms < entry.not_after_ms:
        return _malformed(f"key `{entry.key_id}` is never valid")
    return PublicKey(
        key_id=entry.key_id,
        role=role,
        environment=entry.environment,
        public_key=entry.public_key,
        not_before_ms=entry.not_before_ms,
        not_after_ms=entry.not_after_ms,
        owner=entry.owner,
        approver_roles=tuple(entry.approver_roles),
        audience=entry.audience,
    )


def _malformed(detail: str) -> Refusal:
    return Refusal(Reason.PERMIT_MALFORMED, f"key set: {detail}")
