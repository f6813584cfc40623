#!/usr/bin/env python3
"""Write docs/telemetry.md from licet/telemetry.py: spans, attributes, metrics in both spellings.

`scripts/telemetry.py` writes the page anew. `scripts/telemetry.py --check` changes nothing and fails if it is
stale, or if a name has no line that says what it is.
"""

import argparse
import ast
import itertools
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from licet import telemetry  # noqa: E402 - the repository comes first

SOURCE = ROOT / "licet" / "telemetry.py"
PAGE = ROOT / "docs" / "telemetry.md"
PLAIN = ("SCHEMA_URL", "SCOPE", "EXECUTE_TOOL", "GRPC", "TRACEPARENT", "TRACESTATE", "SECONDS", "NONE")
"""Constants that name no span, attribute or metric."""
HEAD = f"""# Telemetry

Written by scripts/telemetry.py from licet/telemetry.py; do not edit.

Names follow OpenTelemetry `{telemetry.SCHEMA_URL}`, ours stand under `licet.`. A refusal is no span error:
`error.type` is set where a part failed. What was decided (`licet.decision`) and what the door did
(`licet.enforcement`) are kept apart. No span, metric or log carries arguments, results, permits, signatures,
tokens or keys; no metric has an id as a label.

Where it goes: `LICET_OTLP_ENDPOINT` for spans, `LICET_METRICS_ENDPOINT` for metrics over OTLP/gRPC,
`LICET_METRICS_LISTEN` for Prometheus to scrape (`GET /metrics`). All are off by default, none ever holds up a
call: spans are dropped and sums go on when a collector is away. Metrics are sent every 10 s. A door duration
carries the trace that shows it as an exemplar, over OTLP.

A trace is kept when its caller sampled it, when it has no caller, and always when the call was denied, held,
refused or is a write: no caller can hide one. `licet trace show ID` draws it and, where LICET_CLICKHOUSE_URL
is set, shows the three evidences from the audit store. [ops/otel_traces.sql](../ops/otel_traces.sql) is the
table in which a collector keeps traces beside the audit store; `TraceId` there is `trace_id` in `events`, and
`licet audit ask story --trace -p id=ID` tells events and spans in one order, linked traces included.

A held call is one trace for each try, and one for each wait. They are linked, nobody's child: `approval.wait`
and every later decision of the step link to the decision that asked people first, which the hold names, so
that this holds for whatever process waits or resumes; a decision that follows a wait in the same process
links to that, too.

The opening case in a trace viewer, [ungated](pictures/ungated.png): no span failed, and the ledger changed;
[gated](pictures/gated.png): the refund ends with its decision, and no span of the tool follows. `licet trace
send ID --to http://127.0.0.1:4317` sends a kept trace to any viewer; scripts/pictures.py took these two.

Logs are JSON lines on stderr: `time`, `level`, `process`, `event`, then fields, and `trace_id` on each line
that is written while a call is worked on, in every process. `LICET_LOG_LEVEL` says from which level on.
Exceptions are there by type and frames, never by message. `library.said` is what a library logs, by its place
in the library's source (`at`): the words of a library may quote what it could not read.

What it costs: `python -m bench tracing` (CPU and latency of a call with telemetry over one without) and
`python -m bench black_hole` (latency while a collector takes everything and never answers).

[ops/alerts.yaml](../ops/alerts.yaml) has alert rules, [ops/dashboards](../ops/dashboards) three Grafana
dashboards: operations (Prometheus), security and audit (ClickHouse); the last has a panel for each question
of `licet audit ask`.
"""


def says() -> dict[str, str]:
    """Return the line under each constant of the source."""
    body = ast.parse(SOURCE.read_text("utf-8")).body
    found = {}
    for node, after in itertools.pairwise(body):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[node.target.id] = str(after.value.value)
    return found


def rows(prefix: bool) -> list[str]:
    """Return the rows of spans, or those of attributes."""
    said, lines, missing = says(), [], []
    for constant, value in vars(telemetry).items():
        is_name = constant.isupper() and isinstance(value, str) and constant not in PLAIN
        if not is_name or constant.startswith("METRIC_") or constant.startswith("SPAN_") is not prefix:
            continue
        if constant not in said:
            missing.append(constant)
            continue
        lines.append(f"| `{value}` | {said[constant]} |")
    if missing:
        raise SystemExit(f"{SOURCE.name}: no line under {', '.join(missing)}")
    return lines


def page() -> str:
    """Return the page."""
    lines = [HEAD, "## Metrics", ""]
    lines += ["| OpenTelemetry | Prometheus | kind | unit | labels | measured by | meaning |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for one in telemetry.METRICS.values():
        labels = ", ".join(f"`{label}`" for label in one.labels) or "–"
        lines.append(
            f"| `{one.name}` | `{one.prometheus}` | {one.kind} | `{one.unit}` | {labels} "
            f"| {one.part} | {one.says} |"
        )
    lines += [
        "",
        "In Prometheus a label is spelled with underscores: `licet_reason`. A label that has nothing",
    ]
    lines += [f"to say is `{telemetry.NONE}`, so every sample of a metric has the same labels."]
    lines += ["", "## Spans", "", "| name | who, kind: what it is |", "|---|---|", *rows(prefix=True)]
    lines += ["", "## Attributes", "", "| name | meaning |", "|---|---|", *rows(prefix=False)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the page is stale, and change nothing")
    text = page()
    if parser.parse_args().check:
        if PAGE.exists() and PAGE.read_text("utf-8") == text:
            return 0
        print("docs/telemetry.md is stale: run scripts/telemetry.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
