"""No line and no branch of the pure modules is without a test: `make coverage`, run."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def measured(*suites: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "scripts" / "pure_coverage.py"), *suites]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_tests_of_the_pure_modules_reach_every_branch() -> None:
    done = measured()
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr


def test_branch_that_no_test_reaches_is_found() -> None:
    done = measured("tests/unit/core/test_refusal.py")
    assert done.returncode != 0
    assert "licet/hold.py" in done.stdout
