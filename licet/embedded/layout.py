"""Where everything lies in the data directory of `licet up`. Paths only; nothing is read or written."""

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DataLayout:
    """The data directory: keys, servers' stores, sockets, spools, logs, addresses."""

    root: Path

    @property
    def keys(self) -> Path:
        """Development keys, secrets with mode 0600."""
        return self.root / "keys"

    @property
    def nats(self) -> Path:
        """Configuration, passwords and streams of nats-server."""
        return self.root / "nats"

    @property
    def clickhouse(self) -> Path:
        """The embedded ClickHouse engine's data."""
        return self.root / "clickhouse"

    @property
    def clickhouse_password(self) -> Path:
        """Password of the embedded front."""
        return self.root / "clickhouse.password"

    @property
    def ledger_readers(self) -> Path:
        """How the reconciler reads the tools' ledgers itself."""
        return self.root / "ledger-readers.toml"

    @property
    def traces(self) -> Path:
        """SQLite file of the local trace receiver."""
        return self.root / "traces.db"

    @property
    def lock(self) -> Path:
        """Locked by the process that runs the house in this directory."""
        return self.root / "lock"

    @property
    def ports(self) -> Path:
        """Ports taken at the first start, kept for the next."""
        return self.root / "ports.json"

    @property
    def addresses(self) -> Path:
        """Addresses and pids of what runs now; absent when nothing does."""
        return self.root / "up.json"

    @property
    def shell(self) -> Path:
        """The same for a shell: `. .licet/env`; absent when nothing runs."""
        return self.root / "env"

    def catalog(self, tool: str) -> Path:
        """Signed catalog of a tool."""
        return self.root / "catalog" / f"{tool}.catalog"

    def socket(self, tool: str) -> Path:
        """Unix socket of a tool."""
        return self.root / "run" / f"{tool}.sock"

    def tool(self, tool: str) -> Path:
        """The tool's own data."""
        return self.root / "tool" / tool

    def tool_calls(self, tool: str) -> Path:
        """One line per call that reached a handler of the tool, written by the tool."""
        return self.tool(tool) / "calls.log"

    def spool(self, process: str) -> Path:
        """Event spool of a process."""
        return self.root / "spool" / process

    def log(self, process: str) -> Path:
        """Log of a process."""
        return self.root / "log" / f"{process}.log"

    def port_file(self, process: str) -> Path:
        """Where a process writes the port it listens on once it does."""
        return self.root / "run" / f"{process}.port"

    def health_port_file(self, process: str) -> Path:
        """Where a sidecar writes the port at which it says whether it is ready."""
        return self.root / "run" / f"{process}.health"


def exports(**variables: str) -> str:
    """Return what a shell reads to have these variables, whatever is in their values."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
