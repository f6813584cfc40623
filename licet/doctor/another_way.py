"""Is there another way to the tool than its door? A tool that listens on TCP can be called past it."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from licet.doctor.finding import Finding, ok, problem, skipped
from licet.doctor.settings import DoctorSettings

LISTENING: Final = "0A"
PROC: Final = Path("/proc")


def check_another_way(settings: DoctorSettings) -> Finding:
    """The tool's process listens on no TCP port."""
    if settings.tool_socket is None:
        return skipped("another way", "tool_socket")
    try:
        ports = other_ports(_listener(settings.tool_socket), settings.own_ports)
    except OSError as error:
        return problem("another way", f"cannot look: {error}", "is the tool up? run this as the door's user")
    if ports:
        named = ", ".join(str(port) for port in sorted(ports))
        return problem(
            "another way",
            f"something beside the door listens on TCP: {named}",
            "let the tool listen on its socket alone",
        )
    return ok("another way", "no TCP port but the door's")


def other_ports(pid: int, own: frozenset[int], proc: Path = PROC) -> set[int]:
    """Return TCP ports past the door.

    Where the kernel says which process has the socket, that process's ports count. Where it does not (`pid`
    is 0: the tool is in another process namespace, as in a pod), every port of this network namespace counts
    but the door's own. Raises OSError.
    """
    return _ports_of(pid, proc) if pid else _ports(proc / "self") - own


def _listener(path: Path) -> int:
    """Return the process that listens on a Unix socket; 0 when it is in another namespace."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        probe.connect(str(path))
        raw = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", raw)[0]
    return pid


def _ports_of(pid: int, proc: Path) -> set[int]:
    own = set()
    for entry in (proc / str(pid) / "fd").iterdir():
        try:
            own.add(str(entry.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    return {port for port, inode in _listening(proc / str(pid)) if f"socket:[{inode}]" in own}


def _ports(process: Path) -> set[int]:
    return {port for port, _ in _listening(process)}


def _listening(process: Path) -> Iterator[tuple[int, str]]:
    """Port and inode of every listening TCP socket of a process's network namespace (proc(5))."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (process / "net" / table).read_text("ascii").splitlines()[1:]
        except FileNotFoundError:  # no IPv6 here
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTENING:
                yield int(fields[1].rpartition(":")[2], 16), fields[9]
