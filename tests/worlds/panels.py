"""Panels of the Grafana dashboards that ask ClickHouse, and what Grafana makes of their queries."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DASHBOARDS: Final = Path(__file__).parents[2] / "ops" / "dashboards"
_TEXT: Final = re.compile(r"\$\{(\w+):sqlstring\}")


@dataclass(frozen=True)
class Panel:
    """One query of one panel."""

    board: str
    title: str
    sql: str

    def filled(self, from_ms: int, to_ms: int, **texts: str) -> str:
        """Return the query with the time range and the boxes filled in, as Grafana's `sqlstring` does."""
        sql = _TEXT.sub(lambda found: "'" + texts[found[1]].replace("'", "''") + "'", self.sql)
        sql = sql.replace("$__from", str(from_ms)).replace("$__to", str(to_ms))
        assert "$" not in sql
        return sql


def panels() -> list[Panel]:
    """Return every panel that asks ClickHouse."""
    boards = {path.stem: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}
    return [
        Panel(name, panel["title"], target["rawSql"])
        for name, board in boards.items()
        for panel in board["panels"]
        for target in panel["targets"]
        if "rawSql" in target
    ]


def panel_of(question: str) -> Panel:
    """Return the audit dashboard's panel for a question."""
    title = question.replace("-", " ").capitalize()
    (found,) = (one for one in panels() if (one.board, one.title) == ("audit", title))
    return found
