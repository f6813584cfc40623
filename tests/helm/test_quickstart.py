"""The quickstart, typed in as it stands: its files, its commands in their order, its first gated call."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.charts import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
TEXT = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
NAME = re.compile(r"`([\w./-]+\.(?:proto|py|yaml|cedar|cedarschema))`")
BIN = Path(sys.executable).parent
START_S = 90.0


def steps() -> Iterator[tuple[str, str]]:
    """Files as (name, content) and commands as ("", line), in the order of the page, up to the cluster."""
    text = TEXT.partition("## 7.")[0]
    before = 0
    for fence in FENCE.finditer(text):
        kind, content = fence.groups()
        if kind == "console":
            yield from (("", line) for line in content.splitlines())
        elif kind:
            yield NAME.findall(text[before : fence.start()])[-1], content
        before = fence.end()


@pytest.fixture
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="q"))  # short: a Unix socket lies below it
    (made / "policy").mkdir()
    yield made
    shutil.rmtree(made)


def test_whoever_types_in_the_quickstart_gets_a_gated_call(directory: Path) -> None:
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    shell, said, up = "", dict[str, list[str]](), None
    try:
        for name, content in steps():
            if name:
                (directory / name).write_text(content)
            elif content.startswith("licet up"):
                with (directory / "up.log").open("wb") as log:
                    up = subprocess.Popen(
                        shlex.split(content), cwd=directory, env=environment, stdout=log, stderr=log
                    )
                wait_for(directory, up)
            elif content.startswith((". ", "export ")):
                shell += content + "\n"
            else:
                held = "".join(said.get("python vip.py", ())).split()
                line = content.replace(" ID ", f" {held[1][:8]} ") if held else content
                said.setdefault(content, []).append(typed(shell + line, directory, environment))
    finally:
        if up is not None:
            up.send_signal(signal.SIGINT)
            assert up.wait(60) == 0
    assert said["python agent.py"] == ["notes: 1\n\ndenied: notes on the press are written by people\n"]
    held, done = said["python vip.py"]
    assert (held[:6], "Add a note to customer vip" in held, done) == ("held: ", True, "notes: 1\n\n")
    evidence, _, answers = (text for line, [text] in list(said.items())[-3:])
    assert "ALLOWED_EXECUTED" in evidence or "allowed" in evidence
    assert "lena" in answers


def typed(line: str, directory: Path, environment: dict[str, str]) -> str:
    """What a line says on stdout; the record comes a moment later, so a question may be asked again."""
    end = time.monotonic() + (START_S if "licet audit" in line else 0)
    while True:
        done = subprocess.run(
            ["bash", "-c", line], cwd=directory, env=environment, capture_output=True, text=True, check=False
        )
        told = done.returncode == 0 and "no rows" not in done.stdout
        if told or time.monotonic() > end:
            assert told, f"{line}\n{done.stdout}{done.stderr}"
            return done.stdout
        time.sleep(0.5)


def wait_for(directory: Path, up: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_S
    while not (directory / ".licet" / "up.json").exists():
        assert up.poll() is None, (directory / "up.log").read_text()
        assert time.monotonic() < end
        time.sleep(0.1)
