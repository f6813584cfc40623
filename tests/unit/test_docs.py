"""What the documentation names is there: files, tests, commands' pages, and what is generated is fresh."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[[^]]*\])?`")
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
SEVEN = ("envelope", "decision", "permit", "spend", "effect", "evidence", "finding")
STALE = ("scripts/reference.py", "scripts/refusals.py", "scripts/telemetry.py", "scripts/dashboard.py")


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_named_in_the_docs_exists(page: Path) -> None:
    """A threat whose test was renamed has no test."""
    missing = [
        f"{file}::{name}"
        for file, name in TEST.findall(page.read_text("utf-8"))
        if not (ROOT / file).is_file() or name not in functions(ROOT / file)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_the_docs_leads_somewhere(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert broken == []


def test_one_call_has_seven_values_seven_files_seven_tests() -> None:
    rows = re.findall(
        r"^\| (\d) \| (\w+) \| [^|]+ \| \[([^\]]+)\]\([^)]+\) \| `([^`]+)` \|$",
        (ROOT / "docs" / "one-call.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert [row[1] for row in rows] == list(SEVEN)
    assert len({row[2] for row in rows}) == len({row[3] for row in rows}) == len(SEVEN)


def test_every_threat_names_a_test() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text("utf-8").partition("## Threats")[2]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if not TEST.search(row)] == []


@pytest.mark.parametrize("script", STALE)
def test_generated_pages_are_fresh(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
