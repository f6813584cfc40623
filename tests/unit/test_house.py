"""Rooms stay small enough to read: the sizes that the house rules set."""

import ast
import re
import runpy
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from licet.clock import elapsed_ms

ROOT = Path(__file__).parents[2]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["import-names"]
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
"""From `def` to the last line, the docstring not counted: documentation may be as long as it is good."""
MAX_CORE_FUNCTION_LINES = 40
"""Of a pure module, the guard or the door: what a reviewer of the promises has to hold in mind at once."""
PURE = frozenset(runpy.run_path(str(ROOT / "scripts" / "pure_coverage.py"))["pure_modules"]())


def modules() -> list[Path]:
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in found if "_pb2" not in path.name]


def long_functions(path: Path, limit: int) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            lines = (node.end_lineno or 0) - node.lineno + 1 - docstring
            if lines > limit:
                yield f"`{node.name}` has {lines} lines"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_and_its_functions_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_MODULE_LINES, "give each noun its own module"
    file = path.relative_to(ROOT)
    core = file in PURE or file.parent == Path("licet/guard") or file == Path("sidecar/core.py")
    assert list(long_functions(path, MAX_CORE_FUNCTION_LINES if core else MAX_FUNCTION_LINES)) == []


def test_core_is_among_the_pure_modules_and_no_shell_is() -> None:
    names = {str(path) for path in PURE}
    core = {
        "call/walk.py",
        "permit/checks.py",
        "statement.py",
        "strict.py",
        "ceilings.py",
        "hold.py",
        "spend.py",
    }
    assert {f"licet/{name}" for name in core} <= names
    assert not {name for name in names if "/guard/" in name or "/v1/" in name or "/client/" in name}


def test_longest_functions_are_found(tmp_path: Path) -> None:
    module = tmp_path / "long.py"
    module.write_text(
        "def short():\n    a = 1\n    return a\n\ndef long():\n    a = 1\n    a = 2\n    return a\n"
    )
    assert list(long_functions(module, 3)) == ["`long` has 4 lines"]


CLOCKS = re.compile(r"\btime\.(time|time_ns|monotonic_ns|clock_gettime\w*)\(|\bdatetime\.now\(|\butcnow\(")
OWN_TIME = ("licet/clock.py", "licet/embedded/", "audit/store/cli.py")
"""The clock itself; what runs on one machine for development; a day in SQL."""


def test_nobody_but_the_clock_asks_the_system_for_the_time() -> None:
    """A clock that stands still in a suspended machine would take what was fresh before for fresh."""
    asked = {
        str(path.relative_to(ROOT))
        for path in modules()
        if not str(path.relative_to(ROOT)).startswith(OWN_TIME) and CLOCKS.search(path.read_text())
    }
    assert asked == set()


def test_elapsed_time_goes_on_in_a_suspended_machine_where_the_system_can_tell() -> None:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before, found = time.clock_gettime_ns(clock) // 1_000_000, elapsed_ms()
    assert before <= found <= time.clock_gettime_ns(clock) // 1_000_000
