"""Where a reconciler begins: with what has no finding, from a day before the last finding on.

Guarantees: a step or an outbox row stored while no reconciler ran is looked at, however long that was, and so
is a step of which something was stored after its finding. A store without any finding is a new one: a day.
What was judged in the last seconds before a kill, and is not in the store yet, may be judged again, to the
same end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

LOOKBACK_US: Final = 24 * 3_600_000_000

_LAST: Final = "SELECT max(js_time_us) FROM events WHERE kind = 'finding.raised'"
_OFFSETS: Final = "SELECT js_stream, last FROM stream_offsets"
_UNJUDGED: Final = """
SELECT step FROM (
    SELECT if(spend_id != '', spend_id, decision_id) AS step,
        maxIf(js_time_us, kind != 'finding.raised') AS seen,
        maxIf(js_time_us, kind = 'finding.raised') AS said
    FROM events
    WHERE js_time > fromUnixTimestamp64Micro({before:Int64}) AND step != ''
      AND (startsWith(kind, 'decision.') OR startsWith(kind, 'spend.')
        OR kind IN ('ledger.changed', 'finding.raised'))
    GROUP BY step)
WHERE seen > {since:Int64} AND seen >= said
"""
NEW_FIELDS: Final = (
    "js_seq", "kind", "spend_id", "decision_id", "tenant", "tool", "resource", "entry", "change_id",
    "account", "amount_minor", "currency", "time_us", "issuer", "js_time_us",
)  # fmt: skip
NEW_ROWS: Final = """
SELECT js_seq, kind, spend_id, decision_id, tenant, tool, resource, entry, change_id, account, amount_minor,
    currency, time_us, issuer, js_time_us
FROM events WHERE js_stream = {stream:String} AND js_seq > {last:UInt64}
  AND js_time >= fromUnixTimestamp64Micro({since:Int64})
ORDER BY js_seq LIMIT {limit:UInt32}
"""

_ORPHANS: Final = (
    NEW_ROWS.partition("WHERE")[0]  # noqa: S608 - constants
    + """WHERE js_time > fromUnixTimestamp64Micro({since:Int64}) AND kind = 'ledger.changed'
  AND spend_id = '' AND decision_id = '' AND issuer IN ('', 'permit')
  AND (tool, change_id) NOT IN (
    SELECT tool, change_id FROM events
    WHERE kind = 'finding.raised' AND js_time > fromUnixTimestamp64Micro({before:Int64}))
ORDER BY js_stream, js_seq
"""
)
_SAID: Final = """
SELECT argMax(finding, js_seq) FROM events
WHERE kind = 'finding.raised' AND tool = {tool:String} AND change_id = {change:String} AND spend_id = ''
"""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Steps and orphaned rows to judge, how far streams are read, and how far back was looked."""

    steps: tuple[str, ...]
    orphans: Sequence[Sequence[Any]]
    last: dict[str, int]
    since_us: int


def begin(client: Any, now_us: int) -> Beginning:
    """Read it from the store; raises what the client raises."""
    last = int(client.query(_LAST).result_rows[0][0])
    since = max((min(last, now_us) if last else now_us) - LOOKBACK_US, 0)
    given = {"since": since, "before": max(since - LOOKBACK_US, 0)}
    offsets = client.query(_OFFSETS).result_rows  # before the steps: what comes meanwhile is new
    steps = tuple(str(step) for (step,) in client.query(_UNJUDGED, parameters=given).result_rows)
    orphans = client.query(_ORPHANS, parameters=given).result_rows
    return Beginning(steps, orphans, {str(stream): int(last) for stream, last in offsets}, since)


def said_of_row(client: Any, tool: str, change_id: str) -> str:
    """Return what was said last of a ledger row that belongs to no step; empty where nothing was."""
    given = {"tool": tool, "change": change_id}
    return str(client.query(_SAID, parameters=given).result_rows[0][0])
