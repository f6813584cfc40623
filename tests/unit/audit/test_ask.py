"""Questions: every file is whole, no value can become SQL, and answers cannot forge a line or a formula."""

import csv
import io
import json
import re
from datetime import datetime
from decimal import Decimal
from importlib.resources import files
from typing import Any

import pytest
from typer.testing import CliRunner

from audit.asking.ask import Answer, QuestionError, catalogue, parse, questions, traced
from audit.asking.show import printable, table
from audit.cli import app

WANTED = {
    "agent-window", "approvals-by-person", "budget-burn", "bundle-at", "failed-decisions", "holds-open",
    "missing-or-late", "money-by-bundle", "refusals-over-time", "story", "story-trace",
    "unauthorized-changes", "who-could", "why-refused",
}  # fmt: skip


def test_every_question_is_there_with_words_and_parameters() -> None:
    found = questions()
    assert set(found) == WANTED
    for question in found.values():
        assert question.text.endswith((".", "?"))
        assert question.name in catalogue([question])


def test_question_that_names_other_parameters_than_its_statement_is_refused() -> None:
    with pytest.raises(QuestionError, match="name other parameters"):
        parse("x", "-- What?\n-- param a String: it\nSELECT {b:String}")


def test_spans_beside_the_audit_store_are_for_auditors_alone() -> None:
    """A span names no tenant, so whoever sees one tenant may see none."""
    rules = files("audit").joinpath("roles.sql").read_text()
    granted = re.findall(r"^GRANT .*SELECT.* ON \$\{database\}\.(\S+) TO (\w+);", rules, re.MULTILINE)
    sees_spans = {role for table, role in granted if table in {"*", "otel_traces"}}
    assert sees_spans == {"licet_auditor", "licet_migrator"}
    assert ("events", "licet_reader") in granted, "the search finds what is there"


def test_only_a_story_is_asked_with_traces() -> None:
    assert traced("story") == "story-trace"
    with pytest.raises(QuestionError, match="`holds-open` is not asked with traces: --trace goes with story"):
        traced("holds-open")


def test_missing_and_unknown_parameters_say_what_is_taken() -> None:
    question = questions()["agent-window"]
    with pytest.raises(QuestionError, match="needs --param agent"):
        question.values({})
    with pytest.raises(QuestionError, match="takes no `agnet`"):
        question.values({"agnet": "x"})
    assert question.values({"agent": "a", "since": "2026-01-01"})["until"] == "2100-01-01 00:00:00"


def test_cell_cannot_be_taken_for_a_formula() -> None:
    answer = Answer(("a",), (("=HYPERLINK(1)",), ("plain",), (-5,)))
    assert answer.text("csv").splitlines() == ["a", "'=HYPERLINK(1)", "plain", "-5"]


@pytest.mark.parametrize(
    "text",
    ["=1", "+1", "-1", "@a", "\tx", "\rx", "\nx", " =1", "\u00a0=1", "\uff1d1", "a;=1", "a\n=1", "a| @b"],
)
def test_no_agents_text_begins_a_formula_in_any_cell_that_csv_may_be_split_into(text: str) -> None:
    ((_, cell),) = list(csv.reader(io.StringIO(Answer(("a", "b"), (("x", text),)).text("csv"))))[1:]
    for part in re.split(r"[;|\t\r\n]", cell):
        assert not part.strip().startswith(("=", "+", "-", "@", "\uff1d")), cell
    assert cell.replace("'", "") == text


@pytest.mark.parametrize(
    "value", [-5, -5.5, Decimal("-5.00"), "a=b", "order:1", "a-b; c", "mail@x.org", "", ["-a", "b"]]
)
def test_numbers_and_plain_text_stand_in_csv_as_they_are(value: object) -> None:
    ((_, cell),) = list(csv.reader(io.StringIO(Answer(("a", "b"), (("x", value),)).text("csv"))))[1:]
    assert cell == str(value)


def test_json_keeps_large_integers_and_times() -> None:
    answer = Answer(("n", "t"), ((2**63 - 1, datetime(2026, 11, 29)),))  # noqa: DTZ001 - as the client gives them
    assert json.loads(answer.text("json")) == [{"n": 2**63 - 1, "t": "2026-11-29T00:00:00"}]


def test_text_cannot_move_the_cursor() -> None:
    assert printable("a\x1b[2J\nb\u202e") == "a\\u001b[2J\\u000ab\\u202e"


@pytest.mark.parametrize("rows", [[["x" * 60, "y" * 60]], [["x" * 300, "y" * 300]], [["short", 1]]])
def test_table_fits_or_becomes_records(rows: Any) -> None:
    text = table(["one", "two"], rows)
    assert all(len(line) <= 100 for line in text.splitlines()) or "  " in text
    assert "one" in text


def test_no_rows_say_so() -> None:
    assert table([], []) == "no rows"


def test_views_of_the_questions_and_their_grants_are_printed_for_a_cluster() -> None:
    printed = CliRunner().invoke(app, ["migrate", "--print", "--cluster", "main"]).stdout
    granted = CliRunner().invoke(app, ["roles", "--database", "licet", "--cluster", "main"]).stdout
    for name in WANTED - {"story-trace"}:
        view = "ask_" + name.replace("-", "_")
        assert f"CREATE OR REPLACE VIEW {view} ON CLUSTER `main` AS\n" in printed
        assert f"GRANT ON CLUSTER `main` SELECT ON licet.{view} TO licet_sre;" in granted
    assert "ask_story_trace" not in printed + granted, "no view takes a table as its parameter"
