#!/usr/bin/env python3
"""Write docs/reference from the code: settings, and which tests are which negative tests.

`scripts/reference.py` writes the pages anew. `scripts/reference.py --check` changes nothing and fails if one
is stale, naming it.
"""

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from audit.settings import AuditSettings  # noqa: E402 - the repository comes first
from decider.settings import DeciderSettings  # noqa: E402 - as above
from licet.client.settings import ClientSettings  # noqa: E402 - as above
from sidecar.settings import SidecarSettings  # noqa: E402 - as above
from tests.e2e.negative_rows import ROWS as CASE_ROWS  # noqa: E402 - as above

PAGES = ROOT / "docs" / "reference"
NOTE = "Written by scripts/reference.py; do not edit.\n"
PROCESSES: tuple[tuple[str, type[BaseSettings]], ...] = (
    ("licet decider serve", DeciderSettings),
    ("licet sidecar serve", SidecarSettings),
    ("licet audit write, reconcile, ask, …", AuditSettings),
    ("licet.client", ClientSettings),
)
CASES = "tests/e2e/test_cases.py::test_case_ends_as_expected_in_reply_tool_ledger_store_and_trace"


def settings() -> str:
    """Return the page of settings."""
    lines = ["# Settings", "", NOTE]
    lines.append(
        "Each is an environment variable. Secrets are paths of files. Bad values are all reported at once."
    )
    for name, kind in PROCESSES:
        lines += ["", f"## {name}", "", "| variable | default | meaning |", "|---|---|---|"]
        for field, info in kind.model_fields.items():
            lines.append(f"| `LICET_{field.upper()}` | {_default(info)} | {info.description or ''} |")
    return "\n".join(lines) + "\n"


def _default(info: Any) -> str:
    if info.is_required():
        return "required"
    value = info.default if info.default is not PydanticUndefined else ""
    return "–" if value in {None, ""} else f"`{value}`"


def negative() -> str:
    """Return the page of negative tests: each row of the protocol with the tests that are it."""
    rows: dict[int, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for row, name in _marked(path):
            rows[row].append(f"{path.relative_to(ROOT)}::{name}")
    for case, numbers in CASE_ROWS.items():
        for row in numbers:
            rows[row].append(f"{CASES}[{case}]")
    lines = ["# Negative tests", "", NOTE]
    lines.append("What must not work, by the protocol's numbers, with the tests that show it.")
    lines += ["", "| # | tests |", "|---|---|"]
    for row in sorted(rows):
        lines.append(f"| {row} | {'<br>'.join(f'`{test}`' for test in sorted(set(rows[row])))} |")
    return "\n".join(lines) + "\n"


def _marked(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text("utf-8"))
    whole = [row for node in tree.body if _is_pytestmark(node) for row in _rows(node)]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            own = [row for decorator in node.decorator_list for row in _rows(decorator)]
            for row in {*whole, *own}:
                yield row, node.name


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
    )


def _rows(node: ast.AST) -> Iterator[int]:
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "negative"
        ):
            for argument in call.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, int):
                    yield argument.value


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    return {"settings.md": settings(), "negative-tests.md": negative()}


def main() -> int:
    """Write or check the pages; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a page is stale, and change nothing")
    check = parser.parse_args().check
    PAGES.mkdir(exist_ok=True)
    stale = [name for name, text in pages().items() if not _same(PAGES / name, text)]
    if check:
        for name in stale:
            print(f"docs/reference/{name} is stale: run scripts/reference.py", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (PAGES / name).write_text(pages()[name], "utf-8")
    return 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
