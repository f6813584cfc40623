"""Sealed payloads against the events that carry them: are the bytes there, and are they the named ones?

Needs no key. Guarantees: a payload whose bytes are not what its name says, one that an event names and that
is gone before its time, and numbers missing in their stream are named. Whether a payload opens, and for which
event alone, is proved by opening it (audit.sealed.opener). Nothing is said of payloads past their retention.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from audit.proof.chain import Problem, ProblemKind

GRACE_S: Final = 60
"""A payload and its event are stored by two writers; so long may one be behind the other."""
MAX_NAMED: Final = 1_000

_CHANGED: Final = """
SELECT js_stream, js_seq, payload_ref FROM payloads
WHERE payload_ref != lower(hex(SHA256(sealed))) ORDER BY js_stream, js_seq LIMIT {limit:UInt32}
"""
_GONE: Final = """
SELECT event_id, js_stream, js_seq, payload_ref FROM events
WHERE payload_ref != '' AND kind != 'quarantined'
  AND js_time >= (SELECT min(js_time) FROM payloads)
  AND js_time < (SELECT max(js_time) FROM payloads) - toIntervalSecond({grace:UInt32})
  AND payload_ref NOT IN (SELECT payload_ref FROM payloads)
ORDER BY js_seq LIMIT {limit:UInt32}
"""
_HOLES: Final = """
SELECT js_stream, number, times, before FROM (
    SELECT js_stream, number, times, any(number) OVER w AS before
    FROM (SELECT js_stream, js_seq AS number, count() AS times FROM payloads GROUP BY js_stream, number)
    WINDOW w AS (PARTITION BY js_stream ORDER BY number ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING))
WHERE times > 1 OR (before != 0 AND number != before + 1)
ORDER BY js_stream, number LIMIT {limit:UInt32}
"""


def payload_problems(client: Any, settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Name payloads that were changed, that are gone, and holes in their stream."""
    given = {"limit": MAX_NAMED, "grace": GRACE_S}

    def rows(sql: str) -> Any:
        return client.query(sql, parameters=given, settings=dict(settings)).result_rows

    for stream, seq, ref in rows(_CHANGED):
        yield Problem(ProblemKind.PAYLOAD, f"{stream} {seq}", "", f"its bytes are not `{ref}`")
    for event_id, stream, seq, ref in rows(_GONE):
        yield Problem(ProblemKind.PAYLOAD, f"{stream} {seq}", str(event_id), f"`{ref}` is not there")
    for stream, number, times, before in rows(_HOLES):
        if times > 1:
            detail = f"sequence {number} is there {times} times"
            yield Problem(ProblemKind.DOUBLED, str(stream), "", detail)
        else:
            yield Problem(ProblemKind.GAP, str(stream), "", f"{before + 1} to {number - 1} are missing")
