#!/usr/bin/env python3
"""Measure how far the tests of the pure modules reach into them: every line and both ways of every branch.

`scripts/pure_coverage.py` runs those tests, without the properties, whose inputs are drawn anew each time,
and fails if a line or a branch of a pure module is left out. `--list` prints the modules, measuring nothing.
Which modules are pure is the import contract's word: all of `licet` but the shells that it names and the
generated code.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTRACT = "what is not a shell is pure"
GENERATED = "licet.v1"
SUITES = (
    "tests/unit/core",
    "tests/unit/call",
    "tests/unit/permit",
    "tests/unit/test_ceilings.py",
    "tests/vectors/test_call_vectors.py",
    "tests/vectors/test_permit_vectors.py",
    "tests/vectors/test_sealed_vectors.py",
)
"""Where the tests of the pure modules stand."""


def shells() -> tuple[str, ...]:
    """Return what of `licet` the import contract takes out of the pure modules, and the generated code."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [contract] = [contract for contract in contracts if contract["name"] == CONTRACT]
    named = [module for module in contract["forbidden_modules"] if module.startswith("licet.")]
    return (*named, GENERATED)


def pure_modules() -> list[Path]:
    """Return the files of the pure modules, relative to the repository."""
    apart = shells()
    found = []
    for path in sorted((ROOT / "licet").rglob("*.py")):
        file = path.relative_to(ROOT)
        name = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        if not any(name == shell or name.startswith(f"{shell}.") for shell in apart):
            found.append(file)
    return found


def measure(suites: Sequence[str], workers: int) -> int:
    """Run the suites and print what they leave out; return 0 if that is nothing."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"COVERAGE_FILE": str(Path(folder) / "coverage")}
        run = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-m", "not soak"]
        cover = ["--cov=licet", "--cov-branch", "--cov-report="]
        passed = subprocess.run([*run, *cover, *suites], cwd=ROOT, env=environment, check=False)
        if passed.returncode != 0:
            return passed.returncode
        report = [sys.executable, "-m", "coverage", "report", "--show-missing", "--skip-covered"]
        demand = ["--fail-under=100", f"--include={','.join(map(str, pure_modules()))}"]
        return subprocess.run([*report, *demand], cwd=ROOT, env=environment, check=False).returncode


def main() -> int:
    """Measure, or list the modules."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the pure modules and measure nothing")
    parser.add_argument("--workers", type=int, default=2, help="processes that run tests")
    parser.add_argument("suites", nargs="*", help="tests to run in place of all of the pure modules")
    asked = parser.parse_args()
    if asked.list:
        print(*pure_modules(), sep="\n")
        return 0
    return measure(asked.suites or SUITES, asked.workers)


if __name__ == "__main__":
    sys.exit(main())
