"""Views and projections against `events`: do `refusals`, `hours` and the others tell what happened?

They answer questions and are no evidence, but somebody who can write the store could redefine one, or leave a
projection behind, and a hundred refusals would be none. Guarantees: a view whose rows are not what this
program's own definition makes of the events, read without projections, is named, with a row of each. What
`calls` must be is `audit.proof.calls`' matter.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from audit.asking.show import printable
from audit.proof.chain import Problem, ProblemKind
from audit.store.migrate import Layout, shipped, statements

MAX_NAMED: Final = 20
"""So many rows of a view are named."""
VIEWS: Final = ("quarantine", "stream_offsets", "refusals", "hours")
_CREATES: Final = "CREATE VIEW IF NOT EXISTS "
_REPLACES: Final = "CREATE OR REPLACE VIEW "
_PROJECTIONS: Final = {
    "projection exact_money_by_agent": (
        "SELECT toStartOfHour(time) AS hour, environment, tenant, agent, kind, finding, bundle_version,"
        " currency, count() AS events, sum(toInt128(amount_minor)) AS amount FROM"
        " events"
        " GROUP BY hour, environment, tenant, agent, kind, finding, bundle_version, currency"
    )
}
"""What questions are answered from without a view: the same text, with and without projections."""
_DIFFERS: Final = """
SELECT toString(tuple(* EXCEPT (side))) AS row, sum(side) AS more FROM (
    SELECT *, 1 AS side FROM ({made}) UNION ALL SELECT *, -1 AS side FROM ({shown}))
GROUP BY row HAVING more != 0 ORDER BY row LIMIT {limit}
"""
_PLAIN: Final = " SETTINGS optimize_use_projections = 0, optimize_use_implicit_projections = 0"


@lru_cache(maxsize=1)
def definitions() -> Mapping[str, str]:
    """Return the SELECT of each view, as the newest shipped migration has it."""
    found: dict[str, str] = {}
    for migration in shipped():
        for text in statements(Layout().render(migration.text)):
            plain = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
            head, _, select = plain.partition(" AS\n")
            for verb in (_CREATES, _REPLACES):
                name = head.removeprefix(verb).strip()
                if head.startswith(verb) and name in VIEWS:
                    found[name] = select
    return found


def view_problems(client: Any) -> Iterator[Problem]:
    """Name views and projections that show other rows than the events make.

    The writer may be at work: what differs is looked at once more, and only what still differs is named.
    """
    asked = {name: (definitions()[name], f"SELECT * FROM {name}") for name in VIEWS}  # noqa: S608 - constants
    asked["quarantine"] = (_unread(asked["quarantine"][0]), _unread(asked["quarantine"][1]))
    asked |= {name: (text, text) for name, text in _PROJECTIONS.items()}
    for name, (made, shown) in asked.items():
        found = _differing(client, made, shown)
        if found:
            again = _differing(client, made, shown)
            for row in sorted(found.keys() & again.keys()):
                detail = "is not there" if again[row] > 0 else "is there, but no event makes it"
                yield Problem(ProblemKind.VIEW, name, "", f"row {printable(row)[:200]} {detail}")


def _unread(select: str) -> str:
    """Bytes that could not be read stand for themselves by their digest."""
    return f"SELECT * EXCEPT (event), lower(hex(SHA256(event))) AS event_sha256 FROM ({select})"  # noqa: S608 - constants


def _differing(client: Any, made: str, shown: str) -> dict[str, int]:
    sql = _DIFFERS.format(made=made + _PLAIN, shown=shown, limit=MAX_NAMED)
    return {str(row): int(more) for row, more in client.query(sql).result_rows}
