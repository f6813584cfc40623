"""Checks of what lies on this machine: keys, the tool's socket, the spool."""

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from licet.doctor.finding import Finding, ok, problem, skipped
from licet.doctor.settings import DoctorSettings
from licet.keyfile import KeyFileError, read_public, read_signed, read_signing_key
from licet.keys import KeySet, read_keyset
from licet.refusal import Refusal

SOON_MS: Final = 30 * 86_400_000
"""A key that ends within 30 days is named."""

LEAST_FREE_BYTES: Final = 256 << 20
"""A spool may grow to 256 MiB."""


def check_keys(settings: DoctorSettings, *, now_ms: int) -> Finding:
    """Each key file can be read by this process alone, fits the key set, and is within its validity."""
    if not settings.key_files:
        return skipped("keys", "keys_dir", "spend_key_file")
    keys: KeySet | None = None
    found: list[str] = []
    if settings.keys_dir is not None and (settings.keys_dir / "keyset.signed").exists():
        read = _keyset(settings, settings.keys_dir)
        if isinstance(read, str):
            return problem("keys", read, "mount the key set and the root.pub of this environment")
        keys = read
    for path in settings.key_files:
        try:
            found += _faults(path, keys, now_ms)
        except KeyFileError as error:
            found.append(str(error))
    if found:
        return problem(
            "keys", "; ".join(found), "`licet keys check` where the keys are made; mount them again"
        )
    return ok("keys", f"{len(settings.key_files)} key files")


def _keyset(settings: DoctorSettings, directory: Path) -> KeySet | str:
    root = settings.root_key_file or directory / "root.pub"
    try:
        keys = read_keyset(
            read_signed(directory / "keyset.signed"), read_public(root), environment=settings.environment
        )
    except KeyFileError as error:
        return str(error)
    return f"key set: {keys.detail}" if isinstance(keys, Refusal) else keys


def _faults(path: Path, keys: KeySet | None, now_ms: int) -> list[str]:
    held = read_signing_key(path)
    listed = keys.keys.get(held.key_id) if keys is not None else None
    if listed is None:
        return []
    if held.public_key != listed.public_key:
        return [f"`{path}` is not the private half of key `{listed.key_id}`"]
    if not listed.not_before_ms <= now_ms < listed.not_after_ms:
        return [f"key `{listed.key_id}` is outside its validity"]
    if listed.not_after_ms - now_ms < SOON_MS:
        return [f"key `{listed.key_id}` ends within 30 days"]
    return []


def check_socket(settings: DoctorSettings) -> Finding:
    """The tool's socket is there, this process may use it, and nobody outside its group may."""
    path = settings.tool_socket
    if path is None:
        return skipped("socket", "tool_socket")
    try:
        status, above = path.stat(), path.parent.stat()
    except OSError as error:
        return problem(
            "socket", f"`{path}`: {error.strerror}", "is the tool up, and its volume the door's too?"
        )
    if not stat.S_ISSOCK(status.st_mode):
        return problem("socket", f"`{path}` is no socket", "let the tool listen there, not write a file")
    # Whoever may not enter the directory cannot reach the socket, whatever its own mode is.
    if status.st_mode & stat.S_IWOTH and above.st_mode & stat.S_IXOTH:
        return problem(
            "socket", f"`{path}` is open to others", f"chmod 660 '{path}', or umask 0117 in the tool"
        )
    if not os.access(path, os.W_OK):
        return problem("socket", f"this user may not use `{path}`", "give tool and door the same group")
    return ok("socket", str(path))


def check_spool(settings: DoctorSettings) -> Finding:
    """The spool can be written and has room for an outage."""
    path = settings.spool_dir
    if path is None:
        return skipped("spool", "spool_dir")
    there = path if path.exists() else path.parent
    if not os.access(there, os.W_OK | os.X_OK):
        return problem("spool", f"`{there}` cannot be written", "mount a volume that this user may write")
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE_BYTES:
        return problem("spool", f"`{there}` has {free >> 20} MiB left", "make room: a spool may take 256 MiB")
    return ok("spool", f"{there}: {free >> 20} MiB free")
