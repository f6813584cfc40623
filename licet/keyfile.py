"""Keys in files: one line of 64 hex digits each, secrets readable by their owner alone.

A signing key's id is its file's name, or stands behind the digits: so a key that was rotated lies under the
name that processes and Secrets know, with an id of its own.

A public key that everybody may write is refused. So is a secret file that its group or others may read,
with the command that mends it. Kubernetes mounts secrets readable by a group (`defaultMode` with `fsGroup`):
what is refused there is only access by *others* and any right to write.
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
MAX_LINE_BYTES: Final = 256

_LINE: Final = re.compile(rb"([0-9a-fA-F]{64})(?: ([a-z0-9][a-z0-9_.@-]{0,127}))?\r?\n?")
_TOO_OPEN: Final = stat.S_IWGRP | stat.S_IRWXO


class KeyFileError(Exception):
    """A key file is missing, malformed, or open to others; the message never shows its contents."""


def read_signing_key(path: Path) -> SigningKey:
    """Return the signing key in `path`; its id stands in the file, else it is its name without `.key`.

    Raises KeyFileError.
    """
    secret, key_id = _decode(path, _read_closed(path))
    return SigningKey.from_seed(key_id or path.name.removesuffix(SUFFIX), secret)


def read_secret(path: Path) -> bytes:
    """Return the 32 secret bytes in `path`. Raises KeyFileError."""
    return _decode(path, _read_closed(path))[0]


def _read_closed(path: Path) -> bytes:
    mode, text = _read(path)
    if mode & _TOO_OPEN:
        raise KeyFileError(f"key file `{path}` is open to others: chmod 600 '{path}'")
    return text


def _read(path: Path) -> tuple[int, bytes]:
    """Return the mode and the text of one and the same file."""
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_mode, file.read(MAX_LINE_BYTES)
    except OSError as error:
        raise KeyFileError(f"cannot read key file `{path}`: {error.strerror}") from error


def read_public(path: Path) -> bytes:
    """Return the 32 bytes of the public key in `path`. Raises KeyFileError.

    One that everybody may write is refused: whoever names the root key is believed in everything.
    """
    mode, text = _read(path)
    if mode & stat.S_IWOTH:
        raise KeyFileError(f"everybody may write key file `{path}`: chmod 644 '{path}'")
    return _decode(path, text)[0]


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


def write_secret(path: Path, secret: bytes, key_id: str = "") -> None:
    """Write 32 secret bytes to the new file `path`, mode 0600 from its first moment, synced to disk.

    `key_id`: the key's id, where it is not the file's name. Raises FileExistsError rather than replace a key.
    """
    write_new(path, secret_line(secret, key_id), SECRET_MODE)


def secret_line(secret: bytes, key_id: str = "") -> bytes:
    """Return what a key file holds; `key_id` where the key's id is not the file's name."""
    return f"{secret.hex()} {key_id}".strip().encode() + b"\n"


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


def _decode(path: Path, text: bytes) -> tuple[bytes, str]:
    """Return the 32 bytes and the id behind them, empty where there is none."""
    found = _LINE.fullmatch(text)
    if found is None:
        raise KeyFileError(f"key file `{path}` must hold one line of 64 hex digits")
    return bytes.fromhex(found[1].decode("ascii")), (found[2] or b"").decode("ascii")
