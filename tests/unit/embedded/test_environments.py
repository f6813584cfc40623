"""What each process of the embedded house is told, and what it must not be."""

import tomllib
from pathlib import Path

import pytest

from licet.embedded.environments import Environments
from licet.embedded.layout import DataLayout
from licet.embedded.nats_server import NatsServer
from licet.embedded.project import Project, ToolCommand

PORTS = {"front": 1, "decider": 2, "otlp": 3, "sidecar-finance-0": 4, "sidecar-finance-1": 5}


@pytest.fixture
def told(tmp_path: Path) -> Environments:
    ledger = {"dsn": "file:{data}/ledger.db", "sql": 'SELECT "a\\b" AS cursor'}
    tool = ToolCommand("finance", ("{python}", "-m", "tool"), (), {"LEDGER": "{data}/l.db"}, ledger)
    project = Project(tmp_path, "dev", tmp_path, (tool,))
    nats = NatsServer(tmp_path / "nats", environment="dev", tools=["finance"])
    return Environments(DataLayout(tmp_path), project, nats, PORTS, "http://127.0.0.1:3")


def test_tool_gets_no_nats_credentials_and_no_key_but_its_own(told: Environments) -> None:
    environment = told.tool(told.project.tools[0])
    assert not [name for name in environment if "NATS" in name or name == "LICET_KEYS_DIR"]
    keys = {Path(value).name for name, value in environment.items() if name.endswith("_KEY_FILE")}
    assert keys == {"root.pub", "tool-finance.key"}


def test_sidecar_is_named_its_own_keys_alone(told: Environments) -> None:
    environment = told.sidecar("finance", 1)
    keys = {Path(value).name for name, value in environment.items() if name.endswith("_KEY_FILE")}
    assert keys == {"tool-finance.key", "spend-finance.key", "checkpoint-sidecar-finance.key"}
    assert environment["LICET_NATS_USER"] == "sidecar-finance"
    assert environment["LICET_LISTEN"] == "127.0.0.1:5"


def test_placeholders_are_filled(told: Environments) -> None:
    (tool,) = told.project.tools
    assert told.tool(tool)["LEDGER"] == f"{told.layout.tool('finance')}/l.db"
    assert "{" not in " ".join(told.words(tool.command, tool))


def test_ledger_readers_file_is_toml_whatever_the_statement_holds(told: Environments) -> None:
    found = tomllib.loads(told.ledger_readers())
    assert found == {
        "finance": {
            "dsn": f"file:{told.layout.tool('finance')}/ledger.db",
            "sql": 'SELECT "a\\b" AS cursor',
        }
    }
