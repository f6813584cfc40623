"""Changes of what is in force that need no bundle: revocations, the key set, the generation of the stores.

Guarantees: what was in force is read and verified first, and what comes into force passes every check that a
decider makes before it takes it; a change that fails changes nothing. Of two at once both land: the one that
lost the compare-and-set reads again. Revocations are never lost on the way, but where a new generation lifts
them by name. Not guaranteed: that every door has heard; the next beacon tells them, within a second.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from decider.in_force.activate import ActivationError
from decider.in_force.configuration import Configuration, ConfigurationRefused
from decider.in_force.in_force import InForce
from licet.clock import wall_ms
from licet.keyfile import KeyFileError, read_public, read_signed
from licet.keys import KeySet, read_keyset
from licet.refusal import Refusal
from licet.revocation import RevocationKind, read_revocations, with_revocations
from licet.statement import PayloadType, SigningKey, artifact_sha256, parse_signed
from licet.streams import ActivationLost, ConfigStore, NatsSettings, Publisher, connect
from licet.v1.beacon_pb2 import ActiveConfig
from licet.v1.keys_pb2 import RevocationList
from licet.v1.statement_pb2 import Signed

TRIES: Final = 10
"""So often a change that another one overtook is made anew."""

Names = Iterable[tuple[RevocationKind, str]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a change is made, and whose signature its key set must have."""

    environment: str
    root_key_file: Path
    nats: NatsSettings


@dataclass(frozen=True, slots=True)
class Change:
    """A record to come into force, what it names that may not be stored yet, and what is to be said of it."""

    record: ActiveConfig
    artifacts: tuple[Signed, ...]
    said: str


@dataclass(frozen=True, slots=True)
class Now:
    """What is in force, verified, where it lies, and the time, Unix ms."""

    in_force: InForce
    store: ConfigStore
    now_ms: int


Make = Callable[[Now], Awaitable[Change | str]]
"""From what is in force to the change; a sentence where there is none to make."""


async def revoke(place: Place, revoked: Names, key: SigningKey) -> tuple[str, Signed | None]:
    """Revoke things, signed by a decider key. Returns a sentence, and the list in force from now on.

    Raises `ActivationError`, `StreamsError`.
    """
    wanted, made = tuple(revoked), list[Signed]()

    async def make(now: Now) -> Change | str:
        _check_names(wanted, now.in_force.keys)
        before = await _listed(now)
        new = [one for one in wanted if one not in now.in_force.revocations.entries]
        if not new:
            return f"revoked already, by list {now.in_force.revocations.seq}"
        signed = key.sign(PayloadType.REVOCATIONS, with_revocations(before, new, now_ms=now.now_ms))
        made[:] = [signed]
        record = _with_list(now.in_force.config, signed, now.now_ms)
        named = ", ".join(f"{kind} `{name}`" for kind, name in new)
        return Change(record, (signed,), f"revoked {named}: list {record.revocations_seq}")

    return await changed(place, make), (made[0] if made else None)


async def put_keyset(place: Place, file: Path) -> str:
    """Put the key set in `file` in force. Returns a sentence. Raises `ActivationError`, `StreamsError`."""
    signed = _read(file)

    async def make(now: Now) -> Change | str:
        keys = read_keyset(signed, _root(place), environment=place.environment)
        if isinstance(keys, Refusal):
            raise ActivationError(f"`{file}`: {keys.reason}: {keys.detail}")
        if artifact_sha256(signed) == now.in_force.config.keyset_sha256:
            return f"key set {keys.version} is in force already"
        if keys.version <= now.in_force.keys.version:
            raise ActivationError(
                f"`{file}` is key set {keys.version}, and {now.in_force.keys.version} is in force: "
                "a change needs a greater version; `licet keys rotate` and `licet keys dev` give it one"
            )
        record = record_after(now.in_force.config, now.now_ms)
        record.keyset_version, record.keyset_sha256 = keys.version, artifact_sha256(signed)
        return Change(record, (signed,), f"key set {keys.version} is in force")

    return await changed(place, make)


async def begin_generation(
    place: Place, number: int | None, key: SigningKey, *, lifted: Names = (), kept: Path | None = None
) -> str:
    """Begin a new generation of the stores: every permit, hold and approval of the last is void.

    Args:
        place: where.
        number: the generation; None for the next.
        key: a decider key, signs the list of revocations where that changes.
        lifted: revocations that end with the last generation.
        kept: a revocation list kept elsewhere, whose entries are taken in: of a store that was restored.

    Returns a sentence. Raises `ActivationError`, `StreamsError`.
    """
    ended = frozenset(lifted)

    async def make(now: Now) -> Change | str:
        following = now.in_force.generation + 1 if number is None else number
        if following <= now.in_force.generation:
            raise ActivationError(f"generation {now.in_force.generation} is in force: it only grows")
        unknown = ended - now.in_force.revocations.entries
        if unknown:
            raise ActivationError(f"not revoked, so not to be lifted: `{min(unknown)[1]}`")
        record = record_after(now.in_force.config, now.now_ms)
        record.generation = following
        added = _entries(kept, now) - now.in_force.revocations.entries if kept else frozenset()
        if not ended and not added:
            return Change(record, (), f"generation {following} is in force")
        before = await _listed(now)
        payload = with_revocations(before, sorted(added - ended), lifted=ended, now_ms=now.now_ms)
        signed = key.sign(PayloadType.REVOCATIONS, payload)
        return Change(
            _with_list(record, signed, now.now_ms), (signed,), f"generation {following} is in force"
        )

    return await changed(place, make)


async def revoked_now(place: Place) -> RevocationList:
    """Return the revocation list in force. Raises `ActivationError`, `StreamsError`."""
    found: list[RevocationList] = []

    async def make(now: Now) -> Change | str:
        found[:] = [await _listed(now)]
        return ""

    await changed(place, make)
    return found[0]


async def changed(place: Place, make: Make) -> str:
    """Make one change by compare-and-set; say what is in force then.

    Raises `ActivationError`, `StreamsError`.
    """
    root = _root(place)
    connection = await connect(place.nats, "licet-policy", forever=False)
    try:
        store = ConfigStore(await Publisher.open(connection), place.environment)
        for _ in range(TRIES):
            try:
                return await _once(place, store, root, make)
            except ActivationLost:
                continue
    except (ConfigurationRefused, ValueError) as error:
        raise ActivationError(f"nothing was changed: {error}") from error
    finally:
        await connection.close()
    raise ActivationError("nothing was changed: others changed the configuration all the while")


async def _once(place: Place, store: ConfigStore, root: bytes, make: Make) -> str:
    found = await store.active()
    if found is None:
        raise ActivationError(
            f"nothing is in force in environment `{place.environment}`: run `licet policy activate`"
        )
    config, seq = found
    now_ms = wall_ms()
    configuration = Configuration(store, root, place.environment)
    change = await make(Now(await configuration.load(config, seq, now_ms), store, now_ms))
    if isinstance(change, str):
        return change
    for artifact in change.artifacts:
        await store.put_artifact(artifact)
    await configuration.load(change.record, seq + 1, now_ms)
    return f"{change.said}, as configuration {await store.activate(change.record, seq)}"


def record_after(config: ActiveConfig, now_ms: int) -> ActiveConfig:
    """Return a copy of a record, to be changed and to follow it."""
    record = ActiveConfig()
    record.CopyFrom(config)
    record.activated_at_ms = now_ms
    return record


def _with_list(config: ActiveConfig, signed: Signed, now_ms: int) -> ActiveConfig:
    record = record_after(config, now_ms)
    record.revocations_seq = RevocationList.FromString(signed.payload).revocations_seq
    record.revocations_sha256 = artifact_sha256(signed)
    return record


async def _listed(now: Now) -> RevocationList:
    """Return the list in force, which was verified with its record; an empty one where it names none."""
    config = now.in_force.config
    if not config.revocations_sha256:
        return RevocationList(environment=config.environment)
    raw = await now.store.artifact(config.revocations_sha256.hex())
    signed = parse_signed(raw or b"")
    if isinstance(signed, Refusal):
        raise ConfigurationRefused(f"the revocation list: {signed.detail}")
    return RevocationList.FromString(signed.payload)


def _entries(file: Path, now: Now) -> frozenset[tuple[RevocationKind, str]]:
    environment = now.in_force.config.environment
    kept = read_revocations(_read(file), now.in_force.keys, environment=environment, now_ms=now.now_ms)
    if isinstance(kept, Refusal):
        raise ActivationError(f"`{file}`: {kept.reason}: {kept.detail}")
    return kept.entries


def _check_names(revoked: Names, keys: KeySet) -> None:
    """A key that is not in the set would be revoked in vain: that is a slip of the pen."""
    for kind, name in revoked:
        if kind is RevocationKind.KEY and name not in keys.keys:
            known = ", ".join(sorted(keys.keys))
            raise ActivationError(f"no key `{name}` in key set {keys.version}; known: {known}")


def _root(place: Place) -> bytes:
    try:
        return read_public(place.root_key_file)
    except KeyFileError as error:
        raise ActivationError(str(error)) from error


def _read(file: Path) -> Signed:
    try:
        return read_signed(file)
    except KeyFileError as error:
        raise ActivationError(str(error)) from error
