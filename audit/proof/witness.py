"""Verification over the store: reads what audit.proof.verify checks, in order, not all of it in memory."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from audit.judging.findings import MAX_READ_TIER
from audit.proof.calls import call_problems
from audit.proof.chain import Problem, ProblemKind
from audit.proof.payloads import payload_problems
from audit.proof.verify import (
    CHECKED,
    ORDER,
    Report,
    Scope,
    UnreadError,
    log_gaps,
    verify_rows,
    with_revocations,
)
from audit.proof.views import view_problems
from audit.store.record import SPEND_STREAM

SETTINGS: Final = {
    "max_bytes_before_external_sort": 1 << 30,  # beyond it the server sorts on its disk
    "max_bytes_before_external_group_by": 1 << 30,
    "optimize_use_projections": 0,  # a projection is a copy that may have been left behind, or made up
}
GRACE_S: Final = 60
"""A reserve this young may be stored before its decision is."""

_SPENT: Final = """
SELECT event_id, js_seq, decision_id FROM events
WHERE kind = 'spend.reserved' AND js_time < now() - toIntervalSecond({grace:UInt32})
  AND decision_id NOT IN (
    SELECT decision_id FROM events
    WHERE kind IN ('decision.allowed', 'decision.modified') AND endsWith(source, '/decider'))
ORDER BY js_seq
"""
_PASSED: Final = """
SELECT event_id, js_stream, js_seq, kind, decision_id FROM events
WHERE (kind = 'door.passed' OR kind = 'ledger.changed' AND issuer IN ('', 'permit'))
  AND js_time < now() - toIntervalSecond({grace:UInt32})
  AND decision_id IN (
    SELECT decision_id FROM events
    WHERE kind IN ('decision.allowed', 'decision.modified') AND endsWith(source, '/decider')
      AND (tier > {read:UInt32} OR amount_minor != 0))
  AND decision_id NOT IN (SELECT decision_id FROM events WHERE kind = 'spend.reserved')
  AND (spend_id = '' OR spend_id NOT IN (SELECT spend_id FROM events WHERE kind = 'spend.reserved'))
ORDER BY js_stream, js_seq
"""
_TWICE: Final = """
SELECT js_stream, {column} AS what, groupArray(js_seq) AS seqs FROM events
WHERE {condition}
GROUP BY js_stream, what HAVING uniqExact(js_seq) > 1
ORDER BY js_stream, what
"""
_WRITE_ONCE: Final = (
    ("js_subject", "startsWith(js_subject, 'licet.spend.') OR startsWith(js_subject, 'licet.ledger.')"),
    ("event_id", "kind IN ('spend.reserved', 'spend.outcome', 'ledger.changed')"),
)
"""What stands once in a stream that is written once: a subject, and a record."""
_HOLES: Final = """
SELECT number, times FROM (
    SELECT number, times, any(number) OVER w AS before
    FROM (SELECT {column} AS number, count() AS times FROM events WHERE {condition} GROUP BY number)
    WINDOW w AS (ORDER BY number ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING))
WHERE times > 1 OR (before != 0 AND number != before + 1)
ORDER BY number
"""


def verify_store(client: Any, scope: Scope, progress: Callable[[int, int], None] = lambda *_: None) -> Report:
    """Verify everything that the store has; `progress` is told rows done and rows in all.

    Raises UnreadError, and what the client raises.
    """
    total = int(client.query("SELECT count() FROM events", settings=SETTINGS).result_rows[0][0])
    scope = with_revocations(scope, rows(client, "kind = 'key.revoked'"))
    report = verify_rows(rows(client), scope, lambda done: progress(done, total))
    if report.rows < total:
        raise UnreadError(f"only {report.rows} of {total} rows came: ask again")
    report.add(stream_problems(client))
    report.add(spent_without_decision(client))
    report.add(replaced(client))
    report.add(executed_without_spend(client))
    report.add(call_problems(client, SETTINGS))
    report.add(view_problems(client))
    report.add(payload_problems(client, SETTINGS))
    return report


def rows(
    client: Any, condition: str = "1", parameters: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield rows under `condition`, a constant text, in the verifier's order."""
    columns = ("js_time", *CHECKED)
    sql = f"SELECT {', '.join(columns)} FROM events WHERE {condition} ORDER BY {ORDER}"  # noqa: S608 - constants
    with client.query_row_block_stream(
        sql,
        parameters=dict(parameters or {}),
        column_formats={"event": "bytes"},
        settings=SETTINGS,
    ) as blocks:
        for block in blocks:
            for row in block:
                yield dict(zip(columns, row, strict=True))


def stream_problems(client: Any) -> Iterator[Problem]:
    """Name sequences that are missing or there twice, stream by stream, and in the spend log's origin."""
    for (stream,) in client.query("SELECT DISTINCT js_stream FROM events", settings=SETTINGS).result_rows:
        yield from _holes(client, str(stream), "js_seq", "js_stream = {stream:String}", {"stream": stream})
    yield from _holes(client, "spend stream", "seq", "stream = {stream:String}", {"stream": SPEND_STREAM})


def _holes(
    client: Any, name: str, column: str, condition: str, parameters: Mapping[str, Any]
) -> Iterator[Problem]:
    sql = _HOLES.format(column=column, condition=condition)
    for number, times in client.query(sql, parameters=dict(parameters), settings=SETTINGS).result_rows:
        before = client.query(
            f"SELECT max({column}) FROM events WHERE {condition} AND {column} < {{number:UInt64}}",  # noqa: S608 - constants
            parameters={**parameters, "number": number},
            settings=SETTINGS,
        ).result_rows[0][0]
        known = [(int(before), 1)] if before else []
        yield from log_gaps(name, [*known, (int(number), int(times))])


def spent_without_decision(client: Any) -> Iterator[Problem]:
    """Name each permit that was spent though no decider recorded its decision: a stolen key signs so."""
    for event_id, js_seq, decision_id in client.query(
        _SPENT, parameters={"grace": GRACE_S}, settings=SETTINGS
    ).result_rows:
        detail = f"decision {decision_id} is not on record"
        where = f"spend log {js_seq}"
        yield Problem(ProblemKind.SPENT_WITHOUT_DECISION, where, str(event_id), detail)


def replaced(client: Any) -> Iterator[Problem]:
    """Name records and subjects in two places of a write-once stream: one is in another's place."""
    for column, condition in _WRITE_ONCE:
        sql = _TWICE.format(column=column, condition=condition)
        for stream, what, seqs in client.query(sql, settings=SETTINGS).result_rows:
            shown = ", ".join(str(seq) for seq in sorted(seqs)[:10])
            yield Problem(ProblemKind.REPLACED, str(stream), "", f"{column} {what} is at {shown}")


def executed_without_spend(client: Any) -> Iterator[Problem]:
    """Name what a door let pass, or a ledger changed, under a spending permit that was never reserved."""
    given = {"grace": GRACE_S, "read": MAX_READ_TIER}
    for event_id, stream, seq, kind, decision_id in client.query(
        _PASSED, parameters=given, settings=SETTINGS
    ).result_rows:
        detail = f"{kind} of decision {decision_id}, but no reserve is on record"
        yield Problem(ProblemKind.EXECUTED_WITHOUT_SPEND, f"{stream} {seq}", str(event_id), detail)
