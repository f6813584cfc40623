"""The figures of docs/decider.md are those of the committed results."""

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORT = runpy.run_path(str(ROOT / "bench" / "_deciding.py"))


def test_table_of_the_decider_is_that_of_the_committed_results() -> None:
    page = REPORT["DOC"].read_text()
    results = json.loads((ROOT / "bench" / "results" / "decide.json").read_text())
    assert REPORT["BEGIN"] in page
    assert page == REPORT["written"](page, results)
    results["decide_100"]["licet_with_facts_c1"]["per_core_second"] += 1000
    assert page != REPORT["written"](page, results)
