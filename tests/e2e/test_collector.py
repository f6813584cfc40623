"""One trace from agent to ledger through real collectors: OTLP in, OTLP out, ClickHouse out."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audit.store.client import StoreAddress
from examples.refund.fin.v1.finance_pb2 import Amount, IssueRefundRequest
from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet import telemetry, tracing
from licet.client import Client
from licet.embedded.dev_keys import make_dev_keys
from licet.embedded.ports import free_port
from licet.embedded.process import Process, accepts_tcp
from licet.embedded.project import read_project
from licet.embedded.stack import Stack
from licet.identity import TRUST_DOMAIN_DEV
from tests.worlds.panels import panel_of

ROOT = Path(__file__).parents[2]
ROTEL = importlib.util.find_spec("rotel")
WITHIN_S = 90
AGENT = "spiffe://licet.local/dev/agent/refund-bot"
HELD_ABOVE = 6_000
HOLD = f"""
@id("large") @hold("finance-lead:1")
forbid (principal, action == Action::"refund", resource) when {{ context.amount_minor > {HELD_ABOVE} }};
"""
pytestmark = [
    pytest.mark.xdist_group("collector"),
    pytest.mark.timeout(400),
    pytest.mark.skipif(ROTEL is None, reason="NOT CHECKED: no collector; pip install rotel"),
]


@dataclass
class Collected:
    """A house whose spans all go through two collectors into its own ClickHouse."""

    stack: Stack
    store: Any

    def refund(self, call_id: str) -> str:
        """Make one refund as an agent does; return the trace id that the audit store has of it."""
        spans = tracing.configure("agent", self.stack.otlp_endpoint)
        tools = {"finance": self.stack.sidecar("finance")}
        with Client(decider=self.stack.decider, tools=tools, identity=AGENT, tracing=spans) as gate:
            request = IssueRefundRequest(order_id="O1", amount=Amount(minor=100, currency="USD"))
            gate.stub(FinanceStub, task="task_789").IssueRefund(request, call_id=call_id)
        asked = "SELECT trace_id FROM events WHERE kind = 'ledger.changed' AND trace_id != '' LIMIT 1"
        self.until(lambda: self.store.query(asked).result_rows, "the ledger's event arrives")
        return str(self.store.query(asked).result_rows[0][0])

    def until(self, true: Any, what: str) -> None:
        end = time.monotonic() + WITHIN_S
        while not true():
            assert time.monotonic() < end, what
            time.sleep(0.2)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    directory = tmp_path_factory.mktemp("c")
    front, back = free_port(), free_port()
    project = read_project(holding(directory / "refund"))
    stack = Stack(directory / "data", project, otlp_endpoint=f"http://127.0.0.1:{front}")
    collectors: list[Process] = []
    try:
        people = {"lena": ("finance-lead",)}
        make_dev_keys(stack.layout.keys, "dev", ["finance"], (), TRUST_DOMAIN_DEV, approvers=people)
        stack.start()
        password = stack.layout.clickhouse_password
        store = StoreAddress(stack.clickhouse_url, password_file=password).client()
        store.command((ROOT / "ops" / "otel_traces.sql").read_text())
        collectors.append(rotel(directory, "back", back, to_store(stack)))
        collectors.append(rotel(directory, "front", front, to_collector(back)))
        for one in collectors:
            one.start()
            one.wait_ready()
        yield Collected(stack, store)
        store.close()
    finally:
        stack.close()
        for one in collectors:
            one.stop()


def holding(directory: Path) -> Path:
    """Return the example with one rule more: large refunds wait for a finance lead."""
    example = ROOT / "examples" / "refund"
    shutil.copytree(example / "policy", directory / "policy")
    shutil.copy(example / "licet.yaml", directory)
    rules = directory / "policy" / "rules.cedar"
    rules.write_text(rules.read_text() + HOLD)
    return directory


def to_store(stack: Stack) -> dict[str, str]:
    return {
        "ROTEL_EXPORTER": "clickhouse",
        "ROTEL_CLICKHOUSE_EXPORTER_ENDPOINT": stack.clickhouse_url,
        "ROTEL_CLICKHOUSE_EXPORTER_DATABASE": "default",
        "ROTEL_CLICKHOUSE_EXPORTER_USER": "licet",
        "ROTEL_CLICKHOUSE_EXPORTER_PASSWORD": stack.layout.clickhouse_password.read_text().strip(),
        "ROTEL_CLICKHOUSE_EXPORTER_ASYNC_INSERT": "false",
        "ROTEL_CLICKHOUSE_EXPORTER_COMPRESSION": "none",  # no front that is embedded reads its blocks
    }


def to_collector(port: int) -> dict[str, str]:
    return {
        "ROTEL_EXPORTER": "otlp",
        "ROTEL_OTLP_EXPORTER_ENDPOINT": f"http://127.0.0.1:{port}",
        "ROTEL_OTLP_EXPORTER_PROTOCOL": "grpc",
    }


def rotel(directory: Path, name: str, port: int, out: dict[str, str]) -> Process:
    """Return a collector that takes OTLP at `port`. It sends traces to one place, so there are two of it."""
    assert ROTEL is not None
    assert ROTEL.origin is not None
    environment = {
        "ROTEL_OTLP_GRPC_ENDPOINT": f"127.0.0.1:{port}",
        "ROTEL_OTLP_HTTP_ENDPOINT": f"127.0.0.1:{free_port()}",
        "ROTEL_BATCH_TIMEOUT": "200ms",
    }
    return Process(
        f"rotel-{name}",
        (str(Path(ROTEL.origin).parent / "rotel-agent"), "start"),
        log=directory / f"rotel-{name}.log",
        environment=environment | out,
        ready=lambda: accepts_tcp(port),
    )


def test_one_trace_leads_from_the_agent_to_the_ledger_through_collectors(collected: Collected) -> None:
    trace = collected.refund("call_1")
    asked = "SELECT SpanId, ParentSpanId, SpanName, ServiceName, StatusCode, Links.TraceId, Links.SpanId"
    asked += f" FROM otel_traces WHERE TraceId = '{trace}'"

    def names() -> set[str]:
        return {row[2] for row in collected.store.query(asked).result_rows}

    wanted = {
        f"{telemetry.SPAN_EXECUTE_TOOL} IssueRefund",
        telemetry.SPAN_DECIDE,
        telemetry.SPAN_LEDGER_COMMIT,
    }
    wanted |= {telemetry.SPAN_POLICY_EVALUATE, telemetry.SPAN_PERMIT_VERIFY, telemetry.SPAN_PERMIT_SPEND}
    collected.until(lambda: wanted <= names(), "the spans in ClickHouse")
    rows = {row[0]: row for row in collected.store.query(asked).result_rows}
    commit = next(row for row in rows.values() if row[2] == telemetry.SPAN_LEDGER_COMMIT)
    path = [commit[2]]
    while commit[1]:
        commit = rows[commit[1]]
        path.append(commit[2])
    assert path[-1] == f"{telemetry.SPAN_EXECUTE_TOOL} IssueRefund", path
    verified = [row for row in rows.values() if row[2] == telemetry.SPAN_PERMIT_VERIFY]
    links = [
        (rows[row[1]][2], rows[span][2])
        for row in verified
        for linked, span in zip(row[5], row[6], strict=True)
        if linked == trace
    ]
    assert ("fin.v1.Finance/IssueRefund", telemetry.SPAN_POLICY_EVALUATE) in links
    assert {row[3] for row in rows.values()} >= {"agent", "licet-decider", "licet-sidecar", "finance"}


def test_traces_and_audit_join_in_one_query(collected: Collected) -> None:
    joined = """
        SELECT e.kind, t.SpanName FROM events AS e INNER JOIN otel_traces AS t
        ON t.TraceId = e.trace_id AND t.SpanId = e.span_id WHERE e.kind = 'ledger.changed' LIMIT 1
    """
    collected.until(lambda: collected.store.query(joined).result_rows, "the ledger's event and its span join")


AGENT_PROGRAM = f"""
import sys
from examples.refund.fin.v1.finance_pb2 import Amount, IssueRefundRequest
from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet.client import Client, Held

with Client.from_env() as gate:
    finance = gate.stub(FinanceStub, task="task_789")
    request = IssueRefundRequest(order_id="O2", amount=Amount(minor={HELD_ABOVE + 1}, currency="USD"))
    try:
        finance.IssueRefund(request, call_id="call_held")
    except Held as held:
        print(held.hold_id, flush=True)
        if sys.argv[1:] == ["wait"]:
            held.wait(90)
            print(finance.IssueRefund(request, call_id="call_held").refund_id, flush=True)
"""


def agent(collected: Collected, *arguments: str) -> "subprocess.Popen[str]":
    """Start an agent that makes the held call in a process of its own."""
    stack = collected.stack
    environment = {
        "LICET_DECIDER": stack.decider,
        "LICET_TOOLS": f"finance={stack.sidecar('finance')}",
        "LICET_IDENTITY": AGENT,
        "LICET_OTLP_ENDPOINT": stack.otlp_endpoint,
    }
    command = [sys.executable, "-c", AGENT_PROGRAM, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    )


def test_a_held_call_is_resumed_elsewhere_in_traces_of_their_own_that_are_linked(
    collected: Collected,
) -> None:
    with agent(collected) as asking:
        hold_id, _ = asking.communicate(timeout=WITHIN_S)
    assert asking.returncode == 0
    with agent(collected, "wait") as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == hold_id, "the same hold, in another process"
        key = collected.stack.layout.keys / "approver-lena.key"
        command = [sys.executable, "-m", "licet", "approvals", "approve", hold_id.strip(), "--key", str(key)]
        command += ["--decider", collected.stack.decider, "--identity", AGENT, "--yes"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=WITHIN_S)
        refund_id, _ = waiting.communicate(timeout=WITHIN_S * 2)
    assert refund_id.strip()

    spans = "SELECT TraceId, SpanId, SpanName, Links.TraceId, Links.SpanId, ParentSpanId FROM otel_traces"
    mine = f"{spans} WHERE SpanAttributes['gen_ai.tool.call.id'] = 'call_held' ORDER BY Timestamp"

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return list(collected.store.query(sql).result_rows)

    collected.until(lambda: len(rows(mine)) == 4, "three tries and a wait")
    collected.until(
        lambda: rows(f"{spans} WHERE SpanName = '{telemetry.SPAN_LEDGER_COMMIT}' AND TraceId ="
                     f" '{rows(mine)[-1][0]}'"), "the ledger's span"
    )  # fmt: skip
    first, second, wait, resumed = (row[:2] for row in rows(mine))
    assert {row[5] for row in rows(mine)} == {""}, "each begins a trace: nobody's child"
    assert len({first[0], second[0], wait[0], resumed[0]}) == 4

    def span(trace: str, name: str, service: str) -> tuple[Any, ...]:
        found = f"{spans} WHERE TraceId = '{trace}' AND SpanName = '{name}' AND ServiceName = '{service}'"
        collected.until(lambda: rows(found), f"{name} of {service}")
        return rows(found)[0]

    def links(row: tuple[Any, ...]) -> set[tuple[str, str]]:
        return set(zip(row[3], row[4], strict=True))

    evaluated = [span(one[0], telemetry.SPAN_POLICY_EVALUATE, "licet-decider")[:2] for one in (first, second)]
    assert links(next(row for row in rows(mine) if row[:2] == wait)) == set(evaluated)
    assert links(span(resumed[0], telemetry.SPAN_DECIDE, "licet-agent")) == {wait}
    for later in (second, resumed):
        assert links(span(later[0], telemetry.SPAN_DECIDE, "licet-decider")) == {evaluated[0]}
    told = f"SELECT kind, trace_id FROM events WHERE hold_id = '{hold_id.strip()}'"
    told += " AND startsWith(kind, 'approval.') ORDER BY time_us"
    asked = [("approval.requested", first[0]), ("approval.voted", first[0])]
    collected.until(lambda: [tuple(row) for row in rows(told)] == asked, "the answer joins the first try")


def test_the_panel_of_approvals_shows_who_answered_what(collected: Collected) -> None:
    now_ms = time.time_ns() // 1_000_000
    asked = panel_of("approvals-by-person").filled(now_ms - 3_600_000, now_ms + 60_000)
    collected.until(lambda: collected.store.query(asked).result_rows, "lena's answer")
    assert [tuple(row[:4]) for row in collected.store.query(asked).result_rows] == [("lena", "approve", 1, 1)]


def test_story_is_told_with_the_spans_in_between_and_its_linked_traces(collected: Collected) -> None:
    """What an auditor asks when the events alone do not say where the time went, or who waited."""
    held = "SELECT DISTINCT spend_id FROM events WHERE kind = 'approval.requested'"
    collected.until(lambda: collected.store.query(held).result_rows, "the held step")
    spend_id = collected.store.query(held).result_rows[0][0]
    command = [
        sys.executable,
        "-m",
        "licet",
        "audit",
        "ask",
        "story",
        "--trace",
        "-p",
        f"id={spend_id}",
        "--json",
    ]
    environment = {**os.environ, **collected.stack.audit_environment()}

    judged = f"SELECT 1 FROM otel_traces WHERE SpanAttributes['{telemetry.SPEND_ID}'] = '{spend_id}'"
    judged += f" AND SpanName = '{telemetry.SPAN_RECONCILE}'"
    judged += f" AND SpanAttributes['{telemetry.FINDING}'] = 'ALLOWED_EXECUTED'"
    raised = f"SELECT 1 FROM events WHERE spend_id = '{spend_id}' AND finding = 'ALLOWED_EXECUTED'"
    for sql in (judged, raised):
        collected.until(lambda sql=sql: collected.store.query(sql).result_rows, "the finding")
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=WITHIN_S
    )
    story = json.loads(done.stdout)
    assert telemetry.SPAN_RECONCILE in {one["name"] for one in story}
    assert [one["time"] for one in story] == sorted(one["time"] for one in story)
    events = [one["name"] for one in story if one["what"] == "event"]
    wanted = ["approval.requested", "approval.voted", "spend.reserved", "ledger.changed"]
    assert [one for one in events if one in wanted] == [*wanted, "ledger.changed"]
    assert "finding.raised" in events[events.index("ledger.changed") :]
    spans = {(one["trace_id"], one["span_id"]): one for one in story if one["what"] == "span"}
    (changed, _) = (one for one in story if one["name"] == "ledger.changed")
    assert spans[changed["trace_id"], changed["span_id"]]["name"] == telemetry.SPAN_LEDGER_COMMIT
    assert spans[changed["trace_id"], changed["span_id"]]["ms"] > 0
    (wait,) = (one for one in spans.values() if one["name"] == telemetry.SPAN_APPROVAL_WAIT)
    assert any(wait["span_id"] in one["links"] for one in spans.values()), "the resumed decision follows it"
    other = "SELECT DISTINCT trace_id FROM events WHERE kind = 'ledger.changed' AND spend_id != {id:String}"
    strangers = {row[0] for row in collected.store.query(other, parameters={"id": spend_id}).result_rows}
    assert strangers
    assert strangers.isdisjoint(one["trace_id"] for one in story), "and nobody else's"
