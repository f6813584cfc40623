"""What operators do: read again, restore a copy, tell a webhook, draw a timeline, export to a SIEM."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import date
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from audit.asking.ask import ask, questions
from audit.asking.timeline import page
from audit.judging.alert import Webhook
from audit.judging.evidence import FIELDS, task_rows
from audit.store import retention
from audit.store.migrate import Layout, role_statements
from audit.store.sheet import EVENTS, PAYLOADS
from audit.store.stored import House, Stored
from audit.writing import reread

AUDIT = "LICET_AUDIT_dev"
DAY_US = 86_400_000_000
OTEL_TRACES = Path(__file__).parents[3] / "ops" / "otel_traces.sql"


@pytest.mark.asyncio
@pytest.mark.timeout(180)
async def test_days_that_were_dropped_are_read_again_in_full(house: Any, event: Any) -> None:
    writer = house.start_writer(LICET_BATCH_ROWS="100")
    await house.publish([event(n) for n in range(1, 1001)])
    await house.until(house.stored(1000))
    writer.terminate()
    writer.wait()
    client = house.store.client
    day = date.fromisoformat(str(house.store.value("SELECT toDate(min(js_time)) FROM events")))
    needed = reread.first_needed(client, day)
    assert needed == {AUDIT: 1}
    reread.check(needed, {AUDIT: 1})
    assert reread.drop(client, day)
    assert house.store.value("SELECT count() FROM events") == 0
    house.start_writer(LICET_BATCH_ROWS="100")
    await house.until(house.stored(1000), 60)
    house.assert_exact(1000)


def test_reading_again_what_jetstream_no_longer_has_is_refused() -> None:
    with pytest.raises(reread.RereadError, match="rows would be lost"):
        reread.check({AUDIT: 5}, {AUDIT: 6})
    with pytest.raises(reread.RereadError, match="rows would be lost"):
        reread.check({AUDIT: 5}, {})
    with pytest.raises(reread.RereadError, match="no rows"):
        reread.check({}, {AUDIT: 1})
    reread.check({AUDIT: 5}, {AUDIT: 5})


@pytest.mark.asyncio
@pytest.mark.timeout(180)
async def test_copy_of_the_stopped_store_serves_and_the_writer_goes_on(
    own_house: Any, event: Any, tmp_path: Path
) -> None:
    house, front = own_house
    writer = house.start_writer()
    await house.publish([event(n) for n in range(1, 501)])
    await house.until(house.stored(500))
    writer.terminate()
    writer.wait()
    await asyncio.to_thread(front.stop)
    shutil.copytree(front.directory / "data", tmp_path / "copy", symlinks=True)
    shutil.rmtree(front.directory / "data")
    shutil.move(tmp_path / "copy", front.directory / "data")
    await asyncio.to_thread(front.start)
    house.start_writer()
    await house.publish([event(n) for n in range(501, 601)])
    await house.until(house.stored(600), 60)
    house.assert_exact(600)


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[Any]]]:
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204 if len(seen) > 1 else 503)  # away at first
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", seen
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.asyncio
async def test_webhook_is_told_again_when_it_was_away_and_hears_no_free_text(receiver: Any) -> None:
    url, seen = receiver
    webhook = Webhook(url)
    webhook.send({"finding": "NO_RULE_LOOKUP", "tenant": "t1", "detail": "free text", "amount_minor": 5000})
    await webhook.drain()
    assert seen == [{"finding": "NO_RULE_LOOKUP", "tenant": "t1", "amount_minor": 5000}] * 2


def test_webhook_that_is_no_http_address_is_refused() -> None:
    with pytest.raises(ValueError, match="no webhook"):
        Webhook("file:///etc/passwd")


def test_every_question_is_answered_and_takes_hostile_values_as_values(store: Any) -> None:
    hostile = "'; DROP TABLE events; --"
    store.client.command(OTEL_TRACES.read_text())
    for question in questions().values():
        given = {
            parameter.name: "2026-01-01 00:00:00"
            if parameter.type.startswith("DateTime")
            else "24"
            if parameter.type.startswith("UInt")
            else hostile
            for parameter in question.parameters
            if parameter.type != "Identifier"
        }
        answer = ask(store.client, question.name, given)
        assert answer.rows == ()
    with pytest.raises(Exception, match="UNKNOWN_TABLE"):
        ask(store.client, "story-trace", {"id": "1", "traces": hostile})
    assert store.value("SELECT count() FROM events") == 0


def test_question_cannot_write(store: Any) -> None:
    from audit.asking.ask import Question

    text = Question("x", "", (), "INSERT INTO leases (js_stream, term, holder) VALUES ('x', 1, 'y')")
    with pytest.raises(Exception, match="READONLY"):
        store.client.query(text.sql, settings={"readonly": "2"})


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, _: Any) -> None:
        self.tags.append(tag)


def test_timeline_needs_nothing_from_elsewhere_and_no_value_becomes_markup() -> None:
    row = dict.fromkeys(FIELDS, "") | {
        "time_us": 1, "kind": "decision.denied", "resource": "<script>alert(1)</script>", "currency": "USD",
        "amount_minor": 5, "rule_ids": ["<b>"], "approvals": [], "finding": "",
    }  # fmt: skip
    text = page("task <x>", [row])
    parser = Tags()
    parser.feed(text)
    assert not {"script", "b", "link", "img", "iframe", "x"} & set(parser.tags)
    assert "http" not in text


def test_task_rows_hold_what_belongs_to_its_steps_and_nothing_else(store: Any, event: Any) -> None:
    from audit.store.row import COLUMNS, insert_settings
    from audit.store.sheet import encode

    bodies = [
        event(1, task_id="a"),
        event(2, task_id="b"),
        event(3, spend_id=f"{1 + (1 << 65):032x}", task_id=""),
    ]
    messages = [
        Stored(AUDIT, "licet.audit.dev.decider.main", n, 1_790_000_000_000_000, body)
        for n, body in enumerate(bodies, 1)
    ]
    store.client.raw_insert(
        "events",
        COLUMNS,
        encode(messages, House("dev", "licet.local", None)),
        fmt="Protobuf",
        settings=dict(insert_settings("x")),
    )
    assert [row["event_id"] for row in task_rows(store.client, "a")] == [f"{1:032x}", f"{3:032x}"]


def test_shorter_retention_lets_old_days_go_and_keeps_the_others(store: Any, event: Any) -> None:
    now = time.time_ns() // 1000
    aged = [(1, 20), (2, 20), (3, 0)]
    for table, sheet in (("events", EVENTS), ("payloads", PAYLOADS)):
        for seq, days in aged:
            message = Stored(
                f"{table}-stream", "licet.audit.dev.decider.main", seq, now - days * DAY_US, event(seq)
            )
            data = sheet.encode([message], House("dev", "licet.local", None), frozenset())
            settings = dict(sheet.settings(f"{table}:{seq}"))
            store.client.raw_insert(table, sheet.columns, data, fmt=sheet.format, settings=settings)
    assert store.value("SELECT count() FROM payloads") == 3
    layout = Layout("", 14, 7)
    assert retention.going(store.client, layout) == {"events": 2, "payloads": 2}
    retention.apply(store.client, layout)
    retention.apply(store.client, layout)
    for table in ("events", "payloads"):
        store.client.command(f"OPTIMIZE TABLE {table} FINAL")
        assert store.rows(f"SELECT js_seq FROM {table}") == [(3,)]
    assert retention.going(store.client, layout) == {"events": 0, "payloads": 0}


def test_no_payload_outlives_its_event_and_a_cluster_is_told_as_a_whole() -> None:
    found = retention.statements(Layout("main", 5, 30))
    assert [text.rpartition("INTERVAL ")[2] for text in found] == ["5 DAY"] * 3
    assert all("ON CLUSTER `main`" in text for text in found)


@pytest.mark.parametrize("cluster", ["", "main"])
def test_roles_are_parsed_by_the_engine(store: Any, cluster: str) -> None:
    found = role_statements(Layout(cluster), "licet")
    assert len(found) > 20
    for statement in found:
        store.client.command(f"EXPLAIN AST {statement}")
        assert ("ON CLUSTER `main`" in statement) is bool(cluster)


def test_each_role_may_do_its_own_work_and_nothing_else() -> None:
    rights: dict[str, set[tuple[str, str]]] = {}
    policies = {}
    for statement in role_statements(Layout(), "licet"):
        plain = " ".join(line for line in statement.splitlines() if not line.startswith("--"))
        granted = re.search(r"GRANT\s+(.+) ON (\S+) TO (\w+)$", " ".join(plain.split()))
        if granted:
            rights.setdefault(granted[3], set()).update(
                (right, granted[2]) for right in re.split(r", (?![^(]*\))", granted[1])
            )
        policy = re.search(r"POLICY OR REPLACE (\w+) .*USING (.+) TO (.+)$", " ".join(plain.split()))
        if policy:
            policies[policy[1]] = (policy[2], set(policy[3].split(", ")))
    assert {right for right, _ in rights["licet_writer"]} == {
        "INSERT",
        "SELECT",
        "SELECT(js_stream, js_seq, batch)",
    }
    assert ("SELECT", "licet.payloads") not in rights["licet_writer"] | rights["licet_sre"]
    assert {right for right, _ in rights["licet_sre"] | rights["licet_reader"]} == {"SELECT"}
    assert {table for _, table in rights["licet_reader"]} == {
        "licet.events",
        "licet.refusals",
        "licet.hours",
    }
    assert rights["licet_auditor"] == {("SELECT", "licet.*")}
    assert policies["licet_tenant"] == ("tenant = currentUser()", {"licet_reader"})
    everybody_else = rights.keys() - {"licet_reader"}
    assert policies["licet_all"] == ("1", everybody_else), "who has no policy on a table sees no row"


@pytest.mark.parametrize("database", ["", "a b", "x; DROP TABLE events", "x`y", "x.y"])
def test_database_name_cannot_carry_a_statement(database: str) -> None:
    with pytest.raises(ValueError, match="no database name"):
        role_statements(Layout(), database)


def test_commands_say_what_is_missing(front: Any, store: Any) -> None:
    licet = str(Path(sys.executable).with_name("licet"))
    environment = {**os.environ, "LICET_CLICKHOUSE_PASSWORD_FILE": str(front.password_file)}

    def run(*words: str, url: str = front.url) -> tuple[int, str]:
        done = subprocess.run(
            (licet, "audit", *words),
            env={
                **environment,
                "LICET_CLICKHOUSE_URL": url,
                "LICET_CLICKHOUSE_DATABASE": store.address.database,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    assert run("ask", "no-such-question") == (
        1,
        "there is no question `no-such-question`: see licet audit ask --list\n",
    )
    assert run("ask", "story")[1].startswith("`story` needs --param id=…")
    assert run("ask", "story", "--trace", "-p", "id=1")[1].startswith(
        "the store has no traces: let a collector"
    )
    assert run("evidence", "--spend", "0" * 32)[1].startswith("the store has nothing of this step")
    assert run("evidence", url="ftp://x") == (2, "`ftp://x` is no ClickHouse address: use http://host:port\n")
    status, words = run("ask", "holds-open", url="http://127.0.0.1:1")
    assert status == 1
    assert "refused" in words
