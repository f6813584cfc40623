"""Makes a signed bundle the one in force: artifacts first, then one compare-and-set of the active record.

Guarantees: the record that becomes active passes every check that a decider makes before it takes it, so a
bad bundle changes nothing; of two activations at once one loses and says so. Not guaranteed: that every
decider has heard; the beacon says which version each door knows.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from decider.configuration import Configuration, ConfigurationRefused
from licet.keyfile import KeyFileError, read_public, read_signed
from licet.keys import read_keyset
from licet.refusal import Refusal
from licet.statement import PayloadType, artifact_sha256, verify
from licet.streams import ActivationLost, ConfigStore, NatsSettings, Publisher, StoreRefused, connect
from licet.streams.api import NO_STREAM
from licet.v1.beacon_pb2 import ActiveConfig
from licet.v1.bundle_pb2 import Bundle
from licet.v1.statement_pb2 import Signed

CONFIG_VERSION = 1
FIRST_GENERATION = 1


class ActivationError(Exception):
    """The bundle was not activated; `str()` says why. What was in force stays."""


@dataclass(frozen=True, slots=True)
class Activation:
    """What is to be in force. `if_newer`: a greater version that is active already stays, without error."""

    bundle: Signed
    keyset_file: Path
    root_key_file: Path
    environment: str
    if_newer: bool = False


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
    now_ms = time.time_ns() // 1_000_000
    found = await store.active()
    config, seq = found if found is not None else (None, 0)
    record = _record(wanted, keyset, root, config, now_ms)
    if config is not None and _same(config, record):
        return f"bundle {config.bundle_version} is in force already"
    for artifact in (keyset, wanted.bundle):
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
    version = Bundle.FromString(payload).bundle_version
    record = ActiveConfig(version=CONFIG_VERSION, environment=wanted.environment, generation=FIRST_GENERATION)
    if config is not None:
        record.CopyFrom(config)
    if config is None or version >= config.bundle_version:
        record.bundle_version, record.bundle_sha256 = version, artifact_sha256(wanted.bundle)
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
    """Return the active record as plain values; None where there is none. Raises `StreamsError`."""
    connection = await connect(nats, "licet-policy", forever=False)
    try:
        found = await ConfigStore(await Publisher.open(connection), environment).active()
    finally:
        await connection.close()
    if found is None:
        return None
    config, seq = found
    return {
        "environment": config.environment,
        "config_seq": seq,
        "generation": config.generation,
        "bundle_version": config.bundle_version,
        "bundle_sha256": config.bundle_sha256.hex(),
        "keyset_version": config.keyset_version,
        "keyset_sha256": config.keyset_sha256.hex(),
        "revocations_seq": config.revocations_seq,
        "activated_at_ms": config.activated_at_ms,
    }
