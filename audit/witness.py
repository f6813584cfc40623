"""Verification over the store: reads what audit.verify checks, in its order, without holding it in memory."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from audit.chain import Problem, ProblemKind
from audit.record import SPEND_STREAM
from audit.verify import CHECKED, ORDER, Report, Scope, log_gaps, verify_rows

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
_HOLES: Final = """
SELECT number, times FROM (
    SELECT number, times, any(number) OVER w AS before
    FROM (SELECT {column} AS number, count() AS times FROM events WHERE {condition} GROUP BY number)
    WINDOW w AS (ORDER BY number ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING))
WHERE times > 1 OR (before != 0 AND number != before + 1)
ORDER BY number
"""


def verify_store(client: Any, scope: Scope, progress: Callable[[int, int], None] = lambda *_: None) -> Report:
    """Verify everything that the store has; `progress` is told rows done and rows in all."""
    total = int(client.query("SELECT count() FROM events", settings=SETTINGS).result_rows[0][0])
    report = verify_rows(rows(client), scope, lambda done: progress(done, total))
    report.add(stream_problems(client))
    report.add(spent_without_decision(client))
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
