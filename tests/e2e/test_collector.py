"""One trace from agent to ledger through real collectors: OTLP in, OTLP out, ClickHouse out."""

import importlib.util
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audit.store import StoreAddress
from examples.refund.fin.v1.finance_pb2 import Amount, IssueRefundRequest
from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub
from licet import telemetry, tracing
from licet.client import Client
from licet.embedded.process import Process, accepts_tcp, free_port
from licet.embedded.project import read_project
from licet.embedded.stack import Stack

ROOT = Path(__file__).parents[2]
ROTEL = importlib.util.find_spec("rotel")
WITHIN_S = 30
pytestmark = [
    pytest.mark.xdist_group("collector"),
    pytest.mark.timeout(180),
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
        identity, tools = (
            "spiffe://licet.local/dev/agent/refund-bot",
            {"finance": self.stack.sidecar("finance")},
        )
        with Client(decider=self.stack.decider, tools=tools, identity=identity, tracing=spans) as gate:
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
    stack = Stack(
        directory / "data",
        read_project(ROOT / "examples" / "refund"),
        otlp_endpoint=f"http://127.0.0.1:{front}",
    )
    collectors: list[Process] = []
    try:
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
