"""A task's story as one HTML page that needs nothing else: no script, no network. Pure."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from audit.asking.show import FEW, few, printable
from audit.judging.findings import PAGES

_STYLE: Final = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #1a1a1a; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid #ddd; padding: .3em .6em; text-align: left; vertical-align: top; }
td.t { white-space: nowrap; font-variant-numeric: tabular-nums; }
tr.deny td:nth-child(3) { background: #fde2e2; } tr.allow td:nth-child(3) { background: #e2f5e5; }
tr.page td:nth-child(3) { background: #b00020; color: #fff; } small { color: #666; }
"""
_DETAIL: Final = (
    "reason", "rule_ids", "outcome", "finding", "method", "signature", "decision_id", "spend_id", "trace_id",
)  # fmt: skip


def page(title: str, rows: Sequence[Mapping[str, Any]], cut: Sequence[str] = ()) -> str:
    """Return the page; every value is escaped, control characters are made visible.

    What the door repeated is shown a few times and counted; `cut`: sorts of rows that were not all read.
    """
    total = len(rows)
    doors = Counter(
        (str(row["kind"]), str(row["reason"])) for row in rows if str(row["kind"]).startswith("door.")
    )
    rows = few(rows)
    start = int(rows[0]["time_us"]) if rows else 0
    body = "\n".join(_row(row, start) for row in rows)
    head = "<tr><th>time</th><th>+ms</th><th>what</th><th>resource</th><th>amount</th><th>more</th></tr>"
    many = "".join(
        f"<p>{_text(printable(f'{kind} {reason}'))}: {times} in all or more</p>"
        for (kind, reason), times in doors.items()
        if times > FEW
    )
    many += f"<p><b>CUT: not all rows were read of {_text(', '.join(cut))}.</b></p>" if cut else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{_text(title)}</h1>\n<table>{head}\n{body}\n</table>{many}"
        f"<p><small>{len(rows)} of {total} events, as the store has them; whether they are true says"
        " licet audit verify.</small></p></body></html>\n"
    )


def _row(row: Mapping[str, Any], start: int) -> str:
    time = datetime.fromtimestamp(max(min(int(row["time_us"]), 4102444800000000), 0) / 1_000_000, UTC)
    kind = str(row["kind"])
    shade = (
        "page"
        if row["finding"] in PAGES
        else "deny"
        if kind.endswith(("denied", "refused", "failed"))
        else ""
    )
    shade = shade or ("allow" if kind.endswith(("allowed", "passed", "changed")) else "")
    amount = f"{row['amount_minor']} {row['currency']}" if row["currency"] else ""
    more = [
        f"{name} {printable(row[name])}" for name in _DETAIL if name in row and row[name] not in ("", [], ())
    ]
    cells = (
        time.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
        f"{(int(row['time_us']) - start) / 1000:.1f}",
        kind,
        printable(row["resource"]),
        amount,
        "; ".join(more),
    )
    first, *rest = (_text(cell) for cell in cells)
    return (
        f'<tr class="{shade}"><td class="t">{first}</td>'
        + "".join(f"<td>{cell}</td>" for cell in rest)
        + "</tr>"
    )


def _text(text: str) -> str:
    return html.escape(text)
