"""Takes the next key in the place of a current one, and makes the tools' digest keys of a new generation.

Guarantees: for a while the key set holds both keys, so what the current one signed stays good until its time
is over, and the next one is known before its process signs with it. A key's file keeps its name; the next
key's id stands in it. Whatever fails leaves the files as they were, or may be run again.
"""

import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from licet.call.digest import tool_key
from licet.clock import wall_ms
from licet.embedded.dev_keys import BACKDATED_MS, KEYSET, LIFE_MS
from licet.identity import audience_of
from licet.keyfile import (
    SUFFIX,
    KeyFileError,
    read_secret,
    read_signed,
    read_signing_key,
    write_new,
    write_secret,
)
from licet.keys import KeySet, PublicKey, make_keyset, read_keyset
from licet.refusal import Refusal
from licet.statement import PayloadType, SigningKey, canonical

HOUR_MS: Final = 3_600_000
OVERLAP_H: Final = 48
"""Longer than a spend is kept where it is read again (24 h), and than any permit or hold lives."""

_NUMBERED: Final = re.compile(r"(.+)-([2-9]|[1-9][0-9]+)")


def rotate(
    directory: Path, environment: str, name: str, *, overlap_h: int = OVERLAP_H, now_ms: int | None = None
) -> tuple[str, str, KeySet]:
    """Make the next key of `<name>.key` and a key set that holds both; return both ids and the set.

    The current key ends `overlap_h` hours from now. Needs root.key. Raises KeyFileError.
    """
    now = wall_ms() if now_ms is None else now_ms
    path = directory / f"{name}{SUFFIX}"
    root, held = read_signing_key(directory / "root.key"), read_signing_key(path)
    keys = _keyset(directory, root, environment)
    current = keys.keys.get(held.key_id)
    if current is None or current.public_key != held.public_key:
        raise KeyFileError(f"`{path}` is no key of key set {keys.version}: run `licet keys check`")
    seed = secrets.token_bytes(32)
    following = SigningKey.from_seed(next_id(held.key_id, keys.keys), seed)
    listed = {
        **keys.keys,
        held.key_id: replace(current, not_after_ms=min(current.not_after_ms, now + overlap_h * HOUR_MS)),
        following.key_id: replace(
            current,
            key_id=following.key_id,
            public_key=following.public_key,
            not_before_ms=now - BACKDATED_MS,
            not_after_ms=now + LIFE_MS,
        ),
    }
    partial = path.with_name(f".{path.name}.next")
    with suppress(FileNotFoundError):
        partial.unlink()  # of a run that was cut off
    write_secret(partial, seed, following.key_id)
    new = _write_keyset(directory, root, environment, keys.version + 1, listed.values())
    partial.replace(path)
    return held.key_id, following.key_id, new


def next_id(key_id: str, taken: Iterable[str]) -> str:
    """Return the first id after `key_id` that is not taken: `decider`, `decider-2`, `decider-3`."""
    numbered = _NUMBERED.fullmatch(key_id)
    stem, number = (numbered[1], int(numbered[2])) if numbered else (key_id, 1)
    used = set(taken)
    while True:
        number += 1
        if f"{stem}-{number}" not in used:
            return f"{stem}-{number}"


def derive_tool_keys(
    directory: Path, environment: str, tools: Iterable[str], trust_domain: str, generation: int
) -> list[Path]:
    """Write each tool's digest key of a generation in the place of its file; return the files.

    Needs master.key. Raises KeyFileError.
    """
    master = read_secret(directory / "master.key")
    written = []
    for tool in tools:
        path = directory / f"tool-{tool}{SUFFIX}"
        partial = path.with_name(f".{path.name}.next")
        with suppress(FileNotFoundError):
            partial.unlink()
        write_secret(partial, tool_key(master, audience_of(trust_domain, environment, tool), generation))
        partial.replace(path)
        written.append(path)
    return written


def _keyset(directory: Path, root: SigningKey, environment: str) -> KeySet:
    keys = read_keyset(read_signed(directory / KEYSET), root.public_key, environment=environment)
    if isinstance(keys, Refusal):
        raise KeyFileError(f"`{directory / KEYSET}`: {keys.detail}")
    return keys


def _write_keyset(
    directory: Path, root: SigningKey, environment: str, version: int, keys: Iterable[PublicKey]
) -> KeySet:
    signed = root.sign(PayloadType.KEYSET, make_keyset(environment, version, keys))
    made = read_keyset(signed, root.public_key, environment=environment)
    if isinstance(made, Refusal):
        raise KeyFileError(f"no key set was written: {made.detail}")
    partial = directory / f".{KEYSET}.next"
    partial.unlink(missing_ok=True)
    write_new(partial, canonical(signed), 0o644)
    partial.replace(directory / KEYSET)
    return made
