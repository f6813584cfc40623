"""What a guard holds to be current: key set, catalog, revocations and the beacon that vouches for them.

Guarantees: a standing is taken as a whole or not at all; everything in it is signed, and what the beacon
names is what is held; neither key set nor configuration nor revocations go back. Before the first one there
is none, and a guard without a standing executes nothing.
"""

from dataclasses import dataclass, field

from licet.beacon import Beacon, HeldBeacon, read_beacon
from licet.beacon import succeeds as beacon_succeeds
from licet.catalog import Catalog, read_catalog
from licet.keys import KeySet, read_keyset
from licet.obligation import DOOR_OBLIGATIONS
from licet.permit import DoorState
from licet.refusal import Reason, Refusal
from licet.revocation import NONE, RevocationKind, Revocations, read_revocations
from licet.revocation import succeeds as revocations_succeed
from licet.statement import artifact_sha256
from licet.v1.guard_pb2 import BeaconRequest
from licet.v1.statement_pb2 import Signed


@dataclass(frozen=True, slots=True)
class Anchor:
    """What a guard is started with and never learns from the wire."""

    environment: str
    audience: str
    root_public_key: bytes
    catalog: Signed
    tool_key: bytes = field(repr=False)
    generation: int = 1
    """Of the stores that `tool_key` was derived for."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One consistent view of what is current. Digests are those of the signed artifacts."""

    door: DoorState
    beacon: HeldBeacon
    keyset_sha256: bytes
    revocations_sha256: bytes


def advance(
    anchor: Anchor, held: Standing | None, request: BeaconRequest, *, now_ms: int, monotonic_ms: int
) -> Standing | Refusal:
    """Return the standing after this beacon, or why it is not taken.

    BEACON_BEHIND: the beacon names a key set or a revocation list that is neither held nor in the request:
    send it again with them.
    """
    found = _keys(anchor, held, request)
    if isinstance(found, Refusal):
        return found
    keys, keyset_sha256 = found
    beacon = _beacon(anchor, held, request, keys=keys, now_ms=now_ms)
    if isinstance(beacon, Refusal):
        return beacon
    if (beacon.keyset_version, beacon.keyset_sha256) != (keys.version, keyset_sha256):
        return Refusal(Reason.BEACON_BEHIND, f"key set {beacon.keyset_version} is not held")
    revocations = _revocations(anchor, held, request, beacon, keys=keys, now_ms=now_ms)
    if isinstance(revocations, Refusal):
        return revocations
    for key_id in (request.beacon.key_id, anchor.catalog.key_id):
        if revocations.names(RevocationKind.KEY, key_id):
            return Refusal(Reason.KEY_REVOKED, f"key `{key_id}` of beacon or catalog is revoked")
    catalog = _catalog(anchor, held, keys, keyset_sha256, now_ms)
    if isinstance(catalog, Refusal):
        return catalog
    taken = HeldBeacon.received(beacon, now_ms=now_ms, monotonic_ms=monotonic_ms)
    door = DoorState(
        environment=anchor.environment,
        audience=anchor.audience,
        catalog=catalog,
        keys=keys,
        revocations=revocations,
        beacon=taken,
        k_tool=anchor.tool_key,
        generation=anchor.generation,
        obligations=DOOR_OBLIGATIONS,  # done before us: the door lets no permit through whose it cannot do
    )
    return Standing(door, taken, keyset_sha256, beacon.revocations_sha256)


def _beacon(
    anchor: Anchor, held: Standing | None, request: BeaconRequest, *, keys: KeySet, now_ms: int
) -> Beacon | Refusal:
    beacon = read_beacon(
        request.beacon,
        keys,
        environment=anchor.environment,
        now_ms=now_ms,
        revocations=NONE if held is None else held.door.revocations,
    )
    if isinstance(beacon, Refusal):
        return beacon
    refusal = beacon_succeeds(None if held is None else held.beacon.beacon, beacon)
    return beacon if refusal is None else refusal


def _keys(anchor: Anchor, held: Standing | None, request: BeaconRequest) -> tuple[KeySet, bytes] | Refusal:
    if not request.HasField("keyset"):
        if held is None:
            return Refusal(Reason.BEACON_BEHIND, "no key set is held")
        return held.door.keys, held.keyset_sha256
    keys = read_keyset(request.keyset, anchor.root_public_key, environment=anchor.environment)
    if isinstance(keys, Refusal):
        return keys
    if held is not None and keys.version < held.door.keys.version:
        return Refusal(Reason.BEACON_STALE, f"key set {keys.version} after {held.door.keys.version}")
    return keys, artifact_sha256(request.keyset)


def _revocations(
    anchor: Anchor,
    held: Standing | None,
    request: BeaconRequest,
    beacon: Beacon,
    *,
    keys: KeySet,
    now_ms: int,
) -> Revocations | Refusal:
    if not beacon.revocations_sha256:
        new = NONE
    elif held is not None and held.revocations_sha256 == beacon.revocations_sha256:
        return held.door.revocations
    elif not request.HasField("revocations") or (
        artifact_sha256(request.revocations) != beacon.revocations_sha256
    ):
        return Refusal(Reason.BEACON_BEHIND, f"revocation list {beacon.revocations_seq} is not held")
    else:
        read = read_revocations(request.revocations, keys, environment=anchor.environment, now_ms=now_ms)
        if isinstance(read, Refusal):
            return read
        new = read
    if new.seq != beacon.revocations_seq:
        return Refusal(Reason.BEACON_BEHIND, f"revocation list {new.seq}, beacon {beacon.revocations_seq}")
    if held is not None and held.beacon.beacon.generation == beacon.generation:
        refusal = revocations_succeed(held.door.revocations, new)
        if refusal is not None:
            return refusal
    return new


def _catalog(
    anchor: Anchor, held: Standing | None, keys: KeySet, keyset_sha256: bytes, now_ms: int
) -> Catalog | Refusal:
    if held is not None and held.keyset_sha256 == keyset_sha256:
        return held.door.catalog
    catalog = read_catalog(anchor.catalog, keys, environment=anchor.environment, now_ms=now_ms)
    if not isinstance(catalog, Refusal) and catalog.audience != anchor.audience:
        return Refusal(Reason.AUDIENCE_MISMATCH, f"the catalog is for `{catalog.audience}`")
    return catalog
