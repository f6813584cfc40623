"""Text for people: evidence and tables that fit a terminal. Pure."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from audit.judging.evidence import Evidence
from audit.judging.story import Row

WIDTH: Final = 100
FEW: Final = 5
"""So many rows of one sort at the door are shown; all are counted."""
_SECTIONS: Final = (
    ("policy", ("decision", "reason", "rule_ids", "bundle_version", "amount_minor", "currency", "resource")),
    ("authorization", ("outcome", "reason", "round", "attempt", "caller", "method", "signature", "detail")),
    ("ledger", ("account", "amount_minor", "currency", "resource", "change_id", "issuer")),
    ("findings", ("finding", "detail")),
)


def evidence_text(evidence: Evidence) -> str:
    """Return the evidence as lines of text."""
    lines = [f"step {evidence.spend_id or 'without spend id'}"]
    for section, fields in _SECTIONS:
        rows: Sequence[Row] = getattr(evidence, section)
        lines.append(f"{section}:" + ("" if rows else " none"))
        lines += [_line(row, fields) for row in few(rows)]
        if section == "authorization":
            lines += [_counted(row) for row in evidence.doors if row["times"] > FEW]
    if evidence.story.strangers:
        lines.append("not counted as evidence: " + printable(evidence.story.strangers))
    if evidence.cut:
        lines.append(f"CUT: not all rows were read of {', '.join(evidence.cut)}; the finding is not certain")
    state = "" if evidence.finding.settled else " (not settled yet)"
    detail = f": {printable(evidence.finding.detail)}" if evidence.finding.detail else ""
    lines.append(f"finding: {evidence.finding.finding}{detail}{state}")
    return "\n".join(lines)


def few(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, but of those that the door repeated only the first FEW of each sort."""
    seen: Counter[tuple[str, str, str, str]] = Counter()
    shown = []
    for row in rows:
        step = str(row["spend_id"] or row["decision_id"])
        sort = (step, str(row["source"]), str(row["kind"]), str(row["reason"]))
        seen[sort] += 1
        if seen[sort] <= FEW or not sort[2].startswith("door."):
            shown.append(row)
    return shown


def _counted(row: Row) -> str:
    times = f"{row['times']} times"
    return f"  {clock(row['first_us'])} to {clock(row['last_us'])}  {row['kind']}  {times}  " + printable(
        f"reason={row['reason']}  {row['source']}"
    )


def clock(time_us: int) -> str:
    """Return the time of day, UTC; a time out of all bounds is held within 1970 to 2100."""
    time = datetime.fromtimestamp(max(min(int(time_us), 4102444800000000), 0) / 1_000_000, UTC)
    return time.strftime("%H:%M:%S.%f")[:-3]


def _line(row: Row, fields: Iterable[str]) -> str:
    shown = [f"{name}={printable(row[name])}" for name in fields if row[name] not in ("", 0, [], ())]
    return "  ".join(["", clock(row["time_us"]), str(row["kind"]), *shown])


def printable(value: Any) -> str:
    """Return `value` as text that cannot move the cursor or forge a line."""
    if isinstance(value, list | tuple):
        return ",".join(printable(item) for item in value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return "".join(
        letter if unicodedata.category(letter)[0] != "C" else f"\\u{ord(letter):04x}" for letter in str(value)
    )


def table(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int = WIDTH) -> str:
    """Return a table of at most `width` columns; where it would cut too much, one line a value instead."""
    if not rows:
        return "no rows"
    cells = [[printable(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(names)]
    room = width - 2 * (len(widths) - 1)
    if sum(widths) > room + room // 4:
        return _records(names, cells)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    lines = [names, ["-" * wide for wide in widths], *cells]
    return "\n".join(
        "  ".join(_cut(cell, wide) for cell, wide in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    indent = max(len(name) for name in names)
    blocks = [
        "\n".join(f"{name.rjust(indent)}  {cell}" for name, cell in zip(names, row, strict=True) if cell)
        for row in cells
    ]
    return "\n\n".join(blocks)


def _cut(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
