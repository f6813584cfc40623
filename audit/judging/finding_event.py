"""The event that a finding becomes: whose step it was, what moved, which spans it is about. Pure.

Guarantees: an event can always be made of a finding, whatever amounts are in it; one beyond what an event can
carry is held at its largest, and `detail` says the true one.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from audit.judging.findings import Decided, Finding, Story, moved
from audit.judging.story import Row, is_decision
from licet.tracing import TraceContext

MAX_MINOR: Final = (1 << 63) - 1
"""The largest amount that an event can carry."""


def linked(rows: Iterable[Row]) -> tuple[TraceContext, ...]:
    """Return the spans that a finding is about: of the door, else of the decision, and of the ledger."""
    rows = [row for row in rows if row["trace_id"] and row["span_id"]]
    kinds = ("door.", "ledger.") if any(row["kind"].startswith("door.") for row in rows) else ("decision.",)
    found = [(row["trace_id"], row["span_id"]) for row in rows if row["kind"].startswith(kinds)]
    return tuple(TraceContext(str(trace), str(span)) for trace, span in dict.fromkeys(found))


def trace_of(rows: Iterable[Row]) -> str:
    """Return the trace of the first span that a finding is about; empty where there is none."""
    return next((span.trace_id for span in linked(rows)), "")


def decided_of(story: Story) -> Decided | None:
    """Return the last decision of the story."""
    return max(story.decisions, key=lambda decided: decided.time_us, default=None)


def group(rows: Iterable[Row], steps: Iterable[str]) -> dict[str, list[Row]]:
    """Return the rows of each step; a row that has only a decision id goes to that decision's step."""
    rows = list(rows)
    step_of = {
        str(row["decision_id"]): str(row["spend_id"])
        for row in sorted(rows, key=_is_deciders)  # the decider's word comes last, and stays
        if row["decision_id"] and row["spend_id"]
    }
    wanted = set(steps)
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        decision_id = str(row["decision_id"])
        own = {str(row["spend_id"]) or step_of.get(decision_id, decision_id), decision_id}
        for step in own & wanted:
            grouped[step].append(row)
    return grouped


def _is_deciders(row: Row) -> bool:
    return str(row["kind"]).startswith("decision.") and is_decision(row)


def event_fields(rows: Sequence[Row], finding: Finding) -> dict[str, Any]:
    """Return the fields of the finding's event: the step's own ids, the money that moved, the verdict."""
    names = ("tenant", "principal", "agent", "task_id", "call_id", "spend_id", "tool", "method", "operation",
             "resource", "trace_id")  # fmt: skip
    fields: dict[str, Any] = {name: next((str(row[name]) for row in rows if row[name]), "") for name in names}
    first = finding.changes[0] if finding.changes else None
    fields["bundle_version"] = _bundle_version(rows, finding)
    fields["tier"] = max((int(row["tier"]) for row in rows), default=0)
    fields["decision_id"] = finding.decided.decision_id if finding.decided else ""
    if first is not None:
        fields["tenant"] = fields["tenant"] or first.tenant
        fields["tool"] = fields["tool"] or first.tool
        fields["resource"] = fields["resource"] or first.resource
        fields["currency"] = first.currency
        fields["change_id"] = first.change_id
        fields["amount_minor"] = moved(finding.changes)
    detail = finding.detail
    if int(fields.get("amount_minor", 0)) > MAX_MINOR:
        detail = f"{fields['amount_minor']} {fields['currency']} moved, more than an event can say; {detail}"
        fields["amount_minor"] = MAX_MINOR
    return {**fields, "finding": str(finding.finding), "detail": detail}


def name_of(row: Row) -> str:
    """What a row that belongs to no step is called in a finding."""
    return str(row["spend_id"] or row["decision_id"]) or f"ledger:{row['tool']}:{row['change_id']}"


def _bundle_version(rows: Sequence[Row], finding: Finding) -> int:
    """The version that made the decision the finding is about; 0 where there is none."""
    wanted = finding.decided.decision_id if finding.decided else ""
    return next((int(row["bundle_version"]) for row in rows if wanted and row["decision_id"] == wanted), 0)
