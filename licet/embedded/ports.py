"""Loopback ports for servers that are about to start, and their numbers kept so that addresses stay valid.

A port comes from below the range that kernels draw from for outgoing connections (RFC 6335 begins its dynamic
range at 49152, Linux at 32768): a port from within could be taken, while its server starts or is down, by any
connection that somebody opens. Processes of one user claim what they chose until they end, by a lock on one
byte of one file, so that two that choose at once choose apart.
"""

import fcntl
import json
import os
import random
import socket
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

FIRST_PORT: Final = 10_240
LAST_PORT: Final = 32_767
_TRIES: Final = 1_000
_MODE: Final = 0o600

_ours: set[int] = set()
_chance = random.SystemRandom()


class NoPortError(OSError):
    """No port was found free and unclaimed."""


def free_port() -> int:
    """Give a loopback port on which nothing listens, claimed for this process until it ends.

    Not guaranteed: that programs of other users, or such as do not ask here, leave it alone.

    Raises:
        NoPortError: a thousand ports in turn were taken.
    """
    for _ in range(_TRIES):
        port = _chance.randint(FIRST_PORT, LAST_PORT)
        if claim(port) and _can_bind(port):
            return port
    raise NoPortError(f"no free port between {FIRST_PORT} and {LAST_PORT}")


def claim(port: int) -> bool:
    """Claim `port` for this process until it ends; False when it is claimed already, by whomever."""
    if port in _ours:
        return False
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _ours.add(port)
    return True


def keep_ports(file: Path, names: Iterable[str]) -> dict[str, int]:
    """Return a port for each name: the one in `file`, else one that is free now, which is then kept there.

    Not guaranteed: that a kept port is free today; whoever listens on it first has it.
    """
    kept = {name: int(port) for name, port in json.loads(file.read_text()).items()} if file.exists() else {}
    for port in kept.values():
        claim(port)
    ports = {name: kept.get(name) or free_port() for name in names}
    if not ports.items() <= kept.items():
        file.write_text(json.dumps({**kept, **ports}, indent=2) + "\n")
    return ports


@cache
def _claims() -> int:
    """Open the file whose bytes are locked. Kept open: closing any handle of it would drop every claim."""
    path = Path(tempfile.gettempdir()) / f"licet-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
