"""What each process of the embedded house is told: its `LICET_…` variables, and nothing that is not its own.

No part gets another part's key file named. That all of them lie in one directory is what makes this a
development house: in production each process is given its own and nothing else.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from licet.embedded.dev_issuer import ISSUERS_FILE
from licet.embedded.layout import DataLayout
from licet.embedded.nats_accounts import AUDIT_WRITER, DECIDER, RECONCILER, SETUP, sidecar_user
from licet.embedded.nats_server import NatsCluster, NatsServer
from licet.embedded.project import Project, ToolCommand
from licet.identity import TRUST_DOMAIN_DEV

HOST: Final = "127.0.0.1"
REGISTRARS: Final = "app/desk=*"
"""Who may register tasks here: `licet tasks register` as spiffe://licet.local/<environment>/app/desk."""


def metrics_port(process: str) -> str:
    """Return the name of the port at which a process is scraped."""
    return f"metrics-{process}"


@dataclass(frozen=True, slots=True)
class Environments:
    """The variables of every process. `otlp_endpoint`: where spans go."""

    layout: DataLayout
    project: Project
    nats: NatsServer | NatsCluster
    ports: Mapping[str, int]
    otlp_endpoint: str

    def listen(self, name: str) -> str:
        """Return `host:port` of a part."""
        return f"{HOST}:{self.ports[name]}"

    @property
    def clickhouse_url(self) -> str:
        """URL of the ClickHouse front."""
        return f"http://{self.listen('front')}"

    def shared(self, process: str) -> dict[str, str]:
        """Return what every process is told."""
        metrics = metrics_port(process)
        scraped = {"LICET_METRICS_LISTEN": self.listen(metrics)} if metrics in self.ports else {}
        return {
            **scraped,
            "LICET_ENVIRONMENT": self.project.environment,
            "LICET_TRUST_DOMAIN": TRUST_DOMAIN_DEV,
            "LICET_NATS_URL": self.nats.url,
            "LICET_KEYS_DIR": str(self.layout.keys),
            "LICET_ROOT_KEY_FILE": str(self.layout.keys / "root.pub"),
            "LICET_DEV_IDENTITY": "true",
            "LICET_SPOOL_DIR": str(self.layout.spool(process)),
            "LICET_OTLP_ENDPOINT": self.otlp_endpoint,
        }

    def store(self) -> dict[str, str]:
        """Return where ClickHouse is; enough for `licet audit` commands."""
        return {
            "LICET_CLICKHOUSE_URL": self.clickhouse_url,
            "LICET_CLICKHOUSE_PASSWORD_FILE": str(self.layout.clickhouse_password),
            "LICET_KEYS_DIR": str(self.layout.keys),
            "LICET_PAYLOAD_KEYS_DIR": str(self.layout.keys),
        }

    def setup(self) -> dict[str, str]:
        """Return what `licet policy activate` is told."""
        return self._as_user(SETUP)

    def decider(self) -> dict[str, str]:
        """Return what the decider is told."""
        tools = [tool.name for tool in self.project.tools]
        relations = self.project.policy / "relations.yaml"
        return {
            **self._as_user(DECIDER),
            **({"LICET_RELATIONS_FILE": str(relations)} if relations.is_file() else {}),
            "LICET_LISTEN": self.listen("decider"),
            "LICET_CATALOGS": ",".join(str(self.layout.catalog(tool)) for tool in tools),
            "LICET_TASKS_FILE": str(self.project.policy / "tasks.yaml"),
            "LICET_TASKS_BEGIN_ANEW": "true",  # who comes back the next day goes on with the same tasks
            "LICET_REGISTRARS": REGISTRARS,
            "LICET_TOOLS": self._tools(),
            "LICET_MASTER_KEY_FILE": str(self.layout.keys / "master.key"),
            "LICET_ISSUERS_FILE": str(self.layout.keys / ISSUERS_FILE),
        }

    def sidecar(self, tool: str, replica: int) -> dict[str, str]:
        """Return what one sidecar of a tool is told."""
        keys = self.layout.keys
        return {
            **self._as_user(sidecar_user(tool)),
            "LICET_LISTEN": self.listen(f"sidecar-{tool}-{replica}"),
            "LICET_INSTANCE": str(replica),
            "LICET_TOOL": tool,
            "LICET_TOOL_SOCKET": str(self.layout.socket(tool)),
            "LICET_CATALOG": str(self.layout.catalog(tool)),
            "LICET_TOOL_KEY_FILE": str(keys / f"tool-{tool}.key"),
            "LICET_DECIDER": self.listen("decider"),
            "LICET_SPEND_KEY_FILE": str(keys / f"spend-{tool}.key"),
            "LICET_CHECKPOINT_KEY_FILE": str(keys / f"checkpoint-sidecar-{tool}.key"),
        }

    def writer(self) -> dict[str, str]:
        """Return what the audit writer is told."""
        return {**self._as_user(AUDIT_WRITER), **self.store()}

    def reconciler(self) -> dict[str, str]:
        """Return what the reconciler is told."""
        return {
            **self._as_user(RECONCILER),
            **self.store(),
            "LICET_CHECKPOINT_KEY_FILE": str(self.layout.keys / "checkpoint-reconciler.key"),
            "LICET_TOOLS": self._tools(),
            **self._ledger_readers(),
        }

    def tool(self, tool: ToolCommand) -> dict[str, str]:
        """Return what a tool is told: no NATS credentials, and what its project file adds."""
        own = {key: self.fill(value, tool) for key, value in tool.environment.items()}
        paths = [str(self.project.directory), os.environ.get("PYTHONPATH", "")]
        shared = self.shared(f"tool-{tool.name}")
        for secret in ("LICET_NATS_URL", "LICET_KEYS_DIR"):
            del shared[secret]
        return {
            **shared,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "LICET_TOOL": tool.name,
            "LICET_TOOL_SOCKET": str(self.layout.socket(tool.name)),
            "LICET_TOOL_CALLS_FILE": str(self.layout.tool_calls(tool.name)),
            "LICET_CATALOG": str(self.layout.catalog(tool.name)),
            "LICET_TOOL_KEY_FILE": str(self.layout.keys / f"tool-{tool.name}.key"),
            **own,
        }

    def words(self, words: Sequence[str], tool: ToolCommand) -> tuple[str, ...]:
        """Return a command of the project file with its placeholders filled."""
        return tuple(self.fill(word, tool) for word in words)

    def ledger_readers(self) -> str:
        """Return the ledger readers' file, TOML: how the reconciler reads each tool's ledger itself."""
        tables = []
        for tool in self.project.tools:
            if tool.ledger:
                # A JSON string of printable text is a TOML basic string.
                lines = [f"{key} = {json.dumps(self.fill(text, tool))}" for key, text in tool.ledger.items()]
                tables.append("\n".join((f"[{tool.name}]", *lines)))
        return "\n\n".join(tables) + "\n"

    def fill(self, text: str, tool: ToolCommand) -> str:
        """Fill `{python}` and `{data}`."""
        data = str(self.layout.tool(tool.name))
        return text.replace("{python}", sys.executable).replace("{data}", data)

    def _as_user(self, user: str) -> dict[str, str]:
        return {"LICET_NATS_USER": user, "LICET_NATS_PASSWORD_FILE": str(self.nats.password_file(user))}

    def _tools(self) -> str:
        first = [(tool.name, self.listen(f"sidecar-{tool.name}-0")) for tool in self.project.tools]
        return ",".join(f"{name}={address}" for name, address in first)

    def _ledger_readers(self) -> dict[str, str]:
        if not any(tool.ledger for tool in self.project.tools):
            return {}
        return {"LICET_LEDGER_READERS_FILE": str(self.layout.ledger_readers)}
