"""The three evidences of a step, read back from the store, and the finding they lead to.

Policy: what was decided. Authorization: what the door did, and the spend log. Ledger: what changed. Joined on
the spend id, and through it on task and call id; changes and decisions on the same resource are read beside
them, because a bypass has no spend id of its own.

Guarantees: what is returned is what the store has now; nothing is inferred but the finding. A row counts for
a step only if it came from the tool that the decision is for, a spend record only with a valid signature; the
others are kept and named. Rows that somebody can make many of do not displace others: each sort has a limit
of its own, what the door did is counted beside, and what was cut is named. A time that is far from
JetStream's is replaced by it. Whether the store tells the truth is `licet audit verify`'s question. Rows of
quarantined messages are never evidence.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from audit.judging.findings import WINDOW_US, Change, Finding, Story, classify
from audit.judging.story import DAY_US, MAX_ROWS, Row, held_time, is_decision, of_kind, story_of

FIELDS: Final = (
    "event_id", "source", "time_us", "kind", "decision", "reason", "environment", "tenant", "principal",
    "caller", "agent", "task_id", "call_id", "decision_id", "spend_id", "round", "hold_id", "tool",
    "method", "operation", "tier", "resource", "call_digest", "bundle_version", "rule_ids", "amount_minor",
    "currency", "entry", "change_id", "approvals", "trace_id", "span_id", "summary", "outcome", "attempt",
    "finding", "detail", "config_seq", "not_after_ms", "account", "issuer", "signature", "js_time_us",
)  # fmt: skip
"""Columns that evidence shows."""
DOOR_ROWS: Final = 1_000
"""Rows read of one step, sidecar, kind and reason at the door; `doors` counts all of them."""
_NO_DOOR: Final = "NOT startsWith(kind, 'door.')"
_STEP: Final = "if(spend_id != '', spend_id, decision_id)"
_SORT: Final = (
    "multiIf(kind IN ('decision.allowed', 'decision.modified'), 'allowed', startsWith(kind, 'decision.'),"
    " 'denied', toString(kind))"
)
_REFUSALS: Final = """
SELECT source, kind, reason, count() AS times, min(time_us) AS first_us, max(time_us) AS last_us
FROM events
WHERE startsWith(kind, 'door.') AND ((spend_id != '' AND spend_id IN {spends:Array(String)})
    OR (decision_id != '' AND decision_id IN {decisions:Array(String)}))
GROUP BY source, kind, reason ORDER BY first_us, source, kind, reason LIMIT 1000
"""


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
    doors: tuple[Row, ...] = ()
    """What the doors did: source, kind, reason, times, first_us, last_us."""
    cut: tuple[str, ...] = ()
    """Sorts of rows of which the store has more than were read."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON; empty fields are left out."""
        return {
            "spend_id": self.spend_id,
            "finding": str(self.finding.finding),
            "finding_detail": self.finding.detail,
            "settled": self.finding.settled,
            "complete": not self.cut,
            "cut": list(self.cut),
            "not_counted": list(self.story.strangers),
            "doors": [dict(row) for row in self.doors],
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
    steps = {spend_id} if spend_id else _told(rows, "spend_id")
    if steps:
        rows = unique([*rows, *_rows(client, "spend_id IN {ids:Array(String)}", {"ids": sorted(steps)})])
    ids = _told(rows, "decision_id")
    if ids:
        rows = unique([*rows, *_rows(client, "decision_id IN {ids:Array(String)}", {"ids": sorted(ids)})])
    step = spend_id or next(iter(sorted(steps)), "")
    beside = beside_rows(client, rows)
    found = story_of(rows, beside, label=label, ledger_rows=ledger_rows)
    doors = _refusals(client, sorted(steps), sorted(ids))
    return Evidence(
        spend_id=step,
        policy=of_kind(rows, "decision.", "approval."),
        authorization=of_kind(rows, "door.", "spend."),
        ledger=of_kind(rows, "ledger."),
        findings=of_kind(rows, "finding."),
        story=found,
        finding=classify(found, now_us=now_us),
        doors=doors,
        cut=found.cut,
    )


def _told(rows: Iterable[Row], name: str) -> set[str]:
    """Return the ids that the decider's own rows name; those of all rows where it said nothing.

    Anybody can name two steps in one row: that must not make one story of them.
    """
    rows = list(rows)
    own = {str(row[name]) for row in of_kind(rows, "decision.") if is_decision(row) and row[name]}
    return own or {str(row[name]) for row in rows if row[name]}


def _refusals(client: Any, spends: Sequence[str], decisions: Sequence[str]) -> tuple[Row, ...]:
    """Return what the doors did at these steps, counted by sidecar, kind and reason."""
    result = client.query(_REFUSALS, parameters={"spends": list(spends), "decisions": list(decisions)})
    names = ("source", "kind", "reason", "times", "first_us", "last_us")
    return tuple(dict(zip(names, row, strict=True)) for row in result.result_rows)


def _start(client: Any, spend_id: str, decision_id: str, task_id: str, call_id: str) -> list[Row]:
    if spend_id:
        return _rows(client, "spend_id = {id:String}", {"id": spend_id})
    if decision_id:
        return _rows(client, "decision_id = {id:String}", {"id": decision_id})
    return _rows(
        client, "task_id = {task:String} AND call_id = {call:String}", {"task": task_id, "call": call_id}
    )


def _rows(client: Any, condition: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Return evidence rows under `condition`, a constant text with parameters, oldest first.

    Of each step and sort at most MAX_ROWS and one more, which says that there are more; the door's rows, of
    which an agent can make any number, are read apart.
    """
    door = f"{_STEP}, source, kind, reason"
    rows = _select(client, f"{_NO_DOOR} AND ({condition})", f"{MAX_ROWS + 1} BY {_STEP}, {_SORT}", parameters)
    rows += _select(client, f"NOT ({_NO_DOOR}) AND ({condition})", f"{DOOR_ROWS} BY {door}", parameters)
    return sorted(rows, key=lambda row: int(row["time_us"]))


def _select(client: Any, condition: str, limit: str, parameters: Mapping[str, Any]) -> list[Row]:
    columns = ", ".join(FIELDS)
    query = (
        f"SELECT {columns} FROM events WHERE kind != 'quarantined' AND {condition}"  # noqa: S608 - constants
        f" ORDER BY time_us, js_stream, js_seq LIMIT {limit}"
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
    times = [time for row in rows for time in (held_time(row), int(row["js_time_us"]))]
    return _select(
        client,
        "resource IN {resources:Array(String)} AND (kind = 'ledger.changed' OR startsWith(kind, 'decision.'))"
        " AND js_time BETWEEN fromUnixTimestamp64Micro({first:Int64})"
        " AND fromUnixTimestamp64Micro({last:Int64})",
        f"{MAX_ROWS + 1} BY tenant, tool, resource, {_SORT}",
        {
            "resources": resources,
            "first": _clamped(min(times) - WINDOW_US),
            "last": _clamped(max(times) + WINDOW_US + DAY_US),
        },
    )


def _clamped(time_us: int) -> int:
    """As the column `time` is: held within 1970 to 2100."""
    return max(min(time_us, 4102444800000000), 0)


def unique(rows: Iterable[Row]) -> list[Row]:
    """Return the rows, each event once, oldest first."""
    by_id = {(str(row["event_id"]), str(row["kind"]), str(row["source"])): row for row in rows}
    return sorted(by_id.values(), key=lambda row: int(row["time_us"]))
