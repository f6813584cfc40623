"""Every key of an environment in one directory, for development: real roles, no safekeeping.

In production the root, bundle and catalog keys are held offline by people, and each process gets its own
secret alone. Here one directory holds them all, the root key included, and says so in a file of its own.
"""

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from licet.call.digest import tool_key
from licet.identity import (
    agent_id,
    audience_of,
    audit_writer_id,
    decider_id,
    reconciler_id,
    sidecar_id,
    subject_token,
)
from licet.keyfile import (
    DIRECTORY_MODE,
    KeyFileError,
    read_public,
    read_secret,
    read_signed,
    read_signing_key,
    write_new,
    write_secret,
)
from licet.keys import KeyRole, KeySet, PublicKey, make_keyset, read_keyset
from licet.refusal import Refusal
from licet.statement import PayloadType, SigningKey, canonical

GENERATION: Final = 1
GENERATIONS: Final = range(GENERATION, 65)
"""Generations whose keys are known again as such."""
LIFE_MS: Final = 10 * 365 * 86_400_000
BACKDATED_MS: Final = 86_400_000
"""Valid from a day ago: a container whose clock is slow must not refuse keys made a moment ago."""
KEYSET: Final = "keyset.signed"
WARNING: Final = """DEVELOPMENT ONLY

This directory holds every secret of environment `{environment}`: the root key, the decider's, the bundle and
catalog keys, the master key. Whoever can read it can allow any tool call and sign any record of it.

Do not use these keys for anything real. In production the root, bundle and catalog keys stay offline with
people, and each process is given its own secret and nothing else.
"""


def make_dev_keys(
    directory: Path,
    environment: str,
    tools: Iterable[str],
    agents: Iterable[str],
    trust_domain: str,
    *,
    approvers: Mapping[str, tuple[str, ...]] | None = None,
    tenants: Iterable[str] = (),
    now_ms: int | None = None,
) -> KeySet:
    """Make whatever key is missing in `directory` and the key set over all of them; idempotent.

    Args:
        directory: made with mode 0700.
        environment: the one environment of every key.
        tools: each gets a spend key, a checkpoint key and its K_tool.
        agents: each gets a delegator key.
        trust_domain: of the owners' SPIFFE ids.
        approvers: subject to approver roles; each gets an approver key.
        tenants: each gets a payload key, under which its payloads are sealed.
        now_ms: Unix ms; the clock's when None.

    Returns:
        The key set in force. Its version grows only when a key was added or changed.

    Raises:
        KeyFileError: a file in the directory is damaged, open to others, or of another environment.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    with suppress(FileExistsError):
        write_new(directory / "README", WARNING.format(environment=environment).encode(), 0o644)
    root = _signing_key(directory, "root")
    _publish_root(directory / "root.pub", root)
    tools = tuple(tools)
    for tool in tools:
        _tool_key(directory, audience_of(trust_domain, environment, tool), tool)
    listed = [
        *_owners(environment, tools, trust_domain),
        *_people(environment, agents, approvers or {}, trust_domain),
        *(_payload_key(environment, tenant) for tenant in tenants),
    ]
    wanted = [
        replace(
            key,
            key_id=held.key_id,
            public_key=held.public_key,
            not_before_ms=now - BACKDATED_MS,
            not_after_ms=now + LIFE_MS,
        )
        for key, held in ((key, _signing_key(directory, key.key_id)) for key in listed)
    ]
    return _write_keyset(directory / KEYSET, root, environment, wanted)


def _owners(environment: str, tools: tuple[str, ...], trust_domain: str) -> Iterator[PublicKey]:
    decider = decider_id(trust_domain, environment)

    def key(key_id: str, role: KeyRole, owner: str = "", audience: str = "") -> PublicKey:
        return PublicKey(key_id, role, environment, b"", 0, 0, owner=owner, audience=audience)

    yield key("decider", KeyRole.DECIDER, decider)
    yield key("beacon", KeyRole.BEACON, decider)
    yield key("bundle", KeyRole.BUNDLE)
    yield key("catalog", KeyRole.CATALOG)
    yield key("task", KeyRole.TASK)
    yield key("delegator", KeyRole.DELEGATOR)
    yield key("checkpoint-decider", KeyRole.CHECKPOINT, decider)
    yield key("checkpoint-audit", KeyRole.CHECKPOINT, audit_writer_id(trust_domain, environment))
    yield key("checkpoint-reconciler", KeyRole.CHECKPOINT, reconciler_id(trust_domain, environment))
    for tool in tools:
        owner, audience = (
            sidecar_id(trust_domain, environment, tool),
            audience_of(trust_domain, environment, tool),
        )
        yield key(f"spend-{tool}", KeyRole.SPEND, owner, audience)
        yield key(f"checkpoint-sidecar-{tool}", KeyRole.CHECKPOINT, owner, audience)


def _people(
    environment: str, agents: Iterable[str], approvers: Mapping[str, tuple[str, ...]], trust_domain: str
) -> Iterator[PublicKey]:
    for agent in agents:
        owner = agent_id(trust_domain, environment, agent)
        yield PublicKey(f"delegator-{agent}", KeyRole.DELEGATOR, environment, b"", 0, 0, owner=owner)
    for subject, roles in approvers.items():
        yield PublicKey(
            f"approver-{subject}",
            KeyRole.APPROVER,
            environment,
            b"",
            0,
            0,
            owner=subject,
            approver_roles=roles,
        )


def _payload_key(environment: str, tenant: str) -> PublicKey:
    """Return the entry of a tenant's payload key. Raises ValueError for a name that cannot be a file's."""
    key_id = f"payload-{subject_token(tenant)}"
    return PublicKey(key_id, KeyRole.PAYLOAD, environment, b"", 0, 0, owner=tenant)


def _signing_key(directory: Path, key_id: str) -> SigningKey:
    path = directory / f"{key_id}.key"
    with suppress(FileExistsError):
        if not path.exists():
            write_secret(path, secrets.token_bytes(32))
    return read_signing_key(path)


def _publish_root(path: Path, root: SigningKey) -> None:
    with suppress(FileExistsError):
        write_new(path, root.public_key.hex().encode() + b"\n", 0o644)
    if read_public(path) != root.public_key:
        raise KeyFileError(f"`{path}` is not the public half of root.key")


def _tool_key(directory: Path, audience: str, tool: str) -> None:
    master = directory / "master.key"
    with suppress(FileExistsError):
        if not master.exists():
            write_secret(master, secrets.token_bytes(32))
    secret = read_secret(master)
    path = directory / f"tool-{tool}.key"
    if path.exists():
        held = read_secret(path)
        if any(held == tool_key(secret, audience, number) for number in GENERATIONS):
            return  # a later generation's was put there on purpose
        path.unlink()
    write_secret(path, tool_key(secret, audience, GENERATION))


def _write_keyset(path: Path, root: SigningKey, environment: str, wanted: list[PublicKey]) -> KeySet:
    """Keep what the key set says of a key that is still the same; a key no longer asked for stays in it."""
    before = _read(path, root, environment) if path.exists() else None
    keys = dict(before.keys) if before else {}
    for key in wanted:
        held = keys.get(key.key_id)
        if held is None or _without_times(held) != _without_times(key):
            keys[key.key_id] = key
    if before is not None and keys == dict(before.keys):
        return before
    version = before.version + 1 if before else 1
    signed = root.sign(PayloadType.KEYSET, make_keyset(environment, version, keys.values()))
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(canonical(signed))
    partial.replace(path)
    return _read(path, root, environment)


def _read(path: Path, root: SigningKey, environment: str) -> KeySet:
    keys = read_keyset(read_signed(path), root.public_key, environment=environment)
    if isinstance(keys, Refusal):
        raise KeyFileError(f"`{path}`: {keys.detail}")
    return keys


def _without_times(key: PublicKey) -> PublicKey:
    return replace(key, not_before_ms=0, not_after_ms=0)
