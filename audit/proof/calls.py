"""`calls` against `events`: is each decision's row what its events make of it?

`calls` answers the questions; it is kept beside the events, and can be written without them.
Guarantees: every decision whose row is missing, too many or different is named, by the definitions of this
program, whatever the store's own are. Not compared: the amount where no decision is on record, and decisions
of the oldest day that is kept once retention has cut it.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from audit.proof.chain import Problem, ProblemKind
from audit.store.migrate import Layout, shipped, statements

MAX_NAMED: Final = 1_000
_MAKES: Final = "ALTER TABLE calls_from_events"
_SHOWS: Final = "CREATE OR REPLACE VIEW calls"
_DIFFERS: Final = """
SELECT decision_id, sum(side = 1) AS made, sum(side = 2) AS kept FROM (
    SELECT decision_id, 1 AS side,
        toString(tuple(* REPLACE (if(decision = '', 0, amount_minor) AS amount_minor))) AS row
    FROM ({shows_made})
    UNION ALL
    SELECT decision_id, 2 AS side,
        toString(tuple(* REPLACE (if(decision = '', 0, amount_minor) AS amount_minor))) AS row
    FROM calls)
WHERE decision_id NOT IN (
    SELECT decision_id FROM events WHERE decision_id != '' AND (SELECT min(first) > 1 FROM (
        SELECT min(js_seq) AS first FROM events GROUP BY js_stream))
    AND toDate(js_time) <= (SELECT min(toDate(js_time)) + 1 FROM events))
GROUP BY decision_id
HAVING made != 1 OR kept != 1 OR uniqExact(row) != 1
ORDER BY decision_id LIMIT {limit}
"""


@lru_cache(maxsize=1)
def definitions() -> tuple[str, str]:
    """Return the SELECT that makes states of events, and the one that shows states as calls."""
    makes = shows = ""
    for migration in shipped():
        for text in statements(Layout().render(migration.text)):
            plain = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
            if plain.strip().startswith(_MAKES):
                makes = plain.partition("MODIFY QUERY")[2]
            elif plain.strip().startswith(_SHOWS):
                shows = plain.partition(" AS\n")[2]
    return makes, shows


def call_problems(client: Any, settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Name decisions whose row in `calls` is not what the events make of it.

    The writer may be at work: what differs is looked at once more, and only what still differs is named.
    """
    found = _differing(client, settings)
    if found:
        again = _differing(client, settings)
        for decision_id in sorted(found.keys() & again.keys()):
            made, kept = again[decision_id]
            detail = (
                "its events make another row"
                if made == kept == 1
                else f"its events make {made} rows, {kept} are there"
            )
            yield Problem(ProblemKind.CALL, f"calls {decision_id}", "", detail)


def _differing(client: Any, settings: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    makes, shows = definitions()
    made = shows.replace("FROM call_states\n", f"FROM ({makes}) AS call_states\n")
    sql = _DIFFERS.format(shows_made=made, limit=MAX_NAMED)
    rows = client.query(sql, settings=dict(settings)).result_rows
    return {str(decision_id): (int(made), int(kept)) for decision_id, made, kept in rows}
