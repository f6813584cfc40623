"""Text for people: evidence and tables that fit a terminal. Pure."""

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from audit.evidence import Evidence, Row

WIDTH: Final = 100
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
        lines += [_line(row, fields) for row in rows]
    state = "" if evidence.finding.settled else " (not settled yet)"
    detail = f": {evidence.finding.detail}" if evidence.finding.detail else ""
    lines.append(f"finding: {evidence.finding.finding}{detail}{state}")
    return "\n".join(lines)


def _line(row: Row, fields: Iterable[str]) -> str:
    time = datetime.fromtimestamp(max(min(row["time_us"], 4102444800000000), 0) / 1_000_000, UTC)
    shown = [f"{name}={printable(row[name])}" for name in fields if row[name] not in ("", 0, [], ())]
    return "  ".join(["", time.strftime("%H:%M:%S.%f")[:-3], str(row["kind"]), *shown])


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
