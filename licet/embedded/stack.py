"""The whole house on one machine: nats-server, the ClickHouse engine, decider, tool, sidecars, audit.

Guarantees
- Each part is the part that production runs, as its own process, over the same wires; only the ClickHouse
  server (the same engine, embedded) and the identities (development, on loopback, said loudly) are different.
- A second start on the same directory goes on with the same data, keys and ports; two at once are refused.
- `stop` ends every child by its own pid, in the order that loses nothing; a killed supervisor leaves none.

Not for production: every key lies in one directory.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from licet.embedded.dev_issuer import make_dev_issuer
from licet.embedded.dev_keys import make_dev_keys
from licet.embedded.environments import Environments, metrics_port
from licet.embedded.layout import DataLayout, exports
from licet.embedded.nats_accounts import SETUP
from licet.embedded.nats_server import NatsCluster, NatsServer, NatsServerError
from licet.embedded.otlp_receiver import OtlpReceiver
from licet.embedded.own_directory import take_directory
from licet.embedded.ports import keep_ports
from licet.embedded.process import Process, StartError, accepts_tcp, answers_http, run_together, stop_together
from licet.embedded.project import Project, ToolCommand
from licet.embedded.trace_store import TraceStore
from licet.identity import TRUST_DOMAIN_DEV
from licet.streams import EMBEDDED_SIZES, Connection, StoreRefused, StreamsError, apply_streams, connect

SOCKET_MODE_DIRECTORY: Final = 0o750
LICET: Final = (sys.executable, "-m", "licet")
MAX_SOCKET_PATH: Final = 107
"""Bytes of a Unix socket's path on Linux (unix(7), sun_path without its zero byte)."""

NO_PEERS: Final = 10005  # the server's number for: no suitable peers for placement
PEERS_S: Final = 60.0  # how long the servers of a cluster may take to find one another

AUDIT_PARTS: Final = frozenset({"writer", "reconciler"})
"""What needs the store's schema before it starts."""
CALLING: Final = ("sidecar-", "reconciler")
ENFORCING: Final = ("decider", "tool-", "writer")
KEEPING: Final = ("front",)
"""Groups of processes in the order in which they stop: whoever calls stops before whom it calls."""

Progress = Callable[[str], None]


def _quiet(_: str) -> None:
    """Say nothing."""


class Stack:
    """The running house.

    Args:
        directory: the data directory; made when missing.
        project: what to run.
        replicas: sidecars beside each tool.
        nats_servers: more than one keep JetStream together, each stream on all of them.
        otlp_endpoint: where spans go; None keeps them in a local file.
        progress: is told each step in a few words.

    Raises:
        StartError: the directory is in use, or its path is too long for sockets in it.
    """

    def __init__(
        self,
        directory: Path,
        project: Project,
        *,
        replicas: int = 1,
        nats_servers: int = 1,
        otlp_endpoint: str | None = None,
        progress: Progress = _quiet,
    ) -> None:
        self.layout = DataLayout(directory.resolve())
        self.project = project
        self.replicas = replicas
        self._progress = progress
        self._receiver: OtlpReceiver | None = None
        self._traces: TraceStore | None = None
        tools = [tool.name for tool in project.tools]
        _check_socket_paths(self.layout, tools)
        self._lock = take_directory(self.layout)
        sidecars = [f"sidecar-{tool}-{replica}" for tool in tools for replica in range(replicas)]
        self._scraped = ("decider", *sidecars, "writer", "reconciler")
        names = ("front", "decider", "otlp", *sidecars, *map(metrics_port, self._scraped))
        self._ports = keep_ports(self.layout.ports, names)
        self._keeps_traces = otlp_endpoint is None
        self.otlp_endpoint = otlp_endpoint or f"http://127.0.0.1:{self._ports['otlp']}"
        self._nats_servers = nats_servers
        self.nats = _nats(self.layout.nats, project.environment, tools, nats_servers)
        self._told = Environments(self.layout, project, self.nats, self._ports, self.otlp_endpoint)
        self.processes: dict[str, Process] = {one.name: one for one in self._make_processes()}

    # --- life ---

    def start(self) -> None:
        """Start everything and return when it answers.

        Raises:
            StartError: a part did not start; the message ends with its log's end. Nothing is left running.
        """
        try:
            self._start()
        except (NatsServerError, StreamsError) as error:
            self.stop()
            raise StartError(str(error)) from error
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self._progress("keys, NATS, ClickHouse engine")
        for directory in (self.layout.root / "run", self.layout.root / "catalog"):
            directory.mkdir(exist_ok=True, mode=SOCKET_MODE_DIRECTORY)
        self._forget_last_run()
        self.layout.ledger_readers.write_text(self._told.ledger_readers())
        self.processes["front"].start()
        self.nats.launch()
        self._start_receiver()
        tools = [tool.name for tool in self.project.tools]
        make_dev_keys(
            self.layout.keys,
            self.project.environment,
            tools,
            (),
            TRUST_DOMAIN_DEV,
            approvers=self.project.approvers,
            tenants=self.project.tenants(),
        )
        make_dev_issuer(self.layout.keys)
        self.nats.wait_ready()
        self._progress("streams, catalog, bundle, schema")
        asyncio.run(self._apply_streams())
        run_together([*self._build_catalogs(), self._activate_bundle(), *self._seeds()])
        for tool in self.project.tools:
            self._seeded(tool).touch()
        self._progress("tool, decider, sidecars")
        called = [name for name in self.processes if name not in AUDIT_PARTS]
        for name in called:
            self.processes[name].start()
        self.processes["front"].wait_ready()
        self._migrate().run()
        self._progress("audit")
        for name in self.processes:
            self.processes[name].start()
        for name in self.processes:
            self.processes[name].wait_ready()
        self._write_addresses()

    def stop(self) -> None:
        """Stop everything: first who decides and enforces, then who keeps, then the servers."""
        for group in (CALLING, ENFORCING, KEEPING):
            stop_together([one for name, one in self.processes.items() if name.startswith(group)])
        self.nats.stop()
        if self._receiver is not None:
            self._receiver.stop()
            self._receiver = None
        if self._traces is not None:
            self._traces.close()
            self._traces = None
        self.layout.addresses.unlink(missing_ok=True)
        self.layout.shell.unlink(missing_ok=True)

    def close(self) -> None:
        """Stop everything and give the data directory free."""
        self.stop()
        os.close(self._lock)

    def restart(self, *names: str) -> None:
        """Start processes again that were stopped or killed, and wait until they answer."""
        for name in names:
            self.layout.port_file(name).unlink(missing_ok=True)
            self.layout.health_port_file(name).unlink(missing_ok=True)
            self.processes[name].start()
        for name in names:
            self.processes[name].wait_ready()

    # --- addresses ---

    @property
    def decider(self) -> str:
        """Address of the decider."""
        return self._told.listen("decider")

    def sidecar(self, tool: str, replica: int = 0) -> str:
        """Address of one sidecar of a tool."""
        return self._told.listen(f"sidecar-{tool}-{replica}")

    @property
    def clickhouse_url(self) -> str:
        """URL of the ClickHouse front."""
        return self._told.clickhouse_url

    def audit_environment(self) -> dict[str, str]:
        """Return the variables that `licet audit` commands need to ask this stack, NATS user included."""
        return {**self._told.shared("audit"), **self._told.writer()}

    @property
    def metrics(self) -> dict[str, str]:
        """Addresses where Prometheus may scrape `/metrics`, by process."""
        return {process: self._told.listen(metrics_port(process)) for process in self._scraped}

    @property
    def traces(self) -> TraceStore | None:
        """The local trace store; None when spans go elsewhere."""
        return self._traces

    # --- parts ---

    def _make_processes(self) -> Iterator[Process]:
        told = self._told
        front = ("audit", "front", "--path", str(self.layout.clickhouse), "--listen", told.listen("front"))
        password = {"LICET_CLICKHOUSE_PASSWORD_FILE": str(self.layout.clickhouse_password)}
        yield self._server("front", front, password)
        yield self._licet("writer", ("audit", "write"), told.writer())
        for tool in self.project.tools:
            yield self._tool(tool)
        yield self._server("decider", ("decider", "serve"), told.decider())
        for tool in self.project.tools:
            for replica in range(self.replicas):
                name = f"sidecar-{tool.name}-{replica}"
                yield self._door(name, told.sidecar(tool.name, replica))
        yield self._licet("reconciler", ("audit", "reconcile"), told.reconciler())

    def _server(self, name: str, command: tuple[str, ...], environment: dict[str, str]) -> Process:
        port, file = self._ports[name], self.layout.port_file(name)

        def ready() -> bool:
            return file.exists() and accepts_tcp(port)

        return self._licet(name, command, {**environment, "LICET_PORT_FILE": str(file)}, ready)

    def _door(self, name: str, environment: dict[str, str]) -> Process:
        """A sidecar is ready when it says so itself: it listens before it has heard of the first beacon."""
        files = {
            "LICET_PORT_FILE": str(self.layout.port_file(name)),
            "LICET_HEALTH_PORT_FILE": str(self.layout.health_port_file(name)),
        }
        file = self.layout.health_port_file(name)

        def ready() -> bool:
            return file.exists() and answers_http(int(file.read_text()), "/ready")

        return self._licet(name, ("sidecar", "serve"), {**environment, **files}, ready)

    def _licet(
        self,
        name: str,
        command: tuple[str, ...],
        environment: dict[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
    ) -> Process:
        return Process(
            name,
            (*LICET, *command),
            log=self.layout.log(name),
            environment={**self._told.shared(name), **(environment or {})},
            ready=ready,
        )

    def _tool(self, tool: ToolCommand) -> Process:
        return Process(
            f"tool-{tool.name}",
            self._told.words(tool.command, tool),
            log=self.layout.log(f"tool-{tool.name}"),
            environment=self._told.tool(tool),
            ready=self.layout.socket(tool.name).exists,
        )

    # --- steps ---

    def _build_catalogs(self) -> Iterator[Process]:
        policy, key = str(self.project.policy), str(self.layout.keys / "catalog.key")
        for tool in self.project.tools:
            out = str(self.layout.catalog(tool.name))
            command = ("catalog", "build", "--policy", policy, "--key", key, "--out", out)
            yield self._licet(f"catalog-build-{tool.name}", command)

    def _activate_bundle(self) -> Process:
        key = str(self.layout.keys / "bundle.key")
        command = ("policy", "activate", str(self.project.policy), "--key", key, "--if-newer")
        return self._licet("policy-activate", command, self._told.setup())

    def _migrate(self) -> Process:
        return self._licet("audit-migrate", ("audit", "migrate"), self._told.store())

    def _seeds(self) -> Iterator[Process]:
        """What makes the tools' first data: once for a data directory."""
        for tool in self.project.tools:
            self.layout.tool(tool.name).mkdir(parents=True, exist_ok=True)
            if tool.seed and not self._seeded(tool).exists():
                yield Process(
                    f"seed-{tool.name}",
                    self._told.words(tool.seed, tool),
                    log=self.layout.log(f"seed-{tool.name}"),
                    environment=self._told.tool(tool),
                )

    def _seeded(self, tool: ToolCommand) -> Path:
        return self.layout.tool(tool.name) / ".seeded"

    async def _apply_streams(self) -> None:
        connection = await connect(self.nats.settings(SETUP), "setup")
        try:
            env, replicas = self.project.environment, self._nats_servers
            await _applied(connection, env, replicas)
        finally:
            await connection.close()

    def _start_receiver(self) -> None:
        if self._keeps_traces:
            self._traces = TraceStore(self.layout.traces)
            listen = self._told.listen("otlp")
            try:
                self._receiver = OtlpReceiver(self._traces, listen)
            except RuntimeError as error:
                raise StartError(
                    f"`{listen}` is taken by another program: stop that one, or remove `{self.layout.ports}` "
                    "for new ports"
                ) from error
            self._receiver.start()

    def _forget_last_run(self) -> None:
        """Remove the files that say who is ready: a killed run leaves them."""
        for file in (self.layout.root / "run").iterdir():
            file.unlink()

    def _write_addresses(self) -> None:
        addresses = {
            "pid": os.getpid(),
            "environment": self.project.environment,
            "decider": self.decider,
            "sidecars": {
                tool.name: [self.sidecar(tool.name, one) for one in range(self.replicas)]
                for tool in self.project.tools
            },
            "clickhouse": self.clickhouse_url,
            "nats": self.nats.url,
            "otlp": self.otlp_endpoint,
            "metrics": self.metrics,
            "pids": {**self.nats.pids, **{name: one.pid for name, one in self.processes.items()}},
            "started_at": int(time.time()),
        }
        shell = exports(
            LICET_DECIDER=self.decider,
            LICET_TOOLS=",".join(f"{one.name}={self.sidecar(one.name, 0)}" for one in self.project.tools),
            LICET_CLICKHOUSE_URL=self.clickhouse_url,
            LICET_CLICKHOUSE_PASSWORD_FILE=str(self.layout.clickhouse_password),
        )
        self.layout.shell.write_text(shell)
        partial = self.layout.addresses.with_suffix(".partial")
        partial.write_text(json.dumps(addresses, indent=2) + "\n")
        partial.replace(self.layout.addresses)


async def _applied(connection: Connection, environment: str, replicas: int) -> None:
    """Make the streams; a cluster that has its leader may still be waiting for one of its servers."""
    ends = time.monotonic() + PEERS_S
    while True:
        try:
            await apply_streams(connection, environment, replicas=replicas, sizes=EMBEDDED_SIZES)
        except StoreRefused as refused:
            if refused.err_code != NO_PEERS or time.monotonic() > ends:
                raise
            await asyncio.sleep(0.1)
        else:
            return


def _nats(directory: Path, environment: str, tools: list[str], servers: int) -> NatsServer | NatsCluster:
    if servers == 1:
        return NatsServer(directory, environment=environment, tools=tools)
    return NatsCluster(directory, environment=environment, tools=tools, size=servers)


def _check_socket_paths(layout: DataLayout, tools: list[str]) -> None:
    for tool in tools:
        path = layout.socket(tool)
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            raise StartError(
                f"`{path}` is longer than the {MAX_SOCKET_PATH} bytes of a Unix socket's path: "
                "name a shorter directory with --data"
            )
