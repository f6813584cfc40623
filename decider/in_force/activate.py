"""Makes a signed bundle the one in force: artifacts first, then one compare-and-set of the active record.

Guarantees: the record that becomes active passes every check that a decider makes before it takes it, so a
bad bundle changes nothing; of two activations at once one loses and says so. Not guaranteed: that every
decider has heard; the beacon says which version each door knows.
"""

from dataclasses import dataclass
from pathlib import Path

from decider.in_force.configuration import Configuration, ConfigurationRefused
from decider.policy.waiver import waiver_fault
from licet.clock import wall_ms
from licet.keyfile import KeyFileError, read_public, read_signed
from licet.keys import read_keyset
from licet.refusal import Refusal
from licet.statement import PayloadType, artifact_sha256, parse_signed, verify
from licet.streams import ActivationLost, ConfigStore, NatsSettings, Publisher, StoreRefused, connect
from licet.streams.api import NO_STREAM
from licet.v1.beacon_pb2 import ActiveConfig
from licet.v1.bundle_pb2 import Bundle, RolloutStage
from licet.v1.keys_pb2 import RevocationList
from licet.v1.statement_pb2 import Signed

CONFIG_VERSION = 1
FIRST_GENERATION = 1


class ActivationError(Exception):
    """The bundle was not activated; `str()` says why. What was in force stays."""


@dataclass(frozen=True, slots=True)
class Activation:
    """What is to be in force. `if_newer`: a greater version that is active already stays, without error.

    `generation` and `revocations` are of the first record of a store, and after the old one was lost the next
    generation with what was revoked in the last: where a record is in force, they belong to
    `decider.in_force.change`.
    """

    bundle: Signed
    keyset_file: Path
    root_key_file: Path
    environment: str
    if_newer: bool = False
    generation: int | None = None
    revocations: Signed | None = None


async def activate(wanted: Activation, nats: NatsSettings) -> str:
    """Activate and return one sentence about it. Raises `ActivationError`, `StreamsError`."""
    try:
        keyset, root = read_signed(wanted.keyset_file), read_public(wanted.root_key_file)
    except KeyFileError as error:
        raise ActivationError(str(error)) from error
    connection = await connect(nats, "licet-policy", forever=False)
    try:
        publisher = await Publisher.open(connection)
        return await _activate(wanted, keyset, root, ConfigStore(publisher, wanted.environment))
    except StoreRefused as error:
        if error.err_code != NO_STREAM:
            raise
        raise ActivationError(
            f"environment `{wanted.environment}` has no streams: run `licet streams apply`"
        ) from error
    finally:
        await connection.close()


async def _activate(wanted: Activation, keyset: Signed, root: bytes, store: ConfigStore) -> str:
    now_ms = wall_ms()
    found = await store.active()
    config, seq = found if found is not None else (None, 0)
    if config is not None and (wanted.generation or wanted.revocations):
        raise ActivationError("a generation is in force already: `licet policy generation` begins the next")
    record = _record(wanted, keyset, root, config, now_ms)
    if config is not None and _same(config, record):
        return f"bundle {config.bundle_version} is in force already"
    for artifact in filter(None, (keyset, wanted.bundle, wanted.revocations)):
        await store.put_artifact(artifact)
    configuration = Configuration(store, root, wanted.environment)
    try:
        if config is not None:
            await configuration.load(config, seq, now_ms)
        await configuration.load(record, seq + 1, now_ms)
        new_seq = await store.activate(record, seq)
    except (ConfigurationRefused, ActivationLost) as error:
        raise ActivationError(f"not activated: {error}") from error
    return f"bundle {record.bundle_version} is in force in `{wanted.environment}` as configuration {new_seq}"


def _same(config: ActiveConfig, record: ActiveConfig) -> bool:
    return (config.bundle_sha256, config.keyset_sha256) == (record.bundle_sha256, record.keyset_sha256)


def _record(
    wanted: Activation, keyset: Signed, root: bytes, config: ActiveConfig | None, now_ms: int
) -> ActiveConfig:
    keys = read_keyset(keyset, root, environment=wanted.environment)
    if isinstance(keys, Refusal):
        raise ActivationError(f"key set `{wanted.keyset_file}`: {keys.reason}: {keys.detail}")
    payload = verify(PayloadType.BUNDLE, wanted.bundle, keys, now_ms=now_ms)
    if isinstance(payload, Refusal):
        raise ActivationError(f"the bundle: {payload.reason}: {payload.detail}")
    bundle = Bundle.FromString(payload)
    version = bundle.bundle_version
    fault = waiver_fault(bundle, now_ms)
    if fault:
        raise ActivationError(f"not activated: {fault}")
    record = ActiveConfig(
        version=CONFIG_VERSION,
        environment=wanted.environment,
        generation=wanted.generation or FIRST_GENERATION,
    )
    if config is not None:
        record.CopyFrom(config)
    elif wanted.revocations is not None:
        record.revocations_seq = RevocationList.FromString(wanted.revocations.payload).revocations_seq
        record.revocations_sha256 = artifact_sha256(wanted.revocations)
    if config is None or version >= config.bundle_version:
        record.bundle_version, record.bundle_sha256 = version, artifact_sha256(wanted.bundle)
        if record.candidate_version <= version:  # it is in force now, or came too late
            record.ClearField("candidate_version")
            record.ClearField("candidate_sha256")
    elif not wanted.if_newer:
        raise ActivationError(
            f"bundle {version} is older than {config.bundle_version}, which is in force: "
            "give it a greater version, also for a rollback"
        )
    if config is None or keys.version >= config.keyset_version:
        record.keyset_version, record.keyset_sha256 = keys.version, artifact_sha256(keyset)
    record.activated_at_ms = now_ms
    return record


async def status(environment: str, nats: NatsSettings) -> dict[str, object] | None:
    """Return the active record as plain values, with the bundle's stage; None where there is none.

    Verifies nothing: whoever decides does. Raises `StreamsError`.
    """
    connection = await connect(nats, "licet-policy", forever=False)
    try:
        store = ConfigStore(await Publisher.open(connection), environment)
        found = await store.active()
        raw = await store.artifact(found[0].bundle_sha256.hex()) if found is not None else None
    finally:
        await connection.close()
    if found is None:
        return None
    config, seq = found
    signed = parse_signed(raw or b"")
    return {
        "environment": config.environment,
        "config_seq": seq,
        "generation": config.generation,
        "bundle_version": config.bundle_version,
        "bundle_sha256": config.bundle_sha256.hex(),
        **(_stage(Bundle.FromString(signed.payload)) if isinstance(signed, Signed) else {}),
        "candidate_version": config.candidate_version,
        "keyset_version": config.keyset_version,
        "keyset_sha256": config.keyset_sha256.hex(),
        "revocations_seq": config.revocations_seq,
        "activated_at_ms": config.activated_at_ms,
    }


def _stage(bundle: Bundle) -> dict[str, object]:
    stage = RolloutStage.Name(bundle.stage).removeprefix("ROLLOUT_STAGE_").lower()
    waiver = {"shadow_for_writes_until_ms": bundle.waiver.not_after_ms} if bundle.HasField("waiver") else {}
    return {"stage": stage, **waiver}
