"""What people and programs read: tables of at most 100 columns that cut nothing, or one JSON document."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

from examples.refund.demo.attempt import Attempt, Case
from examples.refund.demo.story import Told

WIDTH: Final = 100
TRACE_DIGITS: Final = 16
"""Of a trace id; `licet trace show` takes the beginning of one."""
_RIGHT: Final = {True: "ok", False: "!!"}


def money(minor: int) -> str:
    """Return an amount of the example's currency, such as `-50.00`."""
    sign = "-" if minor < 0 else ""
    return f"{sign}{abs(minor) // 100}.{abs(minor) % 100:02}"


def heading(text: str) -> str:
    """Return a heading with its rule."""
    return f"\n{text}\n{'-' * min(len(text), WIDTH)}"


def story_lines(told: Told, tree: str) -> Iterator[str]:
    """Tell how the agent fared."""
    ticket = told.ticket
    yield f"policy says     {ticket.passage}"
    yield f"order says      refund_allowed={'true' if ticket.refund_allowed else 'false'}"
    if ticket.reason:
        yield f"agent refunds   denied: {ticket.denial} ({ticket.reason})"
        yield f"ask             {ticket.escalate_to}"
    else:
        yield f"agent refunds   OK, refund {ticket.refund_id}"
    yield f"tool process    {told.refund_calls} refund{'' if told.refund_calls == 1 else 's'} called"
    yield f"ledger          {money(told.ledger_minor)} USD"
    yield f"trace           {told.trace_id}"
    yield from (f"  {line}" for line in tree.splitlines())


def table_head() -> str:
    """Return the head of the table of cases."""
    return f"    {'attempt':<34}{'reply':<22}{'calls':>5} {'ledger':>10}  finding"


def case_lines(number: int, case: Case) -> Iterator[str]:
    """Return a case's rows: what was tried, what came of it, and its three evidences."""
    yield f"{number:>2}  {case.title}"
    for attempt in case.attempts:
        yield from _attempt_lines(attempt, twin=attempt.lawful and case.attacked)
    if case.broke:
        yield f" !! it broke: {case.broke}"


def _attempt_lines(attempt: Attempt, *, twin: bool) -> Iterator[str]:
    seen = attempt.seen
    replies = [_times(name, count) for name, count in sorted(Counter(seen.replies).items())]
    labels = textwrap.wrap(("twin: " if twin else "") + attempt.label, 33)
    head = f" {_RIGHT[attempt.right]} ", f"{seen.refund_calls:>5} {money(seen.ledger_minor):>10}  "
    for label, reply, finding in zip_longest(
        labels, _packed(replies, 21), _packed(seen.findings, 22), fillvalue=""
    ):
        yield f"{head[0]}{label:<34}{reply:<22}{head[1]}{finding}".rstrip()
        head = " " * len(head[0]), " " * len(head[1])
    policy, authorization, ledger = evidences(attempt)
    yield from _wrapped(f"policy {policy} · authorization {authorization}")
    yield from _wrapped(f"ledger {ledger} · trace {_trace(attempt)}")
    for difference in attempt.differences():
        yield f"    !! {difference}"


def evidences(attempt: Attempt) -> tuple[str, str, str]:
    """Return the three evidences of an attempt as words."""
    events = attempt.seen.events
    parts = []
    for prefixes in (("decision.",), ("door.", "spend."), ("ledger.",)):
        found = [(name.partition(".")[2], count) for name, count in sorted(events.items(), key=_in_order)
                 if name.startswith(prefixes)]  # fmt: skip
        parts.append(", ".join(_times(name, count) for name, count in found) or "none")
    return parts[0], parts[1], parts[2]


def _in_order(event: tuple[str, int]) -> tuple[int, str]:
    """A door's refusals first, then the spend's records in the order of their time."""
    name = event[0]
    late = ("door.passed", "spend.reserved", "spend.outcome")
    return next((place for place, one in enumerate(late, 1) if name.startswith(one)), 0), name


def _trace(attempt: Attempt) -> str:
    ids = [step.trace_id[:TRACE_DIGITS] for step in attempt.steps]
    return ids[0] + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")


def _times(name: str, count: int) -> str:
    return name if count == 1 else f"{count} × {name}"


def _packed(names: Sequence[str], width: int) -> tuple[str, ...]:
    """Return names joined by `+`, a new line before each that finds no room."""
    lines: list[str] = []
    for name in names:
        if lines and len(lines[-1]) + len(name) < width:
            lines[-1] += f"+{name}"
        else:
            lines.append(f"+{name}" if lines else name)
    return tuple(lines)


def _wrapped(text: str) -> list[str]:
    """Return lines of at most `WIDTH`; a number stays beside what it counts."""
    kept = text.replace(" × ", "\u00a0×\u00a0")
    lines = textwrap.wrap(kept, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 10)
    return [line.replace("\u00a0", " ") for line in lines]


def told_json(told: Told) -> dict[str, Any]:
    """Return a telling as plain values."""
    ticket = told.ticket
    return {
        "refund_allowed": ticket.refund_allowed,
        "refund_id": ticket.refund_id,
        "reason": ticket.reason,
        "escalate_to": ticket.escalate_to,
        "refund_calls": told.refund_calls,
        "ledger_minor": told.ledger_minor,
        "trace_id": told.trace_id,
    }


def case_json(case: Case) -> dict[str, Any]:
    """Return a case as plain values."""
    return {
        "case": case.name,
        "title": case.title,
        "right": case.right,
        "broke": case.broke,
        "attempts": [_attempt_json(attempt) for attempt in case.attempts],
    }


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    seen = attempt.seen
    return {
        "label": attempt.label,
        "lawful": attempt.lawful,
        "right": attempt.right,
        "differences": list(attempt.differences()),
        "replies": dict(Counter(seen.replies)),
        "refund_calls": seen.refund_calls,
        "ledger_minor": seen.ledger_minor,
        "events": dict(seen.events),
        "findings": list(seen.findings),
        "trace_ids": [step.trace_id for step in attempt.steps],
        "seconds": round(attempt.seconds, 3),
    }
