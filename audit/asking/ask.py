"""The questions: named, documented, parameterised SQL, and how to ask them.

A question is a file. Its head says in comments what it answers and what it takes; the statement takes
values as ClickHouse query parameters only, so no value can become SQL:

    -- What did this agent do in this window?
    -- param agent String: the agent
    -- param until DateTime64(6) = 2100-01-01 00:00:00: to
    -- panel timeseries

The last line says what its panel on the dashboard is, where that is no table.
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from importlib.resources import files
from typing import Any, Final

from audit.asking.show import table

_PARAM: Final = re.compile(
    r"-- param (?P<name>\w+) (?P<type>[\w()]+)(?: = (?P<default>[^:]*(?::\d\d)*))?: (?P<text>.*)"
)
_PANEL: Final = re.compile(r"-- panel (table|timeseries)")
_HOLDER: Final = re.compile(r"\{(\w+):")
_FORMULA: Final = re.compile(r"\A(?=[\t\r\n])|(?:\A|(?<=[;|\t\r\n]))(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet would begin to read a formula; East Asian ones take the wide signs as well."""


class QuestionError(Exception):
    """There is no such question, or its parameters do not fit; the message says what it takes."""


TRACE: Final = "-trace"
"""What a question's name ends with that also shows spans."""
TRACES_MISSING: Final = (
    "the store has no traces: let a collector write them into the table of ops/otel_traces.sql; "
    "-p traces=… names another one"
)

STYLES: Final = ("table", "csv", "json")
"""How an answer may be written."""

MAX_ROWS: Final = 10_000
"""Every question ends with LIMIT 10000; an answer this long was cut."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a question takes. `default` None: it must be given."""

    name: str
    type: str
    text: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """One question."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    sql: str
    panel: str = "table"

    def values(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return a value for each parameter; raises QuestionError."""
        known = {parameter.name for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise QuestionError(
                    f"`{self.name}` takes no `{name}`: it takes {', '.join(sorted(known)) or 'nothing'}"
                )
        values = {}
        for parameter in self.parameters:
            value = given.get(parameter.name, parameter.default)
            if value is None:
                raise QuestionError(f"`{self.name}` needs --param {parameter.name}=… ({parameter.text})")
            values[parameter.name] = value
        return values


@dataclass(frozen=True, slots=True)
class Answer:
    """Column names and rows."""

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def text(self, style: str) -> str:
        """Return the answer in one of STYLES."""
        if style == "json":
            return json.dumps(
                [dict(zip(self.names, row, strict=True)) for row in self.rows], indent=2, default=_plain
            )
        if style == "csv":
            return "\n".join(_line(row) for row in (self.names, *self.rows))
        return table(self.names, self.rows)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _line(row: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_safe(value) for value in row])  # quotes both in a cell
    return out.getvalue().removesuffix("\r\n")


def _safe(value: Any) -> str:
    """A cell that no spreadsheet takes for a formula (OWASP, CSV injection); numbers and times stay.

    Text that begins like one, after blanks too, gets a `'` before it; so does what begins like one after a
    character that another locale, or an import's dialogue, may take for the end of a cell.
    """
    if isinstance(value, datetime):
        return value.isoformat()
    text = str(value)
    return text if isinstance(value, int | float | Decimal) else _FORMULA.sub("'", text)


def questions() -> dict[str, Question]:
    """Return every question, by name."""
    found = {}
    for file in files("audit").joinpath("questions").iterdir():
        if file.name.endswith(".sql"):
            question = parse(file.name.removesuffix(".sql"), file.read_text("utf-8"))
            found[question.name] = question
    return dict(sorted(found.items()))


def parse(name: str, source: str) -> Question:
    """Read a question's file; raises QuestionError where head and statement do not fit."""
    head = [line for line in source.splitlines() if line.startswith("--")]
    parameters, text, panel = [], [], "table"
    for line in head:
        match, shown = _PARAM.fullmatch(line), _PANEL.fullmatch(line)
        if match:
            parameters.append(Parameter(match["name"], match["type"], match["text"], match["default"]))
        elif shown:
            panel = shown[1]
        else:
            text.append(line.removeprefix("--").strip())
    sql = "\n".join(line for line in source.splitlines() if not line.startswith("--")).strip()
    if set(_HOLDER.findall(sql)) != {parameter.name for parameter in parameters}:
        raise QuestionError(f"question `{name}`: head and statement name other parameters")
    return Question(name, " ".join(text), tuple(parameters), sql, panel)


def ask(client: Any, name: str, given: Mapping[str, str]) -> Answer:
    """Ask a question; raises QuestionError, and what the client raises for a value that is none."""
    question = questions().get(name)
    if question is None:
        raise QuestionError(f"there is no question `{name}`: see licet audit ask --list")
    result = client.query(question.sql, parameters=question.values(given), settings={"readonly": "2"})
    return Answer(tuple(result.column_names), tuple(tuple(row) for row in result.result_rows))


def traced(name: str) -> str:
    """Return the name of the question that also shows spans. Raises QuestionError where there is none."""
    if name + TRACE not in questions():
        able = ", ".join(one.removesuffix(TRACE) for one in questions() if one.endswith(TRACE))
        raise QuestionError(f"`{name}` is not asked with traces: --trace goes with {able}")
    return name + TRACE


def catalogue(found: Sequence[Question]) -> str:
    """Return the list of questions for people."""
    lines = []
    for question in found:
        lines.append(f"{question.name}: {question.text}")
        for parameter in question.parameters:
            default = f" (default {parameter.default})" if parameter.default is not None else ""
            lines.append(f"    {parameter.name} {parameter.type}: {parameter.text}{default}")
    return "\n".join(lines)
