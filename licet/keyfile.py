"""Keys in files: one line of 64 hex digits each, secrets readable by their owner alone.

A secret file that its group or others may read is refused, with the command that mends it. Kubernetes mounts
secrets readable by a group (`defaultMode` with `fsGroup`): what is refused there is only access by *others*
and any right to write.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

from licet.refusal import Refusal
from licet.statement import SigningKey, parse_signed
from licet.v1.statement_pb2 import Signed

SECRET_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
SUFFIX: Final = ".key"
MAX_FILE_BYTES: Final = 1 << 20

_LINE: Final = re.compile(rb"[0-9a-fA-F]{64}\r?\n?")
_TOO_OPEN: Final = stat.S_IWGRP | stat.S_IRWXO


class KeyFileError(Exception):
    """A key file is missing, malformed, or open to others; the message never shows its contents."""


def read_signing_key(path: Path) -> SigningKey:
    """Return the signing key in `path`; its id is the file's name without `.key`.

    Raises KeyFileError.
    """
    return SigningKey.from_seed(path.name.removesuffix(SUFFIX), read_secret(path))


def read_secret(path: Path) -> bytes:
    """Return the 32 secret bytes in `path`. Raises KeyFileError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(128)
    except OSError as error:
        raise KeyFileError(f"cannot read key file `{path}`: {error.strerror}") from error
    if mode & _TOO_OPEN:
        raise KeyFileError(f"key file `{path}` is open to others: chmod 600 '{path}'")
    return _decode(path, text)


def read_public(path: Path) -> bytes:
    """Return the 32 bytes of the public key in `path`. Raises KeyFileError."""
    try:
        with path.open("rb") as file:
            return _decode(path, file.read(128))
    except OSError as error:
        raise KeyFileError(f"cannot read key file `{path}`: {error.strerror}") from error


def read_signed(path: Path) -> Signed:
    """Return the signed artifact in `path`, not yet verified. Raises KeyFileError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise KeyFileError(f"cannot read `{path}`: {error.strerror}") from error
    signed = parse_signed(raw)
    if isinstance(signed, Refusal):
        raise KeyFileError(f"`{path}` is no signed artifact: {signed.detail}")
    return signed


def write_secret(path: Path, secret: bytes) -> None:
    """Write 32 secret bytes to the new file `path`, mode 0600 from its first moment, synced to disk.

    Raises FileExistsError rather than replace a key.
    """
    write_new(path, secret.hex().encode() + b"\n", SECRET_MODE)


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not exist yet, whole or not at all. Raises FileExistsError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.link(partial, path)  # unlike rename, fails when the name is taken
    finally:
        partial.unlink()


def _decode(path: Path, text: bytes) -> bytes:
    if _LINE.fullmatch(text) is None:
        raise KeyFileError(f"key file `{path}` must hold one line of 64 hex digits")
    return bytes.fromhex(text.decode("ascii"))
