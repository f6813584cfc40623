"""The runbooks' commands exist: every `licet …` line of the pages is parsed by the program's own parsers."""

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from licet.telemetry import METRICS
from tests.worlds.charts import ROOT

PAGES = ("operations.md", "playbook.md", "quickstart.md")
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
INLINE = re.compile(r"`(licet [a-z][^`]+)`")


def commands(page: str) -> list[list[str]]:
    text = (ROOT / "docs" / page).read_text("utf-8")
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    lines += INLINE.findall(text)
    return [words for line in lines if (words := words_of(line))]


def words_of(line: str) -> list[str]:
    """The words of a `licet` command, also of one that runs in a pod; none for another program's."""
    words = shlex.split(line.removeprefix(".venv/bin/"))
    if words[:1] == ["kubectl"] and "exec" in words and "--" in words:
        words = words[words.index("--") + 1 :]
    return words if words[:1] == ["licet"] else []


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that a line runs, and its arguments."""
    (found,) = [one for one in entry_points(group="licet.commands") if one.name == words[1]]
    loaded = found.load()
    if not isinstance(loaded, typer.Typer):
        app = typer.Typer()
        app.command()(loaded)
        loaded = app
    command: Any = typer.main.get_command(loaded)
    rest = words[2:]
    while hasattr(command, "commands") and rest and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


@pytest.mark.parametrize("page", PAGES)
def test_every_licet_command_of_a_page_exists_with_its_options(page: str) -> None:
    found = commands(page)
    assert len(found) >= 4
    for words in found:
        command, rest = command_of(words)
        assert not hasattr(command, "commands"), f"{words}: names no command"
        known = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        given = {word.partition("=")[0] for word in rest if word.startswith("-")}
        assert given <= known, f"{words}: {given - known}"


@pytest.mark.parametrize(
    "line", ["licet policy activat p", "licet keys dev --keys-dir k --tol finance", "licet streams"]
)
def test_a_command_that_does_not_exist_would_be_noticed(line: str) -> None:
    command, rest = command_of(line.split())
    known = {option for parameter in command.params for option in parameter.opts}
    assert hasattr(command, "commands") or {w for w in rest if w.startswith("-")} - known


def test_complete_commands_of_the_blocks_parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is copied as it stands: nothing required may be missing from it."""
    for name in [key for key in os.environ if key.startswith("LICET_")]:
        monkeypatch.delenv(name)
    tried = 0
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text("utf-8")
        if "\n. .licet/env\n" in text:  # which tells a shell where the decider is
            monkeypatch.setenv("LICET_DECIDER", "127.0.0.1:1")
        for line in (line for block in BLOCK.findall(text) for line in block.splitlines()):
            words = words_of(line)
            here = words and "kubectl" not in line  # in a pod its variables tell the rest
            if here and words[1] not in {"up", "demo"}:
                command, rest = command_of(words)
                command.make_context("licet", rest)
                tried += 1
    assert tried >= 5


def test_every_secret_of_the_install_is_one_that_the_charts_mount() -> None:
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    made = set(re.findall(r"create (?:secret generic|configmap) (\S+)", text))
    values = (ROOT / "helm/licet/values.yaml").read_text() + (
        ROOT / "helm/licet-sidecar/values.yaml"
    ).read_text()
    for name in made - {"finance-catalog"}:
        generic = name.replace("finance", "<tool>")
        assert name in values or generic in values, name


def test_every_metric_of_the_playbook_is_measured() -> None:
    text = "".join((ROOT / "docs" / page).read_text("utf-8") for page in ("operations.md", "playbook.md"))
    known = {name.replace(".", "_") for name in METRICS}
    for name in re.findall(r"`(licet_\w+)`", text):
        assert any(name.startswith(one) for one in known), name


ALERTS = [
    rule["alert"]
    for group in yaml.safe_load((ROOT / "ops" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]


def sections() -> dict[str, str]:
    playbook = (ROOT / "docs" / "playbook.md").read_text("utf-8")
    parts = re.split(r"^## (\w+)\n", playbook, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_alert_has_a_section_of_the_playbook_and_no_section_is_of_no_alert() -> None:
    assert list(sections()) == ALERTS
    for name, text in sections().items():
        assert re.search(r"^What: .+\nLook: .+\nThen: .+$", text.strip(), re.MULTILINE), name


def test_the_capacity_table_is_what_was_measured() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "capacity.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
