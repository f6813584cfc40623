"""Each fuzz target keeps its invariant for 30 s, and for minutes under `make soak` (ADR 0202).

LICET_FUZZ_SECONDS and LICET_SOAK_FUZZ_SECONDS set the times of one target.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TARGETS = sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))
SOAK_ONLY = frozenset({"ceilings"})
"""What they read is signed, and the arguments beside it were walked, which has a target of its own."""
SECONDS = int(os.environ.get("LICET_FUZZ_SECONDS", "30"))
SOAK_SECONDS = int(os.environ.get("LICET_SOAK_FUZZ_SECONDS", "300"))
FEWEST_RUNS = 100
"""A count, no rate: the slowest target makes ten times as many even on a machine four times slower."""
BROKEN = '''"""Never more than two bytes: broken on purpose."""
INSTRUMENT = ["json"]
def seeds(): return []
def check(data): assert len(data) <= 2
'''
pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("atheris") is None, reason="NOT FUZZED: no atheris for this Python"
    ),
    pytest.mark.timeout(SECONDS + 60),
]


def run(folder: Path, target: str, seconds: int, artifacts: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "run.py"), target, "--seconds", str(seconds)]
    return subprocess.run(
        [*command, "--artifacts", str(artifacts)], capture_output=True, text=True, check=False, cwd=artifacts
    )


def check(target: str, seconds: int, artifacts: Path) -> None:
    done = run(HERE, target, seconds, artifacts)
    assert (done.returncode, list(artifacts.iterdir())) == (0, []), done.stderr[-4000:]
    runs = int(done.stderr.rpartition("stat::number_of_executed_units: ")[2].split()[0])
    assert runs > FEWEST_RUNS, "too slow to find anything"


@pytest.mark.parametrize("target", [target for target in TARGETS if target not in SOAK_ONLY])
def test_invariant_holds_under_fuzzing(target: str, tmp_path: Path) -> None:
    check(target, SECONDS, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 60)
@pytest.mark.parametrize("target", TARGETS)
def test_invariant_holds_under_long_fuzzing(target: str, tmp_path: Path) -> None:
    check(target, SOAK_SECONDS, tmp_path)


def test_broken_invariant_is_found_and_its_input_kept(tmp_path: Path) -> None:
    folder, artifacts = tmp_path / "fuzz", tmp_path / "artifacts"
    shutil.copytree(HERE, folder)
    artifacts.mkdir()
    (folder / "fuzz_broken.py").write_text(BROKEN)
    done = run(folder, "broken", 20, artifacts)
    assert done.returncode != 0
    (kept,) = artifacts.iterdir()
    again = subprocess.run(
        [sys.executable, str(folder / "run.py"), "broken", str(kept)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode != 0
    assert "AssertionError" in again.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_first_line_of_a_target_is_its_invariant(target: str) -> None:
    assert re.match(r'"""[A-Z].{20,}', (HERE / f"fuzz_{target}.py").read_text())
