"""Evidence of the attempts, read back from ClickHouse and the trace store; waited for, with a deadline.

What a step left is read by `audit.judging.evidence`, as `licet audit evidence` does. The writer and the
reconciler are some moments behind; evidence that is not as expected at the deadline is shown as it is.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from audit.judging.evidence import NoEvidenceError, read, rows_of_steps
from examples.refund.demo.attempt import Attempt, Case
from examples.refund.demo.stand import Stand
from examples.refund.demo.wire import Step

WAIT_S: Final = 60.0
POLL_S: Final = 0.2
QUIET_S: Final = 1.2
MANY: Final = 8
"""From so many steps on, an attempt's evidence is read by one query instead of one a step."""

Row = Mapping[str, Any]


def read_all(house: Stand, cases: Iterable[Case], shown: Callable[[Case], None] = lambda _: None) -> None:
    """Read the evidence of every case, in order; `shown` is told each case that has all of its evidence."""
    for case in cases:
        end = time.monotonic() + WAIT_S
        while True:
            for attempt in case.attempts:
                if not attempt.right:
                    read_one(house, attempt)
            if all(attempt.right for attempt in case.attempts) or time.monotonic() > end:
                break
            time.sleep(POLL_S)
        shown(case)


def read_one(house: Stand, attempt: Attempt) -> None:
    """Read what the stores have of one attempt now."""
    seen = attempt.seen
    rows, findings = _rows(house, attempt.steps)
    seen.rows = tuple(rows)
    seen.events = Counter(event_name(row) for row in rows if not str(row["kind"]).startswith("finding."))
    seen.raised = sum(row["kind"] == "finding.raised" for row in rows)
    seen.findings = tuple(sorted(set(findings)))
    seen.spans = spans_of(house, attempt.steps)


def event_name(row: Row) -> str:
    """Return an event's kind with the reason, or the outcome, that it carries."""
    kind, reason, outcome = str(row["kind"]), str(row["reason"]), str(row["outcome"])
    said = outcome if kind == "spend.outcome" else reason
    return f"{kind} {said}".strip()


def _rows(house: Stand, steps: Sequence[Step]) -> tuple[list[Row], list[str]]:
    if len(steps) >= MANY:
        return _rows_of_many(house, steps)
    rows: list[Row] = []
    findings = []
    for step in steps:
        try:
            found = read(
                house.store, now_us=time.time_ns() // 1000, task_id=step.task_id, call_id=step.call_id
            )
        except NoEvidenceError:
            continue
        rows.extend((*found.policy, *found.authorization, *found.ledger, *found.findings))
        findings.append(str(found.finding.finding))
    return rows, findings


def _rows_of_many(house: Stand, steps: Sequence[Step]) -> tuple[list[Row], list[str]]:
    """Read steps by their spend ids; the finding of each is the last that the reconciler raised."""
    ids = [asked.decision.spend_id for step in steps for asked in step.asked]
    rows = rows_of_steps(house.store, ids, [])
    raised = {str(row["spend_id"]): str(row["finding"]) for row in rows if row["kind"] == "finding.raised"}
    return rows, [raised.get(spend_id, "none yet") for spend_id in ids]


def spans_of(house: Stand, steps: Iterable[Step]) -> frozenset[str]:
    """Return the names that occur in every one of the steps' traces."""
    traces = house.stack.traces
    if traces is None:
        return frozenset()
    names = [frozenset(span.name for span in traces.trace(step.trace_id)) for step in steps]
    return frozenset.intersection(*names) if names else frozenset()


def wait_for_spans(house: Stand, trace_id: str) -> None:
    """Wait until no more spans of a trace come: each process sends its own within half a second."""
    traces = house.stack.traces
    if traces is None:
        return
    before, since = -1, time.monotonic()
    while time.monotonic() - since < QUIET_S:
        count = len(traces.trace(trace_id))
        if count != before:
            before, since = count, time.monotonic()
        time.sleep(POLL_S)
