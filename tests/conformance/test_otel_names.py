"""Names from OpenTelemetry stand in its conventions, their values have its types, and ours are ours."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from licet import telemetry
from licet.client import Denied, spans
from licet.refusal import Reason, Refusal, Status
from licet.tracing import Tracing
from sidecar.exchange import Answered, Refused, Request
from sidecar.trace import DoorTrace

OURS = "licet."
UNLISTED = {"gen_ai.agent.id", "service.name", "service.instance.id", "service.version"}
"""In the conventions' registry, but not among the spans and metrics that the data holds."""


@pytest.fixture(scope="module")
def listed() -> Any:
    beside = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("LICET_CONFORMANCE_DATA", beside)) / "08-otel" / "otel_attributes.json"
    if not path.is_file():
        pytest.skip(f"NOT CHECKED: no {path}; set LICET_CONFORMANCE_DATA")
    return json.loads(path.read_text())


def attributes(listed: Any, span: str) -> dict[str, Any]:
    return {one["name"]: one for one in listed[span]["attributes"]}


def names() -> set[str]:
    constants = vars(telemetry).items()
    plain = ("SPAN_", "METRIC_", "SCHEMA_URL", "SCOPE")
    return {
        value
        for name, value in constants
        if name.isupper() and isinstance(value, str) and "." in value and not name.startswith(plain)
    }


def test_every_name_is_ours_or_stands_in_the_conventions(listed: Any) -> None:
    known = {name for span in listed if span.startswith("span.") for name in attributes(listed, span)}
    known |= set(listed["other_attributes"]) | UNLISTED
    foreign = {name for name in names() if not name.startswith(OURS)}
    assert foreign - known == set()
    assert {"rpc.system.name", "gen_ai.tool.name", "error.type"} <= foreign


def test_none_of_our_names_takes_a_namespace_of_the_conventions(listed: Any) -> None:
    known = {name for span in listed if span.startswith("span.") for name in attributes(listed, span)}
    assert {name.partition(".")[0] for name in known} & {"licet"} == set()
    assert all(metric.startswith(OURS) for metric in telemetry.METRICS)


def test_values_with_a_fixed_meaning_are_among_the_conventions_values(listed: Any) -> None:
    assert telemetry.EXECUTE_TOOL in listed["other_attributes"]["gen_ai.operation.name"]["values"]
    assert telemetry.GRPC in listed["other_attributes"]["rpc.system.name"]["values"]


def checked(listed: Any, span: str, recorded: Any) -> None:
    """Hold a recorded span against its convention: what is required is there, what is there has its type."""
    wanted = attributes(listed, span)
    required = {name for name, one in wanted.items() if one["requirement"] == "required"}
    assert required - set(recorded) == {"server.address"} & required  # the client knows names, not addresses
    for name, value in recorded.items():
        if wanted.get(name, {}).get("type") == "string":
            assert isinstance(value, str), name


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Answered(code=0, message="", body=b"", metadata=(), trailers=()), "OK"),
        (Answered(code=5, message="", body=b"", metadata=(), trailers=()), "NOT_FOUND"),
        (Refused(refusal=Refusal(Reason.SPENT)), Status.ALREADY_EXISTS.value),
    ],
)
def test_door_span_is_an_rpc_server_span(listed: Any, reply: Any, code: str) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing("test", exporter=exporter)

    async def receive() -> bytes:
        return b""

    request = Request(
        path="/fin.v1.Finance/IssueRefund", metadata=(), peer="", origin="", deadline_ms=None, receive=receive
    )
    DoorTrace(tracing, request).close("door.passed", {}, reply)
    tracing.shutdown()
    (span,) = exporter.get_finished_spans()
    checked(listed, "span.rpc.grpc.call.server", span.attributes)
    assert span.attributes is not None
    assert span.attributes["rpc.response.status_code"] == code
    assert span.attributes["rpc.method"] == "fin.v1.Finance/IssueRefund"


def test_agent_span_is_an_execute_tool_span_and_its_requests_are_rpc_client_spans(listed: Any) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing("test", exporter=exporter)
    recording, root = spans.begin(
        tracing, "/fin.v1.Finance/IssueRefund", "task_1", "call_1", "spiffe://td/dev/agent/a"
    )
    with pytest.raises(Denied), spans.step(recording, root, telemetry.SPAN_DECIDE):
        raise Denied("POLICY_DENIED", "no")
    recording.close()
    tracing.shutdown()
    agent, request = sorted(exporter.get_finished_spans(), key=lambda one: one.name)
    checked(listed, "span.gen_ai.execute_tool.internal", agent.attributes)
    checked(listed, "span.rpc.grpc.call.client", request.attributes)
    assert request.status.is_unset, "a denial is an answer"
