"""Write ops/dashboards/audit.json from audit/questions: one panel for each question; `--check` only compares.

A question's `since` and `until` are the dashboard's time range, `at` is its end; texts are boxes at the top,
put in as SQL strings by Grafana; what has another default keeps it.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from audit.asking.ask import Parameter, Question, questions

PAGE = Path(__file__).parents[1] / "ops" / "dashboards" / "audit.json"
SOURCE = {"type": "grafana-clickhouse-datasource", "uid": "${clickhouse}"}
FROM, TO = (f"fromUnixTimestamp64Milli(toInt64($__{end}))" for end in ("from", "to"))
TIMES = {"since": FROM, "until": TO, "at": TO}
HOLDER = re.compile(r"\{(\w+):[^}]+\}")
HEIGHT, WIDE, HALF = 8, 24, 12


def main() -> int:
    """Write or check the dashboard; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if it is stale, and change nothing")
    text = json.dumps(board(list(questions().values())), indent=2, ensure_ascii=False) + "\n"
    if parser.parse_args().check:
        if PAGE.exists() and PAGE.read_text("utf-8") == text:
            return 0
        print(f"{PAGE.name} is stale: run scripts/dashboard.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, "utf-8")
    return 0


def board(asked: list[Question]) -> dict[str, Any]:
    """Return the dashboard: what needs no text first, then what is asked about one thing."""
    ordered = sorted(asked, key=lambda question: bool(texts(question)))
    return {
        "uid": "licet-audit",
        "title": "licet: audit",
        "description": "Every question of `licet audit ask`. Written by scripts/dashboard.py; do not edit.",
        "tags": ["licet"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [clickhouse(), *boxes(ordered)]},
        "panels": list(panels(ordered)),
    }


def clickhouse() -> dict[str, str]:
    """Return the variable that chooses the store."""
    return {"name": "clickhouse", "label": "ClickHouse", "type": "datasource", "query": SOURCE["type"]}


def boxes(asked: list[Question]) -> list[dict[str, Any]]:
    """Return a box for each text that some question takes."""
    found = {one.name: one for question in asked for one in texts(question)}
    return [
        {"name": name, "label": name, "description": one.text, "type": "textbox", "query": ""}
        for name, one in found.items()
    ]


def texts(question: Question) -> list[Parameter]:
    """Return the parameters of a question that somebody has to type."""
    return [one for one in question.parameters if one.type == "String" and one.default is None]


def panels(asked: list[Question]) -> list[dict[str, Any]]:
    """Return the panels, two beside each other where nothing was typed for them."""
    placed, x, y = [], 0, 0
    for number, question in enumerate(asked, start=1):
        width = WIDE if texts(question) else HALF
        if x + width > WIDE:
            x, y = 0, y + HEIGHT
        placed.append(panel(number, question, {"h": HEIGHT, "w": width, "x": x, "y": y}))
        x += width
    return placed


def panel(number: int, question: Question, place: dict[str, int]) -> dict[str, Any]:
    """Return one panel."""
    target = {
        "refId": "A",
        "datasource": SOURCE,
        "editorType": "sql",
        "format": 0 if question.panel == "timeseries" else 1,
        "queryType": question.panel,
        "rawSql": sql(question),
    }
    return {
        "id": number,
        "type": question.panel,
        "title": question.name.replace("-", " ").capitalize(),
        "description": f"{question.text} `licet audit ask {question.name}`",
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": "short"}, "overrides": []},
        "options": {},
        "targets": [target],
    }


def sql(question: Question) -> str:
    """Return a question's statement in one line, with Grafana's macros for its parameters."""
    given = {one.name: value(one) for one in question.parameters}
    return " ".join(HOLDER.sub(lambda found: given[found[1]], question.sql).split())


def value(parameter: Parameter) -> str:
    """Return what stands for a parameter in a panel. Raises SystemExit where nothing can."""
    if parameter.name in TIMES:
        return TIMES[parameter.name]
    if parameter.default is not None:
        return parameter.default
    if parameter.type == "String":
        return f"${{{parameter.name}:sqlstring}}"
    raise SystemExit(f"no panel can give `{parameter.name}` of type {parameter.type}: give it a default")


if __name__ == "__main__":
    sys.exit(main())
