#!/usr/bin/env python3
"""Take each check of the door away in turn; the test that docs/check-removal.md names for it must go red.

`scripts/check_removal.py [CHECK…]` takes all of the table, or those named; 0: each was noticed.
"""

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
if __name__ == "__main__" and PYTHON.exists() and sys.prefix == sys.base_prefix:
    os.execv(PYTHON, [str(PYTHON), *sys.argv])  # by hand, outside the environment
sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402 - from here on the environment's

import tests.worlds.permit_flaws  # noqa: E402, F401 - dear to import, and every child needs it

TABLE = ROOT / "docs" / "check-removal.md"
TEST = "tests/unit/permit/test_examine.py::test_flawed_call_is_refused_and_its_lawful_twin_passes"
STEP_TESTS = "tests/unit/sidecar/test_core.py"
LAWFUL = f"{STEP_TESTS}::test_a_lawful_call_reaches_the_tool_once_with_our_own_encoding"
QUIET = ("-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "tests.removal.without_check")
_ROW = re.compile(
    r"^\| `(check_\d\d_\w+)` \| ([^|]+) \| `(\w+)` \| (removed|hollowed) \| ([\w ]+) \|$", re.MULTILINE
)
_STEP_ROW = re.compile(r"^\| `(step_\d\d_\w+)` \| ([^|]+) \| `([\w\[\]]+)` \|$", re.MULTILINE)


@dataclass(frozen=True)
class Removal:
    """One row of the table."""

    check: str
    danger: str
    flaw: str
    how: str
    then: str

    @property
    def test(self) -> str:
        """The pytest id of the test that must go red."""
        return f"{TEST}[{self.flaw}]"


@dataclass(frozen=True)
class StepRemoval:
    """One row of the table of steps before and after the checks; `flaw` is the name of its test."""

    check: str
    danger: str
    flaw: str

    @property
    def test(self) -> str:
        """The pytest id of the test that must go red."""
        return f"{STEP_TESTS}::{self.flaw}"


def removals() -> list[Removal]:
    """Return the rows of the table of checks, in their order."""
    return [Removal(*row) for row in _ROW.findall(TABLE.read_text())]


def steps() -> list[StepRemoval]:
    """Return the rows of the table of steps, in their order."""
    return [StepRemoval(*row) for row in _STEP_ROW.findall(TABLE.read_text())]


def warm() -> None:
    """Collect the tests' files here, once: each child then finds them, pytest and Hypothesis imported."""
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*QUIET, "--collect-only", TEST.partition("::")[0], STEP_TESTS])


def run(tests: Sequence[str], *options: str) -> int:
    """Run these tests in a child process; returns pytest's exit status.

    0 is green, 1 is red, anything else no test or a crash. The child is forked, so that what the tests
    import is imported once.
    """
    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os._exit(int(pytest.main([*QUIET, *options, *tests])))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def noticed(removal: Removal | StepRemoval) -> bool:
    """Say whether the named test goes red without the check, and, of a step, a lawful call still passes.

    A door that is broken altogether would turn any test red.
    """
    without = ("--without-check", removal.check)
    if isinstance(removal, StepRemoval) and run([LAWFUL], *without) != 0:
        return False
    return run([removal.test], *without) == 1


def main() -> int:
    """Print one line a check; returns 1 if a removal went unnoticed or a named test was never green."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("check", nargs="*", help="only these checks")
    named = set(parser.parse_args().check)
    os.chdir(ROOT)
    rows = [*removals(), *steps()]
    chosen = [removal for removal in rows if not named or removal.check in named]
    if not chosen or named - {removal.check for removal in chosen}:
        print("check_removal: no such check in the table", file=sys.stderr)
        return 2
    warm()
    if run([removal.test for removal in chosen]) != 0:
        print("check_removal: the named tests are not green with every check in place", file=sys.stderr)
        return 1
    unnoticed = 0
    for removal in chosen:
        seen = noticed(removal)
        unnoticed += not seen
        print(f"{removal.check:22} {'noticed' if seen else 'UNNOTICED'}  {removal.flaw}", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
