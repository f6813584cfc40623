"""A trace as text: a tree of spans with what each says of the decision, the door and the ledger. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from licet import telemetry
from licet.embedded.trace_store import StoredSpan

_SHOWN: Final = (
    telemetry.DECISION,
    telemetry.ENFORCEMENT,
    telemetry.REASON,
    telemetry.BUNDLE_VERSION,
    telemetry.RULE_IDS,
    telemetry.OUTCOME,
    telemetry.TOOL_REACHED,
    telemetry.LEDGER_CHANGE_ID,
    telemetry.FINDING,
    telemetry.ERROR_TYPE,
)
"""The attributes a tree shows, in this order; the rest is in the store."""


def render(spans: Sequence[StoredSpan], linked: Sequence[StoredSpan] = (), *, width: int = 100) -> str:
    """Draw a trace, then the spans of other traces that link to it, within `width` columns.

    What a span says goes on in further lines; a single name or value that is wider than a line is cut.
    A span whose parent never arrived is drawn at the top and says so: a missing span is a finding, not a
    reason to hide its children. What a span says moves no cursor and forges no line: a collector takes spans
    of anybody.
    """
    known = {one.span_id for one in spans}
    lines: list[str] = []
    for root in [one for one in spans if one.parent_id not in known]:
        lines.extend(_lines(root, spans, "", "", width))
    for span in linked:
        targets = ", ".join(_name_of(target, spans) for _, target in span.links if target in known)
        head = f"{span.name} [{span.service}] links to {targets}"
        lines.extend(_folded(head, _facts(span), "    ", width))
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in lines)


def _folded(head: str, parts: Sequence[str], indent: str, width: int) -> Iterator[str]:
    """Yield lines; a break stands between parts only, so that nobody's text begins a line."""
    line = _printable(head)
    for part in map(_printable, parts):
        if len(line) + len(part) <= width:
            line += part
        else:
            yield line
            line = indent + part.lstrip()
    yield line


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


def _lines(span: StoredSpan, spans: Sequence[StoredSpan], first: str, rest: str, width: int) -> Iterator[str]:
    milliseconds = (span.end_ns - span.start_ns) / 1e6
    links = [f"  -> {_name_of(target, spans)}" for _, target in span.links]
    children = [one for one in spans if one.parent_id == span.span_id]
    head = f"{first}{span.name} [{span.service}] {milliseconds:.1f} ms"
    is_root = not first  # nothing stands before it
    orphan = ["  (parent missing)"] if span.parent_id and is_root else []
    parts = [*_facts(span), *links, *orphan]
    yield from _folded(head, parts, rest + ("│   " if children else "    "), width)
    for child in children:
        last = child is children[-1]
        more = rest + ("  " if last else "│ ")
        yield from _lines(child, spans, rest + ("└ " if last else "├ "), more, width)


def _facts(span: StoredSpan) -> list[str]:
    shown = [(key, span.attributes[key]) for key in _SHOWN if key in span.attributes]
    return [f" {key.removeprefix('licet.')}={_text(value)}" for key, value in shown]


def _text(value: object) -> str:
    return "+".join(str(one) for one in value) if isinstance(value, list) else str(value)


def _name_of(span_id: str, spans: Sequence[StoredSpan]) -> str:
    return next((one.name for one in spans if one.span_id == span_id), f"span {span_id}")
