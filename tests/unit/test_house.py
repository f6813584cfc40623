"""Rooms stay small enough to read: the sizes that the house rules set."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["import-names"]
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
"""From `def` to the last line, the docstring not counted: documentation may be as long as it is good."""


def modules() -> list[Path]:
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in found if "_pb2" not in path.name]


def long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            lines = (node.end_lineno or 0) - node.lineno + 1 - docstring
            if lines > MAX_FUNCTION_LINES:
                yield f"`{node.name}` has {lines} lines"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_and_its_functions_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_MODULE_LINES, "give each noun its own module"
    assert list(long_functions(path)) == []
