"""Every question is also an SQL view and a panel, and all three give one answer."""

import csv
import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from audit.asking import views
from audit.asking.ask import STYLES, Question, ask, questions
from audit.asking.ocsf import KINDS
from audit.cli import app
from audit.store.migrate import Layout
from audit.store.sheet import EVENTS
from audit.store.stored import House, Stored
from decider.approval.votes import HOLD_LIFE_MS
from licet.event import EventKind
from tests.integration.audit.conftest import make_store
from tests.worlds.panels import panel_of

OTEL_TRACES = Path(__file__).parents[3] / "ops" / "otel_traces.sql"
HOLD, TASK, CALL, AGENT = "c" * 32, "task_1", "call_1", "refund-bot"
TEXTS = {
    "agent": AGENT,
    "task": TASK,
    "call": CALL,
    "id": TASK,
    "operation": "refund",
    "resource": "order:O1",
}
DECIDER_SUBJECT, RECONCILER_SUBJECT = "licet.audit.dev.decider.main", "licet.audit.dev.audit.reconciler"
RECONCILER = "spiffe://licet.local/dev/reconciler"
DAY_MS, HOUR_MS = 86_400_000, 3_600_000


def rows(event: Any, now_us: int) -> list[tuple[str, bytes]]:
    """Events of a day on which everything happened: what each question asks for is among them."""
    common = {"agent": AGENT, "task_id": TASK, "call_id": CALL, "operation": "refund", "bundle_version": 3}
    common |= {"resource": "order:O1", "amount_minor": 5000, "currency": "USD"}
    allowed = {**common, "kind": EventKind.DECISION_ALLOWED, "decision": "allow", "reason": ""}
    held = {**common, "kind": EventKind.DECISION_HELD, "decision": "hold", "reason": "HELD", "hold_id": HOLD}
    voted = {
        "kind": EventKind.APPROVAL_VOTED,
        "decision": "",
        "reason": "",
        "hold_id": HOLD,
        "approvals": ["lena"],
    }
    failed = {"kind": EventKind.DECISION_FAILED, "decision": "failed", "reason": "FACTS_UNAVAILABLE"}
    raised = {**common, "kind": EventKind.FINDING_RAISED, "decision": "", "reason": "", "source": RECONCILER}
    made = [
        allowed,
        {**common, "kind": EventKind.DECISION_DENIED, "decision": "deny", "reason": "POLICY_DENIED"},
        held,
        {**voted, "detail": "approve as finance-lead"},
        failed,
        {**raised, "finding": "ALLOWED_EXECUTED"},
        {**raised, "finding": "NO_RULE_LOOKUP"},
        {"kind": EventKind.BUNDLE_ACTIVATED, "decision": "", "reason": "", "bundle_version": 3},
    ]
    bodies = []
    for number, fields in enumerate(made, start=1):
        body = event(number, time_us=now_us - 60_000_000 + number, **fields)
        mine = fields.get("source") == RECONCILER
        bodies.append(
            (f"licet.audit.dev.audit.{'reconciler' if mine else 'x'}" if mine else DECIDER_SUBJECT, body)
        )
    return bodies


def insert(store: Any, messages: list[Stored]) -> None:
    """Put messages into the store as the writer does."""
    data = EVENTS.encode(messages, House("dev", "licet.local", None), frozenset())
    settings = dict(EVENTS.settings(f"LICET_AUDIT_dev:{messages[0].seq}"))
    store.client.raw_insert("events", EVENTS.columns, data, fmt=EVENTS.format, settings=settings)
    assert store.rows("SELECT seq, reason, detail FROM events WHERE kind = 'quarantined'") == []


@pytest.fixture(scope="module")
def full(front: Any, event: Any) -> Iterator[tuple[Any, int]]:
    """A store with that day, and when it was."""
    store = make_store(front)
    now_us = time.time_ns() // 1000
    bodies = enumerate(rows(event, now_us), start=1)
    insert(store, [Stored("LICET_AUDIT_dev", subject, seq, now_us, body) for seq, (subject, body) in bodies])
    store.client.command(OTEL_TRACES.read_text())
    views.make(store.client, Layout())
    yield store, now_us // 1000
    store.client.command(f"DROP DATABASE {store.address.database} SYNC")
    store.client.close()


def given(question: Question, now_ms: int) -> dict[str, str]:
    """What somebody asks who looks at the last day."""
    moments = {"since": now_ms - DAY_MS, "until": now_ms + HOUR_MS, "at": now_ms + HOUR_MS}
    values = {}
    for one in question.parameters:
        if one.name in moments:
            values[one.name] = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moments[one.name] // 1000))
        elif one.name in TEXTS:
            values[one.name] = TEXTS[one.name]
    return values


def steady(names: Any, found: Any) -> list[dict[str, Any]]:
    """Rows without what depends on the moment of asking."""
    return [{k: v for k, v in zip(names, row, strict=True) if k != "age_s"} for row in found]


@pytest.mark.parametrize("name", questions())
def test_question_view_and_panel_give_one_answer(full: tuple[Any, int], name: str) -> None:
    store, now_ms = full
    question = questions()[name]
    values = given(question, now_ms)
    answer = ask(store.client, name, values)
    assert answer.rows, "a question that nothing answers is no test"
    said = steady(answer.names, answer.rows)
    view = views.view_name(question)
    if view is not None:
        call = ", ".join(f"{key} = {{{key}:String}}" for key in question.values(values))
        found = store.client.query(
            f"SELECT * FROM {view}{f'({call})' if call else ''}", parameters=question.values(values)
        )
        assert steady(found.column_names, found.result_rows) == said
    start = now_ms - DAY_MS - now_ms % 1000 - 1000
    end = now_ms + HOUR_MS - now_ms % 1000
    shown = store.client.query(panel_of(name).filled(start, end, **TEXTS))
    assert steady(shown.column_names, shown.result_rows) == said


def told(store: Any, *words: str) -> str:
    """What `licet audit WORDS` prints about the store."""
    address = store.address
    environment = {"LICET_CLICKHOUSE_URL": address.url}
    environment |= {"LICET_CLICKHOUSE_PASSWORD_FILE": str(address.password_file)}
    environment |= {"LICET_CLICKHOUSE_DATABASE": address.database}
    done = CliRunner().invoke(app, words, env=environment)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_each_answer_is_a_table_csv_and_json(full: tuple[Any, int]) -> None:
    store, now_ms = full
    for name, question in questions().items():
        answer = ask(store.client, name, given(question, now_ms))
        rows = json.loads(answer.text("json"))
        assert [list(row) for row in rows] == [list(answer.names)] * len(answer.rows), name
        lines = list(csv.reader(io.StringIO(answer.text("csv"))))
        assert (lines[0], len(lines)) == (list(answer.names), len(answer.rows) + 1), name
        assert answer.names[0] in answer.text("table"), name  # of a wide answer what is not empty


@pytest.mark.parametrize("words", [("agent-window",), ("story", "--trace")], ids=lambda words: words[0])
def test_command_prints_what_was_asked_for(full: tuple[Any, int], words: tuple[str, ...]) -> None:
    store, now_ms = full
    name = "story-trace" if "--trace" in words else words[0]
    values = given(questions()[name], now_ms)
    answer = ask(store.client, name, values)
    for style in STYLES:
        params = (f"--param={key}={value}" for key, value in values.items())
        assert told(store, "ask", *words, *params, "--format", style) == answer.text(style) + "\n"
    refused = CliRunner().invoke(app, ["ask", "holds-open", "--format", "xml"])
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_command_exports_each_decision_and_refusal_as_one_ocsf_record(full: tuple[Any, int]) -> None:
    store, now_ms = full
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((now_ms - DAY_MS) // 1000))
    records = [json.loads(line) for line in told(store, "ocsf", "--since", since).splitlines()]
    kinds = store.rows("SELECT event_id, kind FROM events WHERE has({k:Array(String)}, kind)", k=list(KINDS))
    assert len(kinds) > 3
    assert sorted((one["metadata"]["uid"], one["metadata"]["event_code"]) for one in records) == sorted(kinds)
    assert {(one["class_uid"], one["category_uid"]) for one in records} == {(6003, 6)}


def test_only_a_question_whose_table_is_a_parameter_has_no_view() -> None:
    assert [name for name, one in questions().items() if views.view_name(one) is None] == ["story-trace"]


def test_a_person_is_shown_with_the_answer_that_was_given(full: tuple[Any, int]) -> None:
    store, _ = full
    since = {"since": "2026-01-01 00:00:00"}
    assert ask(store.client, "approvals-by-person", since).rows[0][:4] == ("lena", "approve", 1, 1)


ENDINGS: tuple[tuple[EventKind, dict[str, Any]], ...] = (
    (EventKind.APPROVAL_VOTED, {"detail": "reject as finance-lead", "approvals": ["max"]}),
    (EventKind.APPROVAL_VOTED, {"detail": "edit as finance-lead", "approvals": ["max"]}),
    (EventKind.APPROVAL_EXPIRED, {}),
    (EventKind.APPROVAL_VOTED, {"detail": "approve as lead, which lifts it", "approvals": ["max"]}),
    (EventKind.DECISION_ALLOWED, {"decision": "allow"}),
    (EventKind.DECISION_ALLOWED, {"decision": "allow", "hold_id": ""}),  # nobody needs to be asked any more
    (EventKind.DECISION_HELD, {"decision": "hold", "reason": "HELD", "hold_id": "f" * 32}),
)


def put_hold(store: Any, event: Any, seq: int, number: int, **fields: Any) -> None:
    """Store what happened to the hold, and to the step, of this number."""
    step = {"hold_id": f"{number:032x}", "spend_id": f"{number:032x}"}
    body = event(seq, **{"decision": "", "reason": "", **step, **fields})
    insert(store, [Stored("LICET_AUDIT_dev", DECIDER_SUBJECT, seq, time.time_ns() // 1000, body)])


def test_a_hold_is_open_until_something_ends_it_and_says_who_answered(store: Any, event: Any) -> None:
    now_us = time.time_ns() // 1000

    def put(seq: int, kind: EventKind, number: int, **fields: Any) -> None:
        put_hold(store, event, seq, number, kind=kind, time_us=now_us, **fields)

    for number in range(len(ENDINGS)):
        put(2 * number + 1, EventKind.APPROVAL_REQUESTED, number)
        put(2 * number + 2, EventKind.APPROVAL_VOTED, number, detail="approve as lead", approvals=["lena"])
    for number, (kind, fields) in enumerate(ENDINGS):
        found = {row[0]: row[-1] for row in ask(store.client, "holds-open", {}).rows}
        assert "f" * 32 not in found
        assert found == {f"{n:032x}": ["lena: approve as lead"] for n in range(number, len(ENDINGS))}
        put(100 + number, kind, number, **fields)
    [newer] = ask(store.client, "holds-open", {}).rows  # of the last step: it says something else now
    assert newer[0] == "f" * 32


def test_holds_are_those_that_waited_at_the_moment_and_none_outlives_its_day(store: Any, event: Any) -> None:
    now_us, hour_us = time.time_ns() // 1000, HOUR_MS * 1000

    def open_at(hours_ago: float) -> list[tuple[str, int]]:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime((now_us - hours_ago * hour_us) / 1_000_000))
        found = ask(store.client, "holds-open", {"at": at}).rows
        return [(hold_id[-1], round(age_s / 3600)) for hold_id, _, age_s, *_ in found]

    for seq, (number, hours_ago, kind) in enumerate(
        (
            (1, 40, EventKind.APPROVAL_REQUESTED),
            (1, 17, EventKind.APPROVAL_VOTED),  # in its 23rd hour; no decider lived to see it end
            (1, 16.5, EventKind.DECISION_HELD),  # asked for again
            (2, 20, EventKind.APPROVAL_REQUESTED),
            (2, 10, EventKind.DECISION_ALLOWED),
            (3, 5, EventKind.APPROVAL_REQUESTED),
        ),
        start=1,
    ):
        time_us = int(now_us - hours_ago * hour_us)
        put_hold(store, event, seq, number, kind=kind, time_us=time_us, approvals=["lena"])
    assert open_at(41) == []
    assert open_at(30) == [("1", 10)]
    assert open_at(17) == [("1", 23), ("2", 3)]
    assert open_at(12) == [("2", 8)]
    assert open_at(7) == []
    assert open_at(0) == [("3", 5)]
    assert [row[0][-1] for row in ask(store.client, "holds-open", {}).rows] == ["3"]


def test_holds_are_looked_for_as_far_back_as_one_can_last() -> None:
    """An hour more, for clocks; and what is said of a hold up to its end, of one that began just before."""
    hours = HOLD_LIFE_MS // HOUR_MS + 1
    assert set(re.findall(r"moment - INTERVAL (\d+) HOUR", questions()["holds-open"].sql)) == {
        str(hours),
        str(2 * hours),
    }


@pytest.mark.parametrize("cluster", ["", "main"])
def test_views_and_their_grants_are_parsed_by_the_engine_for_a_cluster_too(store: Any, cluster: str) -> None:
    made = [*views.statements(Layout(cluster)), *views.grants(Layout(cluster), "licet")]
    assert len(made) == 2 * (len(questions()) - 1)
    for statement in made:
        store.client.command(f"EXPLAIN AST {statement}")
        assert ("ON CLUSTER `main`" in statement) is bool(cluster)


def test_making_the_views_again_follows_a_question_that_changed(store: Any) -> None:
    store.client.command("CREATE VIEW ask_holds_open AS SELECT 1 AS old")
    views.make(store.client, Layout())
    views.make(store.client, Layout())
    assert store.rows("SELECT hold_id FROM ask_holds_open(at = '2100-01-01 00:00:00')") == []
