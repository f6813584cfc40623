"""Reads what is in force from `LICET_CONFIG_<env>` and verifies it as a whole.

Guarantees: `current` is one configuration whose key set the root key signed, whose bundle a bundle key and
whose revocation list a decider key of that key set signed, all for this environment. A record that is not
whole, or that goes back (generation, key set, bundle, revocations), is refused loudly and the one before it
stays; a record is never taken in part. The first one of a process is compared with every record that the
stream remembers. Trusts NATS with availability only: it can withhold a record, not
make one valid.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from decider.in_force.floor import Floor, marks_of
from decider.in_force.in_force import InForce
from decider.policy.bundle import BundleError, LoadedBundle, load_bundle
from licet.keys import KeySet, read_keyset
from licet.log import log
from licet.refusal import Refusal
from licet.revocation import NONE, Revocations, read_revocations
from licet.revocation import succeeds as list_succeeds
from licet.statement import PayloadType, canonical, parse_signed, verify
from licet.streams import ArtifactDamaged, ConfigStore
from licet.v1.beacon_pb2 import ActiveConfig
from licet.v1.statement_pb2 import Signed

logger = logging.getLogger(__name__)

Rejected = Callable[[int, str], Awaitable[None]]
"""Told the sequence of a record that was refused, and why; once for each record."""

Taken = Callable[[InForce, str], Awaitable[None]]
"""Told what is in force from now on, and what came with it; once for each configuration."""


class ConfigurationRefused(Exception):  # noqa: N818 - the field's word: the record is refused
    """A configuration record cannot be in force; `str()` says why, for operators."""


@dataclass(frozen=True, slots=True)
class Read:
    """When the record in force was last read from the stream's leader, by the monotonic clock, ms."""

    in_force: InForce
    read_at_ms: int


class Configuration:
    """What is in force in one environment, refreshed by whoever calls `refresh`."""

    def __init__(
        self, store: ConfigStore, root_public_key: bytes, environment: str, *, floor: Floor | None = None
    ) -> None:
        self._store = store
        self._root = root_public_key
        self._environment = environment
        self.floor = floor
        self.refused = ""
        """Why the last record that was refused was; empty for none."""
        self._refused_seq = 0
        self.latest: Read | None = None
        self.rejected: Rejected | None = None
        self.taken: Taken | None = None

    @property
    def current(self) -> InForce | None:
        """What is in force as far as this process knows; None before the first good record."""
        return self.latest.in_force if self.latest else None

    async def artifact(self, sha256: bytes, *, now_ms: int) -> bytes | None:
        """Return the key set or revocation list of that digest, for whoever asks; None for whatever else.

        A bundle says every rule and every threshold: it is nobody's to have but the deciders', which read
        the store. Raises StreamsError, ArtifactDamaged.
        """
        raw = await self._store.artifact(sha256.hex())
        signed = parse_signed(raw) if raw is not None else None
        if signed is None or isinstance(signed, Refusal):
            return None
        current = self.current
        named = (current.config.keyset_sha256, current.config.revocations_sha256) if current else ()
        if sha256 in named:
            return raw
        if isinstance(read_keyset(signed, self._root, environment=self._environment), KeySet):
            return raw
        if current is None:
            return None
        listed = read_revocations(signed, current.keys, environment=self._environment, now_ms=now_ms)
        return raw if isinstance(listed, Revocations) else None

    async def refresh(self, *, now_ms: int, monotonic_ms: int) -> Read | None:
        """Read the active record from the leader. Returns what is in force, None where nothing is.

        `read_at_ms` is the moment before the read began. Raises `StreamsError` where the leader gave no
        answer.
        """
        try:
            found = await self._store.active()
        except ArtifactDamaged as error:
            await self._refuse(-1, str(error))
            return self._again(monotonic_ms)
        if found is None:
            return None
        config, seq = found
        current = self.current
        if (current is None or current.config_seq != seq) and self._refused_seq != seq:
            try:
                in_force = await self.load(config, seq, now_ms, monotonic_ms=monotonic_ms)
                await self._took(in_force, in_force.differs_from(current))
            except ConfigurationRefused as error:
                await self._refuse(seq, str(error))
        return self._again(monotonic_ms)

    async def _took(self, in_force: InForce, detail: str) -> None:
        # What a stage of shadow lets through must not be overlooked.
        level = logging.WARNING if in_force.shadow else logging.INFO
        log(logger, level, "configuration.in_force", config_seq=in_force.config_seq, detail=detail)
        if self.taken is not None:
            await self.taken(in_force, detail)

    def _again(self, monotonic_ms: int) -> Read | None:
        if self.latest is not None:
            self.latest = Read(self.latest.in_force, monotonic_ms)
        return self.latest

    async def _refuse(self, seq: int, detail: str) -> None:
        if self._refused_seq == seq:
            return
        self._refused_seq, self.refused = seq, detail
        kept = self.current.bundle.version if self.current else 0
        log(logger, logging.ERROR, "configuration.refused", config_seq=seq, detail=detail, kept_bundle=kept)
        if self.rejected is not None:
            await self.rejected(seq, detail)

    async def load(self, config: ActiveConfig, seq: int, now_ms: int, *, monotonic_ms: int = 0) -> InForce:
        """Take a record as the one in force. Raises `ConfigurationRefused` where it may not be."""
        in_force = await self._verified(config, seq, now_ms)
        went_back = goes_back(self.current, in_force)
        if not went_back and self.floor is not None:
            went_back = self.floor.refuses(in_force)
            if not went_back and self.current is None:
                went_back = await self._was_beyond(in_force, self.floor.seq_in(in_force.generation), now_ms)
        if went_back:
            raise ConfigurationRefused(went_back)
        if self.floor is not None:
            self._keep(self.floor, in_force)
        self.latest = Read(in_force, monotonic_ms)
        return in_force

    async def _was_beyond(self, new: InForce, after_seq: int, now_ms: int) -> str:
        """Return which earlier record `new` goes back from, empty for none: the stream remembers them all.

        Only a record that would be lawful now counts, so whoever can write there cannot raise the floor.
        """
        history = self._store.history(after_seq, new.config_seq)
        claims = [(config, seq) async for config, seq in history if _claims_more(config, new)]
        tried: set[bytes] = set()
        for config, seq in reversed(claims):
            body = canonical(config)
            if body in tried:
                continue
            tried.add(body)
            try:
                earlier = await self._verified(config, seq, now_ms)
            except (ConfigurationRefused, ArtifactDamaged):
                continue
            back = goes_back(earlier, new)
            if back:
                return f"{back}: the record at sequence {seq} was in force before"
        return ""

    async def _verified(self, config: ActiveConfig, seq: int, now_ms: int) -> InForce:
        """Return a record with all it names, verified. Raises `ConfigurationRefused`."""
        keys = await self._keys(config)
        payload = await self._payload(config.bundle_sha256, PayloadType.BUNDLE, keys, now_ms)
        try:
            bundle = load_bundle(payload)
        except BundleError as error:
            raise ConfigurationRefused(f"bundle {config.bundle_version}: {error}") from error
        if (bundle.environment, bundle.version) != (self._environment, config.bundle_version):
            raise ConfigurationRefused(
                f"the bundle is {bundle.version} of `{bundle.environment}`, the record says"
                f" {config.bundle_version}"
            )
        revocations = await self._revocations(config, keys, now_ms)
        candidate = await self._candidate(config, bundle, keys, now_ms)
        return InForce(config, seq, bundle, keys, revocations, candidate)

    @staticmethod
    def _keep(floor: Floor, in_force: InForce) -> None:
        """Raise the floor before anything is decided: what is not remembered may not come into force."""
        try:
            floor.keep(in_force)
        except OSError as error:
            raise ConfigurationRefused(f"the floor cannot be kept: {error.strerror}") from error

    async def _signed(self, sha256: bytes) -> Signed:
        raw = await self._store.artifact(sha256.hex())
        if raw is None:
            raise ConfigurationRefused(f"artifact `{sha256.hex()}` is not in the store")
        signed = parse_signed(raw)
        if isinstance(signed, Refusal):
            raise ConfigurationRefused(f"artifact `{sha256.hex()}`: {signed.detail}")
        return signed

    async def _keys(self, config: ActiveConfig) -> KeySet:
        signed = await self._signed(config.keyset_sha256)
        keys = read_keyset(signed, self._root, environment=self._environment)
        if isinstance(keys, Refusal):
            raise ConfigurationRefused(f"key set {config.keyset_version}: {keys.reason}: {keys.detail}")
        if keys.version != config.keyset_version:
            raise ConfigurationRefused(
                f"the key set is {keys.version}, the record says {config.keyset_version}"
            )
        return keys

    async def _payload(self, sha256: bytes, slot: PayloadType, keys: KeySet, now_ms: int) -> bytes:
        payload = verify(slot, await self._signed(sha256), keys, now_ms=now_ms)
        if isinstance(payload, Refusal):
            raise ConfigurationRefused(f"{slot}: {payload.reason}: {payload.detail}")
        return payload

    async def _candidate(
        self, config: ActiveConfig, active: LoadedBundle, keys: KeySet, now_ms: int
    ) -> LoadedBundle | None:
        """Return the bundle beside; one that cannot be used has no influence, and is said in the log."""
        if not config.candidate_sha256:
            return None
        try:
            payload = await self._payload(config.candidate_sha256, PayloadType.BUNDLE, keys, now_ms)
            candidate = load_bundle(payload)
        except (ConfigurationRefused, BundleError, ArtifactDamaged) as error:
            log(logger, logging.ERROR, "candidate.refused", detail=str(error)[:300])
            return None
        named = (self._environment, config.candidate_version)
        if (candidate.environment, candidate.version) != named or candidate.version <= active.version:
            log(logger, logging.ERROR, "candidate.refused", detail="not the candidate that the record names")
            return None
        return candidate

    async def _revocations(self, config: ActiveConfig, keys: KeySet, now_ms: int) -> Revocations:
        if not config.revocations_sha256:
            if config.revocations_seq:
                raise ConfigurationRefused("revocations are numbered but not named")
            return NONE
        signed = await self._signed(config.revocations_sha256)
        listed = read_revocations(signed, keys, environment=self._environment, now_ms=now_ms)
        if isinstance(listed, Refusal):
            raise ConfigurationRefused(f"revocation list: {listed.reason}: {listed.detail}")
        if listed.seq != config.revocations_seq:
            raise ConfigurationRefused(f"the list is {listed.seq}, the record says {config.revocations_seq}")
        return listed


def _claims_more(earlier: ActiveConfig, new: InForce) -> bool:
    """Tell whether an earlier record says that it was beyond `new`; not yet whether that is true."""
    config = new.config
    if earlier.generation != config.generation:
        return earlier.generation > config.generation
    if earlier.bundle_version == config.bundle_version and earlier.bundle_sha256 != config.bundle_sha256:
        return True
    return (
        earlier.keyset_version > config.keyset_version
        or earlier.bundle_version > config.bundle_version
        or earlier.revocations_seq > config.revocations_seq
    )


def goes_back(current: InForce | None, new: InForce) -> str:
    """Return why `new` may not follow `current`, empty where it may. A higher generation starts anew."""
    if current is None or new.generation > current.generation:
        return ""
    back = marks_of(current).refuses(marks_of(new))
    if back:
        return back
    lost = list_succeeds(current.revocations, new.revocations)
    return lost.detail if lost is not None else ""
