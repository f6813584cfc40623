"""Figures in the docs are those of the committed results."""

import json
from pathlib import Path

from bench.enforcing.report import DOC, written

RESULT = Path(__file__).parents[2] / "bench" / "results" / "enforce.json"


def test_the_tables_of_the_sidecar_are_those_of_the_committed_results() -> None:
    page = DOC.read_text()
    assert page == written(page, json.loads(RESULT.read_text()))
