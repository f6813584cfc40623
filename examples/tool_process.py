"""What every example's tool is as a process: its settings, its own count of calls, its socket, its end.

LICET_TOOL_SOCKET      path of the socket; made with mode 0660, replaced when it is there
LICET_TOOL_CALLS_FILE  one JSON line for each call that enters a handler, written before any work; optional
LICET_ENVIRONMENT LICET_TRUST_DOMAIN LICET_TOOL   which tool of which environment it is
LICET_CATALOG LICET_ROOT_KEY_FILE LICET_TOOL_KEY_FILE   signed catalog, root.pub, the tool's digest key
LICET_GENERATION       of the stores that the tool's key was derived for (1)
"""

import json
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import grpc
from google.protobuf.message import DecodeError

from licet import metadata
from licet.guard import Anchor
from licet.identity import TRUST_DOMAIN_DEV, audience_of
from licet.keyfile import read_public, read_secret, read_signed
from licet.v1 import decision_pb2, statement_pb2

STOP_S: Final = 3.0
MAX_SOCKET_BYTES: Final = 107
"""sun_path of Linux, less its end."""


class CallsFile:
    """The tool's own count of calls: one line each, before any work, whatever comes of it."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if path else -1

    def note(self, method: str, context: grpc.ServicerContext) -> None:
        """Write method, attempt and the spend id that the permit claims; nothing is verified here."""
        if self._file < 0:
            return
        sent = dict(context.invocation_metadata())
        line = {
            "method": method,
            "attempt": sent.get(metadata.ATTEMPT, ""),
            "spend_id": _claimed_spend_id(sent.get(metadata.PERMIT, b"")),
        }
        os.write(self._file, json.dumps(line).encode() + b"\n")  # one write with O_APPEND: lines never mix


def _claimed_spend_id(permit: str | bytes) -> str:
    try:
        signed = statement_pb2.Signed.FromString(permit if isinstance(permit, bytes) else b"")
        return decision_pb2.Decision.FromString(signed.payload).spend_id
    except DecodeError:
        return ""


def read_anchor(environ: Mapping[str, str], tool: str) -> Anchor:
    """Return what the guard trusts; `tool` where the environment names none.

    Raises KeyError for what is missing, KeyFileError and ValueError for what is wrong.
    """
    environment = environ.get("LICET_ENVIRONMENT", "dev")
    trust_domain = environ.get("LICET_TRUST_DOMAIN", TRUST_DOMAIN_DEV)
    return Anchor(
        environment=environment,
        audience=audience_of(trust_domain, environment, environ.get("LICET_TOOL", tool)),
        root_public_key=read_public(Path(environ["LICET_ROOT_KEY_FILE"])),
        catalog=read_signed(Path(environ["LICET_CATALOG"])),
        tool_key=read_secret(Path(environ["LICET_TOOL_KEY_FILE"])),
        generation=int(environ.get("LICET_GENERATION", "1")),
    )


def bind_socket(server: grpc.Server, path: Path) -> None:
    """Bind with mode 0660: owner and group (the sidecar's) only. Raises ValueError, RuntimeError."""
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise ValueError(f"the path of the socket is longer than {MAX_SOCKET_BYTES} bytes: `{path}`")
    path.unlink(missing_ok=True)
    mask = os.umask(0o117)
    try:
        server.add_insecure_port(f"unix:{path}")
    finally:
        os.umask(mask)


def run(server: grpc.Server) -> None:
    """Serve until SIGTERM or SIGINT."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    server.start()
    while not stopping.wait(1.0):
        pass  # without a timeout, a signal that comes just before the wait, or to another thread, is not seen
    server.stop(STOP_S).wait()
