"""The whole house on one machine: nats-server, the ClickHouse engine, decider, tool, sidecars, audit.

Guarantees
- Each part is the part that production runs, as its own process, over the same wires; only the ClickHouse
  server (the same engine, embedded) and the identities (development, on loopback, said loudly) are different.
- A second start on the same directory goes on with the same data, keys and ports.
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

from licet.embedded.dev_keys import make_dev_keys
from licet.embedded.layout import DataLayout
from licet.embedded.nats_accounts import AUDIT_WRITER, DECIDER, RECONCILER, SETUP, sidecar_user
from licet.embedded.nats_server import NatsServer
from licet.embedded.otlp_receiver import OtlpReceiver
from licet.embedded.process import Process, accepts_tcp, free_port
from licet.embedded.project import Project, ToolCommand
from licet.embedded.trace_store import TraceStore
from licet.identity import TRUST_DOMAIN_DEV
from licet.streams import EMBEDDED_SIZES, apply_streams, connect

SOCKET_MODE_DIRECTORY: Final = 0o750
LICET: Final = (sys.executable, "-m", "licet")

Progress = Callable[[str], None]


def _quiet(_: str) -> None:
    """Say nothing."""


class Stack:
    """The running house.

    Args:
        directory: the data directory; made when missing.
        project: what to run.
        replicas: sidecars beside each tool.
        otlp_endpoint: where spans go; None keeps them in a local file.
        progress: is told each step in a few words.
    """

    def __init__(
        self,
        directory: Path,
        project: Project,
        *,
        replicas: int = 1,
        otlp_endpoint: str | None = None,
        progress: Progress = _quiet,
    ) -> None:
        self.layout = DataLayout(directory.resolve())
        self.project = project
        self.replicas = replicas
        self._progress = progress
        self._otlp_endpoint = otlp_endpoint
        self._receiver: OtlpReceiver | None = None
        self._traces: TraceStore | None = None
        self.layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.nats = NatsServer(
            self.layout.nats,
            environment=project.environment,
            tools=[tool.name for tool in project.tools],
        )
        self._ports = self._keep_ports()
        self.processes: dict[str, Process] = {one.name: one for one in self._make_processes()}

    # --- life ---

    def start(self) -> None:
        """Start everything and return when it answers.

        Raises:
            StartError: a part did not start; the message ends with its log's end. Nothing is left running.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self._progress("keys, NATS, ClickHouse engine")
        for directory in (self.layout.root / "run", self.layout.root / "catalog"):
            directory.mkdir(exist_ok=True, mode=SOCKET_MODE_DIRECTORY)
        self._start_receiver()
        self._make_keys()
        self.nats.launch()
        self.processes["front"].start()
        self.nats.wait_ready()
        self._progress("streams, schema, catalog, bundle")
        asyncio.run(self._apply_streams())
        steps = [*self._build_catalogs(), self._activate_bundle()]
        self.processes["front"].wait_ready()
        for step in (*steps, self._migrate()):
            step.run()
        self._progress("tool, decider, sidecars, audit")
        for tool in self.project.tools:
            self._seed(tool)
        later = [name for name in self.processes if name != "front"]
        for name in later:
            self.processes[name].start()
        for name in later:
            self.processes[name].wait_ready()
        self._write_addresses()

    def stop(self) -> None:
        """Stop everything: first who decides and enforces, then who keeps, then the servers."""
        for name in reversed(self.processes):
            self.processes[name].stop()
        self.nats.stop()
        if self._receiver is not None:
            self._receiver.stop()
            self._receiver = None
        if self._traces is not None:
            self._traces.close()
            self._traces = None
        self.layout.addresses.unlink(missing_ok=True)

    def restart(self, name: str) -> None:
        """Start a process again that was stopped or killed, and wait until it answers."""
        self.processes[name].start()
        self.processes[name].wait_ready()

    # --- addresses ---

    @property
    def decider(self) -> str:
        """Address of the decider."""
        return f"127.0.0.1:{self._ports['decider']}"

    def sidecar(self, tool: str, replica: int = 0) -> str:
        """Address of one sidecar of a tool."""
        return f"127.0.0.1:{self._ports[f'sidecar-{tool}-{replica}']}"

    @property
    def clickhouse_url(self) -> str:
        """URL of the ClickHouse front."""
        return f"http://127.0.0.1:{self._ports['front']}"

    @property
    def traces(self) -> TraceStore | None:
        """The local trace store; None when spans go elsewhere."""
        return self._traces

    def audit_environment(self) -> dict[str, str]:
        """Environment for `licet audit` commands against this stack."""
        return {
            "LICET_CLICKHOUSE_URL": self.clickhouse_url,
            "LICET_CLICKHOUSE_PASSWORD_FILE": str(self.layout.clickhouse_password),
            "LICET_KEYS_DIR": str(self.layout.keys),
        }

    # --- parts ---

    def _make_processes(self) -> Iterator[Process]:
        yield self._server(
            "front",
            ("audit", "front", "--path", str(self.layout.clickhouse), "--listen", self._listen("front")),
            {"LICET_CLICKHOUSE_PASSWORD_FILE": str(self.layout.clickhouse_password)},
        )
        yield self._server("writer", ("audit", "write"), self._audit(AUDIT_WRITER, "audit"), listens=False)
        for tool in self.project.tools:
            yield self._tool(tool)
        yield self._server("decider", ("decider", "serve"), self._decider())
        for tool in self.project.tools:
            for replica in range(self.replicas):
                name = f"sidecar-{tool.name}-{replica}"
                yield self._server(name, ("sidecar", "serve"), self._sidecar(tool.name, name))
        yield self._server(
            "reconciler", ("audit", "reconcile"), self._audit(RECONCILER, "reconciler"), listens=False
        )

    def _server(
        self, name: str, command: tuple[str, ...], environment: dict[str, str], *, listens: bool = True
    ) -> Process:
        port_file = self.layout.port_file(name)
        ready: Callable[[], bool] | None = None
        if listens:
            port = self._ports[name]
            environment = {**environment, "LICET_PORT_FILE": str(port_file)}
            ready = lambda: port_file.exists() and accepts_tcp(port)  # noqa: E731 - one condition
        return Process(
            name,
            (*LICET, *command),
            log=self.layout.log(name),
            environment={**self._shared(name), **environment},
            ready=ready,
        )

    def _shared(self, process: str) -> dict[str, str]:
        return {
            "LICET_ENVIRONMENT": self.project.environment,
            "LICET_TRUST_DOMAIN": TRUST_DOMAIN_DEV,
            "LICET_NATS_URL": self.nats.url,
            "LICET_KEYS_DIR": str(self.layout.keys),
            "LICET_ROOT_KEY_FILE": str(self.layout.keys / "root.pub"),
            "LICET_DEV_IDENTITY": "true",
            "LICET_SPOOL_DIR": str(self.layout.spool(process)),
            "LICET_OTLP_ENDPOINT": self._otlp_endpoint or f"http://127.0.0.1:{self._ports['otlp']}",
        }

    def _as_user(self, user: str) -> dict[str, str]:
        return {"LICET_NATS_USER": user, "LICET_NATS_PASSWORD_FILE": str(self.nats.password_file(user))}

    def _decider(self) -> dict[str, str]:
        tools = [tool.name for tool in self.project.tools]
        return {
            **self._as_user(DECIDER),
            "LICET_LISTEN": self._listen("decider"),
            "LICET_POLICY_DIR": str(self.project.policy),
            "LICET_CATALOGS": ",".join(str(self.layout.catalog(tool)) for tool in tools),
            "LICET_TASKS_FILE": str(self.project.policy / "tasks.yaml"),
            "LICET_TOOLS": self._tools(),
            "LICET_MASTER_KEY_FILE": str(self.layout.keys / "master.key"),
        }

    def _sidecar(self, tool: str, name: str) -> dict[str, str]:
        keys = self.layout.keys
        return {
            **self._as_user(sidecar_user(tool)),
            "LICET_LISTEN": self._listen(name),
            "LICET_TOOL": tool,
            "LICET_TOOL_SOCKET": str(self.layout.socket(tool)),
            "LICET_CATALOG": str(self.layout.catalog(tool)),
            "LICET_TOOL_KEY_FILE": str(keys / f"tool-{tool}.key"),
            "LICET_DECIDER": self.decider,
            "LICET_SPEND_KEY_FILE": str(keys / f"spend-{tool}.key"),
            "LICET_CHECKPOINT_KEY_FILE": str(keys / f"checkpoint-sidecar-{tool}.key"),
        }

    def _audit(self, user: str, key: str) -> dict[str, str]:
        return {
            **self._as_user(user),
            **self.audit_environment(),
            "LICET_CHECKPOINT_KEY_FILE": str(self.layout.keys / f"checkpoint-{key}.key"),
            "LICET_TOOLS": self._tools(),
        }

    def _tool(self, tool: ToolCommand) -> Process:
        socket = self.layout.socket(tool.name)
        return Process(
            f"tool-{tool.name}",
            self._words(tool.command, tool),
            log=self.layout.log(f"tool-{tool.name}"),
            environment=self._tool_environment(tool),
            ready=socket.exists,
        )

    def _tool_environment(self, tool: ToolCommand) -> dict[str, str]:
        own = {key: self._fill(value, tool) for key, value in tool.environment.items()}
        paths = [str(self.project.directory), os.environ.get("PYTHONPATH", "")]
        return {
            **self._shared(f"tool-{tool.name}"),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "LICET_TOOL": tool.name,
            "LICET_TOOL_SOCKET": str(self.layout.socket(tool.name)),
            "LICET_TOOL_CALLS_FILE": str(self.layout.tool_calls(tool.name)),
            "LICET_CATALOG": str(self.layout.catalog(tool.name)),
            "LICET_TOOL_KEY_FILE": str(self.layout.keys / f"tool-{tool.name}.key"),
            **own,
        }

    # --- steps ---

    def _start_receiver(self) -> None:
        if self._otlp_endpoint is None:
            self._traces = TraceStore(self.layout.traces)
            self._receiver = OtlpReceiver(self._traces, self._listen("otlp"))
            self._receiver.start()

    def _make_keys(self) -> None:
        tools = [tool.name for tool in self.project.tools]
        make_dev_keys(self.layout.keys, self.project.environment, tools, (), TRUST_DOMAIN_DEV)

    async def _apply_streams(self) -> None:
        connection = await connect(self.nats.settings(SETUP), "setup")
        try:
            await apply_streams(connection, self.project.environment, sizes=EMBEDDED_SIZES)
        finally:
            await connection.close()

    def _build_catalogs(self) -> Iterator[Process]:
        for tool in self.project.tools:
            yield self._step(
                "catalog-build",
                ("catalog", "build", "--policy", str(self.project.policy)),
                (
                    "--key",
                    str(self.layout.keys / "catalog.key"),
                    "--out",
                    str(self.layout.catalog(tool.name)),
                ),
            )

    def _activate_bundle(self) -> Process:
        return self._step(
            "policy-activate",
            ("policy", "activate", str(self.project.policy)),
            ("--key", str(self.layout.keys / "bundle.key"), "--if-newer"),
            self._as_user(SETUP),
        )

    def _migrate(self) -> Process:
        return self._step("audit-migrate", ("audit", "migrate"), (), self.audit_environment())

    def _step(
        self,
        name: str,
        command: tuple[str, ...],
        options: tuple[str, ...],
        environment: dict[str, str] | None = None,
    ) -> Process:
        return Process(
            name,
            (*LICET, *command, *options),
            log=self.layout.log(name),
            environment={**self._shared(name), **(environment or {})},
        )

    def _seed(self, tool: ToolCommand) -> None:
        directory = self.layout.tool(tool.name)
        done = directory / ".seeded"
        directory.mkdir(parents=True, exist_ok=True)
        if tool.seed and not done.exists():
            seed = Process(
                f"seed-{tool.name}",
                self._words(tool.seed, tool),
                log=self.layout.log(f"seed-{tool.name}"),
                environment=self._tool_environment(tool),
            )
            seed.run()
            done.touch()

    def _write_addresses(self) -> None:
        addresses = {
            "decider": self.decider,
            "sidecars": {
                tool.name: [self.sidecar(tool.name, one) for one in range(self.replicas)]
                for tool in self.project.tools
            },
            "clickhouse": self.clickhouse_url,
            "nats": self.nats.url,
            "otlp": self._otlp_endpoint or f"http://127.0.0.1:{self._ports['otlp']}",
            "pids": {name: one.pid for name, one in self.processes.items()},
            "started_at": int(time.time()),
        }
        self.layout.addresses.write_text(json.dumps(addresses, indent=2) + "\n")

    # --- words and ports ---

    def _words(self, words: tuple[str, ...], tool: ToolCommand) -> tuple[str, ...]:
        return tuple(self._fill(word, tool) for word in words)

    def _fill(self, text: str, tool: ToolCommand) -> str:
        data = str(self.layout.tool(tool.name))
        return text.replace("{python}", sys.executable).replace("{data}", data)

    def _tools(self) -> str:
        return ",".join(f"{tool.name}={self.sidecar(tool.name)}" for tool in self.project.tools)

    def _listen(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def _keep_ports(self) -> dict[str, int]:
        sidecars = [
            f"sidecar-{tool.name}-{replica}"
            for tool in self.project.tools
            for replica in range(self.replicas)
        ]
        kept = json.loads(self.layout.ports.read_text()) if self.layout.ports.exists() else {}
        ports = {name: int(kept.get(name) or free_port()) for name in ("front", "decider", "otlp", *sidecars)}
        self.layout.ports.write_text(json.dumps(ports, indent=2) + "\n")
        return ports
