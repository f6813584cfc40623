"""The beacon: the signed, every-second word on which bundle, keys and revocations are current.

Guarantees: a beacon's age is measured from its issue, by a clock that cannot be set back
(`HeldBeacon.age_ms`); what a door knows never goes back (`succeeds`). A beacon says *fresh*; it cannot say
*new policy*: the bundle, the key set and the revocations it names are signed by other keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from licet.dsse import PayloadType
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.revocation import NONE, RevocationKind, Revocations
from licet.statement import verify
from licet.strict import canonical, strict_parse
from licet.tier import CallClass
from licet.v1 import beacon_pb2
from licet.v1.statement_pb2 import Signed

BEACON_VERSION = 1
"""Version of the message Beacon that is written and read."""

MAX_SKEW_MS = 1_000
"""How far another clock may be ahead of ours."""

MAX_AGE_MS: Mapping[CallClass, int] = MappingProxyType(
    {
        CallClass.READ: 60_000,
        CallClass.WRITE: 5_000,
        CallClass.PRIVILEGED: 5_000,
    }
)
"""How old a beacon may be for a call of each class, inclusive."""

SHA256_BYTES = 32


@dataclass(frozen=True, slots=True)
class Beacon:
    """What is current in an environment; field by field as proto/licet/v1/beacon.proto says."""

    environment: str
    issued_at_ms: int
    config_seq: int
    generation: int
    bundle_version: int
    bundle_sha256: bytes
    keyset_version: int
    keyset_sha256: bytes
    revocations_seq: int
    revocations_sha256: bytes
    spend_floor: int
    spend_log_origin_seq: int
    store_safe: bool


def beacon_payload(beacon: Beacon) -> bytes:
    """Return the payload of a beacon, for a beacon key to sign under PayloadType.BEACON."""
    fields = {name: getattr(beacon, name) for name in Beacon.__slots__}
    return canonical(beacon_pb2.Beacon(version=BEACON_VERSION, **fields))


def read_beacon(
    signed: Signed, keys: KeySet, *, environment: str, now_ms: int, revocations: Revocations = NONE
) -> Beacon | Refusal:
    """Return the beacon that a beacon key signed for `environment`, or why not.

    Refuses one issued more than 1 s ahead of `now_ms`, or so long ago that no call could use it.
    """
    payload = verify(PayloadType.BEACON, signed, keys, now_ms=now_ms)
    if isinstance(payload, Refusal):
        return payload
    if revocations.names(RevocationKind.KEY, signed.key_id):
        return Refusal(Reason.KEY_REVOKED, f"beacon key `{signed.key_id}` is revoked")
    message = strict_parse(beacon_pb2.Beacon, payload)
    if isinstance(message, Refusal):
        return message
    if message.environment != environment:
        return Refusal(Reason.ENVIRONMENT_MISMATCH, f"the beacon is for environment `{message.environment}`")
    return _read(message, now_ms)


def _read(message: beacon_pb2.Beacon, now_ms: int) -> Beacon | Refusal:
    digests = (message.bundle_sha256, message.keyset_sha256)
    if message.version != BEACON_VERSION or any(len(digest) != SHA256_BYTES for digest in digests):
        return Refusal(Reason.PERMIT_MALFORMED, "beacon: another version, or a digest that is none")
    if len(message.revocations_sha256) != (SHA256_BYTES if message.revocations_seq else 0):
        return Refusal(Reason.PERMIT_MALFORMED, "beacon: revocations without digest, or the reverse")
    if message.issued_at_ms > now_ms + MAX_SKEW_MS:
        return Refusal(Reason.NOT_YET_VALID, f"the beacon is {message.issued_at_ms - now_ms} ms ahead")
    if now_ms - message.issued_at_ms > max(MAX_AGE_MS.values()):
        return Refusal(Reason.BEACON_STALE, f"the beacon is {now_ms - message.issued_at_ms} ms old")
    return Beacon(**{name: getattr(message, name) for name in Beacon.__slots__})


def succeeds(previous: Beacon | None, new: Beacon) -> Refusal | None:
    """Return why `new` may not replace `previous`, or None.

    The generation never goes back; within one, neither configuration nor revocations nor key set nor bundle
    do, and one configuration names one bundle and one key set. A restore bumps the generation, which voids
    all permits that came before, so sequence numbers may then begin lower.
    """
    if previous is None or new.generation > previous.generation:
        return None
    for name in ("generation", "config_seq", "revocations_seq", "keyset_version", "bundle_version"):
        old, now = getattr(previous, name), getattr(new, name)
        if now < old:
            return Refusal(Reason.BEACON_STALE, f"beacon: {name} went back from {old} to {now}")
    if new.config_seq == previous.config_seq and _configuration(new) != _configuration(previous):
        return Refusal(Reason.BEACON_STALE, f"beacon: two configurations numbered {new.config_seq}")
    return None


def _configuration(beacon: Beacon) -> tuple[bytes, bytes, bytes]:
    return beacon.bundle_sha256, beacon.keyset_sha256, beacon.revocations_sha256


@dataclass(frozen=True, slots=True)
class HeldBeacon:
    """A beacon and when it came: `received_at_ms` by the monotonic clock, `lag_ms` old at that moment."""

    beacon: Beacon
    received_at_ms: int
    lag_ms: int

    @classmethod
    def received(cls, beacon: Beacon, *, now_ms: int, monotonic_ms: int) -> "HeldBeacon":
        """Return `beacon` as received now. A clock behind the issuer's makes no beacon younger than new."""
        return cls(beacon, monotonic_ms, max(0, now_ms - beacon.issued_at_ms))

    def age_ms(self, monotonic_ms: int) -> int:
        """Return its age in ms: the time since receipt, plus its age at receipt."""
        return monotonic_ms - self.received_at_ms + self.lag_ms
