"""The table of docs/decider.md, from the committed results of `bench/decide.py`."""

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOC = ROOT / "docs" / "decider.md"
BEGIN, END = "<!-- cost: written by bench/decide.py -->", "<!-- /cost -->"
ROWS = (
    ("no facts, 1 in flight", "licet_without_facts_c1", "cerbos_c1"),
    ("no facts, 32 in flight", "licet_without_facts_c32", "cerbos_c32"),
    ("with facts, 1 in flight", "licet_with_facts_c1", "cerbos_c1"),
    ("with facts, 32 in flight", "licet_with_facts_c32", "cerbos_c32"),
    ("ngh2, no facts, 1 in flight", "licet_ngh2_without_facts_c1", "cerbos_c1"),
    ("ngh2, no facts, 32 in flight", "licet_ngh2_without_facts_c32", "cerbos_c32"),
    ("ngh2, with facts, 1 in flight", "licet_ngh2_with_facts_c1", "cerbos_c1"),
    ("ngh2, with facts, 32 in flight", "licet_ngh2_with_facts_c32", "cerbos_c32"),
)


def table(results: dict[str, Any]) -> str:
    """Return the table: CPU of a decision as a part of what a check costs Cerbos, and of the rules alone."""
    sizes = (1, 10, 100)
    head = " | ".join(f"{count} rule{'s' if count > 1 else ''}" for count in sizes)
    lines = [f"| decisions a core and second | {head} |", "|---|---|---|---|"]
    alone = (f"{1e6 / results['evaluate_us'][f'ours_{count}']:,.0f}" for count in sizes)
    lines.append(f"| the rules alone | {' | '.join(alone)} |")
    for name, ours, peer in ROWS:
        if ours not in results["decide_1"]:
            continue  # of results from before there was a choice
        cells = []
        for count in sizes:
            rows = results[f"decide_{count}"]
            rate = rows[ours]["per_core_second"]
            beside = f" ({rate / rows[peer]['per_core_second']:.2f} × Cerbos)" if peer in rows else ""
            cells.append(f"{rate:,.0f}{beside}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    machine = results["machine"]
    load = f"{machine['load_before']} to {machine['load_after']}"
    said = f"Cores: {machine['cores']}; load while it was measured: {load}."
    return "\n".join([BEGIN, *lines, "", said, END])


def written(page: str, results: dict[str, Any]) -> str:
    """Return the page with the table of these results."""
    before, _, rest = page.partition(BEGIN)
    return before + table(results) + rest.partition(END)[2]
