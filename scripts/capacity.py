"""Write the capacity table of docs/operations.md from bench/results; `--check` compares only.

What the audit costs comes from its own benchmark: at few calls a second batches are small and merges go on.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "operations.md"
RESULTS: Final = ROOT / "bench" / "results"
BEGIN, END = "<!-- capacity: begin -->\n", "<!-- capacity: end -->\n"
PER_SECOND: Final = 1_000
DAY_S: Final = 86_400
NAMES: Final = {
    "decider": "deciders",
    "door": "doors",
    "tool": "the example's tool, guard and SQLite included",
    "nats": "NATS, one server",
    "reconciler": "reconciler, if it were more than one process",
}


def table(result: dict[str, Any], audit: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| at {PER_SECOND:,} gated refunds a second | |\n"
    yield "|---|---|\n"
    for part, name in NAMES.items():
        cores = result["cpu_us_a_call"][part] * PER_SECOND / 1e6
        yield f"| {name} | {cores:.1f} cores |\n"
    rows, disk = result["rows_a_call"], result["store_bytes_a_call"]
    alone, both = audit["events_per_core_writer_alone"], audit["events_per_core_engine_included"]
    yield f"| audit writer | {rows * PER_SECOND / alone:.1f} cores |\n"
    yield f"| ClickHouse, for the inserts | {rows * PER_SECOND * (1 / both - 1 / alone):.1f} cores |\n"
    messages = sum(result["messages_a_call"].values())
    size = sum(result["stream_bytes_a_call"].values())
    yield f"| into JetStream, spend log included | {messages:.1f} messages and {size / 1e3:.1f} kB a call: "
    yield f"{size * PER_SECOND * DAY_S / 1e12:.2f} TB a day and copy |\n"
    yield f"| into ClickHouse | {rows:.1f} rows and {disk / 1e3:.1f} kB on disk a call: "
    yield f"{disk * PER_SECOND * DAY_S / 1e12:.2f} TB a day |\n"
    most = round(1e6 / result["cpu_us_a_call"]["reconciler"], -1)
    made = f"{result['calls']:,} calls by {result['callers']} callers"
    yield f"\n{made}; what the idle stack uses is taken off. The one reconciler keeps up with\n"
    yield f"about {most:.0f} gated calls a second; above that findings come later, and nothing else waits.\n"


def written(page: str) -> str:
    """Return the page with the table between its marks."""
    capacity, audit = (
        json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in ("capacity", "audit_writer")
    )
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{PAGE}: no `{BEGIN.strip()}` and `{END.strip()}`")
    return before + BEGIN + "".join(table(capacity, audit)) + END + after


def main() -> int:
    """Return the exit status: 1 when the page is not what the results say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    page = PAGE.read_text("utf-8")
    fresh = written(page)
    if parser.parse_args().check:
        if page != fresh:
            print(f"{PAGE} is stale: python scripts/capacity.py", file=sys.stderr)
        return int(page != fresh)
    PAGE.write_text(fresh, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
