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
    text = TEXT.partition("## 6.")[0]
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
    said, up = "", None
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
            else:
                done = subprocess.run(
                    shlex.split(content),
                    cwd=directory,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, f"{content}\n{done.stdout}{done.stderr}"
                said = done.stdout
    finally:
        if up is not None:
            up.send_signal(signal.SIGINT)
            assert up.wait(60) == 0
    assert said == "notes: 1\n\ndenied: notes on the press are written by people\n"


def wait_for(directory: Path, up: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_S
    while not (directory / ".licet" / "up.json").exists():
        assert up.poll() is None, (directory / "up.log").read_text()
        assert time.monotonic() < end
        time.sleep(0.1)
