"""The three evidences of a step, read back from the store, and the finding they lead to.

Policy: what was decided. Authorization: what the door did, and the spend log. Ledger: what changed. Joined on
the spend id, and through it on task and call id; changes and decisions on the same resource are read beside
them, because a bypass has no spend id of its own.

Guarantees: what is returned is what the store has now; nothing is inferred but the finding. Whether the store
tells the truth is `licet audit verify`'s question. Rows of quarantined messages are never evidence.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from audit.findings import (
    WINDOW_US,
    Change,
    Decided,
    Ended,
    Finding,
    Reserved,
    Story,
    classify,
)

FIELDS: Final = (
    "event_id", "source", "time_us", "kind", "decision", "reason", "environment", "tenant", "principal",
    "caller", "agent", "task_id", "call_id", "decision_id", "spend_id", "round", "hold_id", "tool",
    "method", "operation", "tier", "resource", "call_digest", "bundle_version", "rule_ids", "amount_minor",
    "currency", "entry", "change_id", "approvals", "trace_id", "span_id", "summary", "outcome", "attempt",
    "finding", "detail", "config_seq", "not_after_ms", "account", "issuer", "signature",
)  # fmt: skip
"""Columns that evidence shows."""
MAX_ROWS: Final = 10_000
"""Rows read of one step, and of one resource; a step has a handful."""

Row = Mapping[str, Any]


class NoEvidenceError(Exception):
    """The store has nothing under the id that was asked for."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything on record of one step.

    `findings`: what the reconciler raised so far; `finding`: what the evidence says now.
    """

    spend_id: str
    policy: tuple[Row, ...]
    authorization: tuple[Row, ...]
    ledger: tuple[Row, ...]
    findings: tuple[Row, ...]
    story: Story
    finding: Finding

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON; empty fields are left out."""
        return {
            "spend_id": self.spend_id,
            "finding": str(self.finding.finding),
            "finding_detail": self.finding.detail,
            "settled": self.finding.settled,
            "policy": [_plain(row) for row in self.policy],
            "authorization": [_plain(row) for row in self.authorization],
            "ledger": [_plain(row) for row in self.ledger],
            "raised": [_plain(row) for row in self.findings],
        }


def _plain(row: Row) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if value not in ("", 0, [], ())}
    time = datetime.fromtimestamp(max(min(row["time_us"], 4102444800000000), 0) / 1_000_000, UTC)
    return {"time": time.isoformat(timespec="microseconds"), **shown}


def read(
    client: Any,
    *,
    now_us: int,
    spend_id: str = "",
    decision_id: str = "",
    task_id: str = "",
    call_id: str = "",
    label: tuple[str, ...] | None = None,
    ledger_rows: tuple[Change, ...] | None = None,
) -> Evidence:
    """Return the evidence of one step, named by its spend id, one of its decisions, or task and call id.

    Args:
        client: a clickhouse-connect client.
        now_us: Unix µs; decides what is settled.
        spend_id: the step.
        decision_id: one decision of the step.
        task_id: with `call_id`.
        call_id: with `task_id`.
        label: the rules that should have decided.
        ledger_rows: what a ledger reader found for the step.

    Raises:
        NoEvidenceError: the store has nothing of it.
        ValueError: none of the ids was given.
    """
    if not (spend_id or decision_id or (task_id and call_id)):
        raise ValueError("name a spend, a decision, or a task and call")
    rows = _start(client, spend_id, decision_id, task_id, call_id)
    if not rows:
        raise NoEvidenceError("the store has nothing of this step; is the writer behind?")
    steps = {str(row["spend_id"]) for row in rows if row["spend_id"]}
    ids = {str(row["decision_id"]) for row in rows if row["decision_id"]}
    if steps:
        rows = unique([*rows, *_rows(client, "spend_id IN {ids:Array(String)}", {"ids": sorted(steps)})])
        ids |= {str(row["decision_id"]) for row in rows if row["decision_id"]}
    if ids:
        rows = unique([*rows, *_rows(client, "decision_id IN {ids:Array(String)}", {"ids": sorted(ids)})])
    step = spend_id or next(iter(sorted(steps)), "")
    beside = beside_rows(client, rows)
    found = story_of(rows, beside, label=label, ledger_rows=ledger_rows)
    return Evidence(
        spend_id=step,
        policy=_of(rows, "decision.", "approval."),
        authorization=_of(rows, "door.", "spend."),
        ledger=_of(rows, "ledger."),
        findings=_of(rows, "finding."),
        story=found,
        finding=classify(found, now_us=now_us),
    )


def _start(client: Any, spend_id: str, decision_id: str, task_id: str, call_id: str) -> list[Row]:
    if spend_id:
        return _rows(client, "spend_id = {id:String}", {"id": spend_id})
    if decision_id:
        return _rows(client, "decision_id = {id:String}", {"id": decision_id})
    return _rows(
        client, "task_id = {task:String} AND call_id = {call:String}", {"task": task_id, "call": call_id}
    )


def _rows(client: Any, condition: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Return evidence rows under `condition`, a constant text with parameters, oldest first."""
    columns = ", ".join(FIELDS)
    query = (
        f"SELECT {columns} FROM events WHERE kind != 'quarantined' AND ({condition})"  # noqa: S608 - constants
        f" ORDER BY time_us, js_stream, js_seq LIMIT {MAX_ROWS}"
    )
    result = client.query(query, parameters=dict(parameters))
    return [dict(zip(FIELDS, row, strict=True)) for row in result.result_rows]


def rows_of_steps(
    client: Any, spend_ids: Sequence[str], decision_ids: Sequence[str], *, since_us: int = 0
) -> list[Row]:
    """Return every row of these steps and decisions that was stored since `since_us`, oldest first."""
    return _rows(
        client,
        "js_time >= fromUnixTimestamp64Micro({since:Int64})"
        " AND ((spend_id != '' AND spend_id IN {spends:Array(String)})"
        " OR (decision_id != '' AND decision_id IN {decisions:Array(String)}))",
        {"spends": list(spend_ids), "decisions": list(decision_ids), "since": max(since_us, 0)},
    )


def task_rows(client: Any, task_id: str) -> list[Row]:
    """Return every row of a task, oldest first: what names it, and what belongs to its steps."""
    own = _rows(client, "task_id = {task:String}", {"task": task_id})
    steps = sorted({str(row["spend_id"]) for row in own if row["spend_id"]})
    return unique([*own, *_rows(client, "spend_id IN {ids:Array(String)}", {"ids": steps})]) if steps else own


def beside_rows(client: Any, rows: Iterable[Row]) -> list[Row]:
    """Return decisions and changes on the same resources, whoever's they are."""
    resources = sorted({str(row["resource"]) for row in rows if row["resource"]})
    if not resources:
        return []
    times = [int(row["time_us"]) for row in rows]
    return _rows(
        client,
        "resource IN {resources:Array(String)} AND (kind = 'ledger.changed' OR startsWith(kind, 'decision.'))"
        " AND time_us BETWEEN {first:Int64} AND {last:Int64}"
        " AND time BETWEEN fromUnixTimestamp64Micro({from:Int64}) AND fromUnixTimestamp64Micro({to:Int64})",
        {
            "resources": resources,
            "first": min(times) - WINDOW_US,
            "last": max(times) + WINDOW_US,
            "from": _clamped(min(times) - WINDOW_US),
            "to": _clamped(max(times) + WINDOW_US),
        },
    )


def _clamped(time_us: int) -> int:
    """As the column `time` is: held within 1970 to 2100."""
    return max(min(time_us, 4102444800000000), 0)


def unique(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, each event once, oldest first."""
    by_id = {(str(row["event_id"]), str(row["kind"])): row for row in rows}
    return sorted(by_id.values(), key=lambda row: int(row["time_us"]))


def _of(rows: Iterable[Row], *prefixes: str) -> tuple[Row, ...]:
    return tuple(row for row in rows if str(row["kind"]).startswith(prefixes))


def story_of(
    rows: Sequence[Row],
    beside: Iterable[Row] = (),
    *,
    label: tuple[str, ...] | None = None,
    ledger_rows: tuple[Change, ...] | None = None,
) -> Story:
    """Return the story that the rows of one step tell; `beside`: what else happened to its resource."""
    own = {(row["event_id"], row["kind"]) for row in rows}
    others = [row for row in beside if (row["event_id"], row["kind"]) not in own]
    return Story(
        decisions=tuple(decided(row) for row in _of(rows, "decision.") if is_decision(row)),
        door_passed=any(row["kind"] == "door.passed" for row in rows),
        door_refusals=tuple(dict.fromkeys(str(row["reason"]) for row in _of(rows, "door.refused"))),
        reserves=tuple(_reserved(row) for row in _of(rows, "spend.reserved")),
        outcomes=tuple(
            Ended(int(row["round"]), str(row["outcome"]), str(row["signature"]), int(row["time_us"]))
            for row in _of(rows, "spend.outcome")
        ),
        changes=tuple(change(row) for row in _of(rows, "ledger.changed")),
        other_changes=tuple(change(row) for row in _of(others, "ledger.changed")),
        other_decisions=tuple(decided(row) for row in _of(others, "decision.") if is_decision(row)),
        ledger_rows=ledger_rows,
        approvals=tuple(str(name) for row in _of(rows, "decision.", "door.") for name in row["approvals"]),
        label=label,
    )


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
        time_us=int(row["time_us"]),
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
        ceilings=str(row["detail"]) == "ceilings",
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
        time_us=int(row["time_us"]),
        call_digest=str(row["call_digest"]),
        issuer=str(row["issuer"]),
    )
