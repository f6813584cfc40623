"""From rows of a step to its story: what counts as its evidence, and what only names it. Pure.

Guarantees: a row counts for a step only if it came from the tool that the decision is for, a spend record
only with a valid signature; the others are named in the story. A time that is far from JetStream's is
replaced by it. Sorts of which there are more rows than were read are named. Not here: reading
(audit.judging.evidence), judging (audit.judging.findings).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from audit.judging.findings import WINDOW_US, Change, Decided, Ended, Reserved, Story
from audit.store.record import CEILINGS, VALID

MAX_ROWS: Final = 10_000
"""Rows read of one step and sort, and of one resource; a step has a handful."""
DAY_US: Final = 86_400_000_000
Row = Mapping[str, Any]


def cut_of(rows: Iterable[Row], limit: int = MAX_ROWS) -> tuple[str, ...]:
    """Return the sorts of rows of which there are more than `limit` of one step, so not all were read."""
    counts = Counter(
        (str(row["spend_id"] or row["decision_id"]), _sort(str(row["kind"])))
        for row in rows
        if not str(row["kind"]).startswith("door.")
    )
    return tuple(sorted({sort for (_, sort), count in counts.items() if count > limit}))


def _sort(kind: str) -> str:
    if kind in {"decision.allowed", "decision.modified"}:
        return "allowed"
    return "denied" if kind.startswith("decision.") else kind


def held_time(row: Row) -> int:
    """Return when it happened, in Unix µs: its source's word, held to JetStream's clock.

    A row is stored after it happened, up to a day later when its tool was away. Whoever says otherwise could
    move his row out of every window, or make the windows themselves useless.
    """
    told, stored = int(row["time_us"]), int(row["js_time_us"])
    return told if stored - DAY_US <= told <= stored + WINDOW_US else stored


def of_kind(rows: Iterable[Row], *prefixes: str) -> tuple[Row, ...]:
    """Return the rows whose kind begins with one of these."""
    return tuple(row for row in rows if str(row["kind"]).startswith(prefixes))


def story_of(
    rows: Sequence[Row],
    beside: Iterable[Row] = (),
    *,
    label: tuple[str, ...] | None = None,
    ledger_rows: tuple[Change, ...] | None = None,
) -> Story:
    """Return the story that the rows of one step tell; `beside`: what else happened to its resource."""
    own = {(row["event_id"], row["kind"], row["source"]) for row in rows}
    beside = list(beside)
    others = [row for row in beside if (row["event_id"], row["kind"], row["source"]) not in own]
    cut = cut_of(rows) + tuple(f"beside: {sort}" for sort in _cut_beside(beside))
    rows, strangers = split(rows)
    return Story(
        decisions=tuple(decided(row) for row in of_kind(rows, "decision.") if is_decision(row)),
        door_passed=any(row["kind"] == "door.passed" for row in rows),
        door_refusals=tuple(dict.fromkeys(str(row["reason"]) for row in of_kind(rows, "door.refused"))),
        reserves=tuple(_reserved(row) for row in of_kind(rows, "spend.reserved")),
        outcomes=tuple(
            Ended(int(row["round"]), str(row["outcome"]), str(row["signature"]), held_time(row))
            for row in of_kind(rows, "spend.outcome")
        ),
        changes=tuple(change(row) for row in of_kind(rows, "ledger.changed")),
        other_changes=tuple(change(row) for row in of_kind(others, "ledger.changed")),
        other_decisions=tuple(decided(row) for row in of_kind(others, "decision.") if is_decision(row)),
        ledger_rows=ledger_rows,
        approvals=tuple(
            str(name) for row in of_kind(rows, "decision.", "door.") for name in row["approvals"]
        ),
        label=label,
        strangers=tuple(dict.fromkeys(_stranger(row) for row in strangers)),
        cut=cut,
    )


def split(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are evidence of the step, and those that only name it.

    A sidecar's account writes under its own tool's subjects, but any spend or decision id. So what the door,
    the spend log and the ledger say counts only from the tool that the decision is for; with no decision on
    record, from any. A spend record counts only if its signature holds. Nor does a row count that names a
    decision of this step beside the spend id of another one.
    """
    rows = list(rows)
    tools = {str(row["tool"]) for row in of_kind(rows, "decision.") if is_decision(row) and row["tool"]}
    spends = {str(row["spend_id"]) for row in of_kind(rows, "decision.") if is_decision(row)} - {""}
    fitting: list[Row] = []
    strangers: list[Row] = []
    for row in rows:
        kind = str(row["kind"])
        fits = not tools or not kind.startswith(("door.", "spend.", "ledger.")) or tool_of(row) in tools
        if kind.startswith("spend.") and row["signature"] != VALID:
            fits = False
        if spends and str(row["spend_id"]) not in {"", *spends}:
            fits = False
        (fitting if fits else strangers).append(row)
    return fitting, strangers


def tool_of(row: Row) -> str:
    """Return whose word a row is: the tool of the subject that it came under, not what it says itself."""
    if str(row["kind"]).startswith("door."):
        return str(row["source"]).rpartition("/sidecar/")[2]
    return str(row["tool"])


def _stranger(row: Row) -> str:
    signature = str(row["signature"])
    if str(row["kind"]).startswith("spend.") and signature != VALID:
        return f"{row['kind']} of `{tool_of(row)}` with signature {signature or 'unknown'}"
    return f"{row['kind']} of `{tool_of(row)}`"


def _cut_beside(rows: Iterable[Row]) -> tuple[str, ...]:
    counts = Counter((row["tenant"], row["tool"], row["resource"], _sort(str(row["kind"]))) for row in rows)
    return tuple(sorted({key[-1] for key, count in counts.items() if count > MAX_ROWS}))


def is_decision(row: Row) -> bool:
    """Whether this is a decider's own word; the writer lets nobody else say decision.*."""
    return str(row["source"]).endswith("/decider")


def decided(row: Row) -> Decided:
    """Return the decision that a decision.* row records."""
    return Decided(
        decision_id=str(row["decision_id"]),
        spend_id=str(row["spend_id"]),
        decision=str(row["decision"]) or _DECISION_OF_KIND.get(str(row["kind"]), "failed"),
        reason=str(row["reason"]),
        tenant=str(row["tenant"]),
        tool=str(row["tool"]),
        resource=str(row["resource"]),
        time_us=held_time(row),
        tier=int(row["tier"]),
        amount_minor=int(row["amount_minor"]),
        currency=str(row["currency"]),
        call_digest=str(row["call_digest"]),
        rule_ids=tuple(str(rule) for rule in row["rule_ids"]),
        not_after_ms=int(row["not_after_ms"]),
        hold_id=str(row["hold_id"]),
    )


_DECISION_OF_KIND: Final = {
    "decision.allowed": "allow",
    "decision.modified": "modify",
    "decision.denied": "deny",
    "decision.held": "hold",
}


def _reserved(row: Row) -> Reserved:
    return Reserved(
        decision_id=str(row["decision_id"]),
        round=int(row["round"]),
        attempt=str(row["attempt"]),
        signature=str(row["signature"]),
        not_after_ms=int(row["not_after_ms"]),
        ceilings=str(row["detail"]) == CEILINGS,
        time_us=held_time(row),
    )


def change(row: Row) -> Change:
    """Return the ledger row that a ledger.changed event records."""
    return Change(
        spend_id=str(row["spend_id"]),
        decision_id=str(row["decision_id"]),
        tenant=str(row["tenant"]),
        tool=str(row["tool"]),
        resource=str(row["resource"]),
        entry=int(row["entry"]),
        change_id=str(row["change_id"]),
        account=str(row["account"]),
        amount_minor=int(row["amount_minor"]),
        currency=str(row["currency"]),
        time_us=held_time(row),
        call_digest=str(row["call_digest"]),
        issuer=str(row["issuer"]),
    )
