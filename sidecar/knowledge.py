"""What is current, as this door holds it: beacon, key set, revocations, catalog, replaced as one value.

Guaranteed: nothing goes back (`licet.beacon.succeeds`, `licet.revocation.succeeds`, the key set's version);
a key set is signed by the root key and is the one the beacon names; before the first beacon there is no
state and so no traffic. Only the age of a beacon says that it is fresh, and it is measured from its issue
on a monotonic clock. Not guaranteed: that the catalog on disk is the decider's; a permit decided under
another entry is refused.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from licet.beacon import Beacon, HeldBeacon, read_beacon, succeeds
from licet.catalog import Catalog, read_catalog
from licet.keyfile import KeyFileError, read_signed
from licet.keys import KeySet, read_keyset
from licet.log import log
from licet.obligation import DOOR_OBLIGATIONS
from licet.permit import DoorState
from licet.refusal import Reason, Refusal
from licet.revocation import NONE, RevocationKind, Revocations, read_revocations
from licet.revocation import succeeds as revocations_succeed
from licet.statement import artifact_sha256, parse_signed, strict_parse
from licet.v1 import beacon_pb2
from licet.v1.statement_pb2 import Signed
from sidecar.parts import Clock

LOG: Final = logging.getLogger(__name__)

MAX_BEACON_BYTES: Final = 4_096
"""A signed beacon has about 300; more is dropped unparsed."""

SILENCE_S: Final = 2.0
"""Without a beacon for so long, the decider is asked."""

FIRST_INTERVAL_S: Final = 0.25
"""Between two questions before the first beacon."""

LEAST_INTERVAL_S: Final = 0.05
"""Between two beacons that are looked at: a flood costs at most 20 signatures a second."""


class Source(Protocol):
    """Where a beacon can be asked for, and what it names be fetched."""

    async def beacon(self) -> Signed | None:
        """Return the newest beacon, None when nobody answers."""

    async def artifact(self, sha256: bytes) -> Signed | None:
        """Return the artifact of that digest, None when nobody has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this door is; never changes while the process runs."""

    environment: str
    audience: str
    root_key: bytes
    tool_key: bytes
    generation: int
    catalog_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One consistent view: a beacon and the artifacts that it names."""

    signed: Signed
    held: HeldBeacon
    keyset_signed: Signed
    keys: KeySet
    revocations_signed: Signed | None
    revocations: Revocations
    catalog: Catalog


class Knowledge:
    """Takes beacons, fetches what they name, and tells the door.

    Args:
        identity: Who this door is.
        source: Whom to ask.
        clock: Time.
        hand_over: Called with each new view before the door sees it: the guard must not lag behind the door.
    """

    def __init__(
        self,
        identity: Identity,
        source: Source,
        clock: Clock,
        hand_over: Callable[[Known], Awaitable[None]],
    ) -> None:
        self._identity = identity
        self._source = source
        self._clock = clock
        self._hand_over = hand_over
        self._known: Known | None = None
        self._state: DoorState | None = None
        self._offered: Signed | None = None
        self._arrived = asyncio.Event()
        self._ask_at = 0.0
        self._changed = asyncio.Condition()
        self._streams: frozenset[str] = frozenset()
        self._catalog_stamp: tuple[int, int] = (0, 0)
        self._catalog_key_id = ""
        self.trouble = "no beacon yet"
        """Why there is no state, or why the newest beacon was not taken; empty when all is well."""

    @property
    def known(self) -> Known | None:
        """The newest view; None before the first beacon."""
        return self._known

    def state(self) -> DoorState | None:
        """Return what the door checks against; None before the first beacon."""
        return self._state

    def streams(self) -> frozenset[str]:
        """Return the paths that stream from the server."""
        return self._streams

    def held(self) -> HeldBeacon | None:
        """Return the newest beacon; None before the first."""
        return None if self._known is None else self._known.held

    def age_ms(self) -> int | None:
        """Return the age of the newest beacon in ms; None before the first."""
        return None if self._known is None else self._known.held.age_ms(self._clock.monotonic_ms())

    async def newer(self, than: DoorState, *, timeout_ms: int) -> bool:
        """Wait until the state is another than `than`; False when that did not happen in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000), self._changed:
                await self._changed.wait_for(lambda: self._state is not than)
        except TimeoutError:
            return False
        return True

    def offer(self, raw: bytes) -> None:
        """Take note of what came over the beacon subject; the newest wins, garbage is dropped unparsed."""
        if len(raw) > MAX_BEACON_BYTES:
            return
        signed = parse_signed(raw)
        if not isinstance(signed, Refusal):
            self._offered = signed
            self._arrived.set()

    async def run(self) -> None:
        """Take beacons until cancelled."""
        while True:
            try:
                await self._step()
            except Exception as fault:
                self.trouble = f"unexpected {type(fault).__name__}"
                LOG.exception("beacon.fault")
            await asyncio.sleep(LEAST_INTERVAL_S)

    async def _step(self) -> None:
        """Take what was offered; ask when nothing was taken for `SILENCE_S`, whatever garbage arrives."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._ask_at:
            self._ask_at = loop.time() + (SILENCE_S if self._known else FIRST_INTERVAL_S)
            asked = await self._source.beacon()
            if asked is not None:
                await self._take(asked, asked_for=True)
            return
        try:
            async with asyncio.timeout_at(self._ask_at):
                await self._arrived.wait()
        except TimeoutError:
            return
        self._arrived.clear()
        signed, self._offered = self._offered, None
        if signed is not None and await self._take(signed, asked_for=False):
            self._ask_at = loop.time() + SILENCE_S

    async def _take(self, signed: Signed, *, asked_for: bool) -> bool:
        """Take `signed` if it is newer; one that was asked for may bring a new key set to verify it with."""
        new = await self._view(signed, asked_for=asked_for)
        if isinstance(new, Refusal):
            self._complain(f"{new.reason.value}: {new.detail}")
            return False
        if new is None:
            return False
        try:
            await self._hand_over(new)
        finally:
            await self._publish(new)
        return True

    async def _view(self, signed: Signed, *, asked_for: bool) -> Known | Refusal | None:
        keyset = await self._keyset(signed, asked_for=asked_for)
        if isinstance(keyset, Refusal):
            return keyset
        keyset_signed, keys = keyset
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        previous = self._known
        revoked = previous.revocations if previous else NONE
        beacon = read_beacon(
            signed, keys, environment=self._identity.environment, now_ms=now_ms, revocations=revoked
        )
        if isinstance(beacon, Refusal):
            return beacon
        refusal = succeeds(previous.held.beacon if previous else None, beacon)
        if refusal is not None:
            return refusal
        if previous is not None and not _is_news(previous.held.beacon, beacon):
            return None
        held = HeldBeacon.received(beacon, now_ms=now_ms, monotonic_ms=monotonic_ms)
        return await self._named(signed, held, keyset_signed, keys)

    async def _keyset(self, signed: Signed, *, asked_for: bool) -> tuple[Signed, KeySet] | Refusal:
        """Return the key set to verify `signed` with: the one held, or the one that it names.

        What comes over the subject, where anybody may have written, never makes this door fetch anything
        before its signature fits; what a decider answered may. The first is a decider's answer: an older key
        set, in which a stolen key is still good, could not be told from the newest one.
        """
        if self._known is None and not asked_for:
            return Refusal(Reason.BEACON_STALE, "the first beacon is asked of a decider")
        if self._known is not None and not asked_for:
            return self._known.keyset_signed, self._known.keys
        claim = strict_parse(beacon_pb2.Beacon, signed.payload)
        if isinstance(claim, Refusal):
            return claim
        if self._known is not None and artifact_sha256(self._known.keyset_signed) == claim.keyset_sha256:
            return self._known.keyset_signed, self._known.keys
        return await self._fetched_keyset(claim.keyset_sha256)

    async def _fetched_keyset(self, sha256: bytes) -> tuple[Signed, KeySet] | Refusal:
        found = await self._fetched(sha256, "key set")
        if isinstance(found, Refusal):
            return found
        keys = read_keyset(found, self._identity.root_key, environment=self._identity.environment)
        if isinstance(keys, Refusal):
            return keys
        if self._known is not None and keys.version < self._known.keys.version:
            return Refusal(Reason.BEACON_STALE, f"key set {keys.version} after {self._known.keys.version}")
        return found, keys

    async def _named(
        self, signed: Signed, held: HeldBeacon, keyset_signed: Signed, keys: KeySet
    ) -> Known | Refusal:
        """Return the view that a beacon names, whatever of it had to be fetched."""
        beacon = held.beacon
        if artifact_sha256(keyset_signed) != beacon.keyset_sha256:
            found = await self._fetched_keyset(beacon.keyset_sha256)
            if isinstance(found, Refusal):
                return found
            keyset_signed, keys = found
        if keys.version != beacon.keyset_version:
            return Refusal(
                Reason.BEACON_STALE, f"key set {keys.version}, beacon says {beacon.keyset_version}"
            )
        revocations = await self._revocations(beacon, keys)
        if isinstance(revocations, Refusal):
            return revocations
        catalog = self._catalog(keys)
        if isinstance(catalog, Refusal):
            return catalog
        for key_id in (signed.key_id, self._catalog_key_id):
            if revocations[1].names(RevocationKind.KEY, key_id):
                return Refusal(Reason.KEY_REVOKED, f"key `{key_id}` of beacon or catalog is revoked")
        return Known(
            signed=signed,
            held=held,
            keyset_signed=keyset_signed,
            keys=keys,
            revocations_signed=revocations[0],
            revocations=revocations[1],
            catalog=catalog,
        )

    async def _revocations(self, beacon: Beacon, keys: KeySet) -> tuple[Signed | None, Revocations] | Refusal:
        known = self._known
        if not beacon.revocations_sha256:
            return None, NONE
        if (
            known is not None
            and known.revocations_signed is not None
            and artifact_sha256(known.revocations_signed) == beacon.revocations_sha256
        ):
            return known.revocations_signed, known.revocations
        found = await self._fetched(beacon.revocations_sha256, "revocation list")
        if isinstance(found, Refusal):
            return found
        new = read_revocations(
            found, keys, environment=self._identity.environment, now_ms=self._clock.now_ms()
        )
        if isinstance(new, Refusal):
            return new
        same_generation = known is not None and known.held.beacon.generation == beacon.generation
        refusal = (
            revocations_succeed(known.revocations, new) if known is not None and same_generation else None
        )
        if refusal is None and new.seq != beacon.revocations_seq:
            refusal = Refusal(Reason.BEACON_STALE, f"list {new.seq}, beacon says {beacon.revocations_seq}")
        return (found, new) if refusal is None else refusal

    def _catalog(self, keys: KeySet) -> Catalog | Refusal:
        """Return the mounted catalog; read again when the file or the key set is another."""
        path = self._identity.catalog_file
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            known = self._known
            if known is not None and stamp == self._catalog_stamp and keys is known.keys:
                return known.catalog
            signed = read_signed(path)
        except (OSError, KeyFileError) as error:
            return Refusal(Reason.METHOD_SUPERSEDED, f"catalog: {error}")
        catalog = read_catalog(
            signed, keys, environment=self._identity.environment, now_ms=self._clock.now_ms()
        )
        if isinstance(catalog, Refusal):
            return catalog
        if catalog.audience != self._identity.audience:
            return Refusal(Reason.AUDIENCE_MISMATCH, f"the catalog is of `{catalog.audience}`")
        self._catalog_stamp, self._catalog_key_id = stamp, signed.key_id
        return catalog

    async def _fetched(self, sha256: bytes, what: str) -> Signed | Refusal:
        found = await self._source.artifact(sha256)
        if found is None:
            return Refusal(Reason.BEACON_STALE, f"{what} {sha256.hex()[:16]} cannot be had")
        if artifact_sha256(found) != sha256:
            return Refusal(Reason.SIGNATURE_INVALID, f"{what} {sha256.hex()[:16]} has another digest")
        return found

    async def _publish(self, new: Known) -> None:
        state = self._door_state(new)
        if self._known is None or self._known.catalog is not new.catalog:
            methods = new.catalog.methods.items()
            self._streams = frozenset(path for path, one in methods if one.current.server_streaming)
        async with self._changed:
            self._known, self._state, self.trouble = new, state, ""
            self._changed.notify_all()

    def _door_state(self, new: Known) -> DoorState:
        return DoorState(
            environment=self._identity.environment,
            audience=self._identity.audience,
            catalog=new.catalog,
            keys=new.keys,
            revocations=new.revocations,
            beacon=new.held,
            k_tool=self._identity.tool_key,
            generation=self._identity.generation,
            obligations=DOOR_OBLIGATIONS,
        )

    def _complain(self, trouble: str) -> None:
        if trouble != self.trouble:
            log(LOG, logging.WARNING, "beacon.refused", trouble=trouble)
        self.trouble = trouble


def _is_news(previous: Beacon, new: Beacon) -> bool:
    """Say whether `new` tells more than `previous`; a replayed old one must not make the door look stale."""
    return (new.generation, new.config_seq) > (previous.generation, previous.config_seq) or (
        new.issued_at_ms > previous.issued_at_ms
    )
