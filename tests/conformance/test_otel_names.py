"""Names from OpenTelemetry stand in its conventions, their values have its types, and ours are ours.

Every rule reads the conventions as they lie there: what is required, allowed or meant for people who ask for
it is not written down here a second time.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from licet import telemetry
from licet.client import Denied, Unavailable, spans
from licet.refusal import Reason, Refusal, Status
from licet.tracing import TraceContext, Tracing
from sidecar.exchange import Answered, Refused, Request, ToolAnswer
from sidecar.trace import DoorTrace

OURS = "licet."
RESOURCE = {"service.name", "service.instance.id", "service.version"}
"""Of the resource's conventions, which the data does not hold."""
KINDS = {
    ("rpc", "client"): "span.rpc.grpc.call.client",
    ("rpc", "server"): "span.rpc.grpc.call.server",
    ("execute_tool", "internal"): "span.gen_ai.execute_tool.internal",
}
NATIVE: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "enum": (str,),
    "int": (int,),
    "double": (int, float),
    "boolean": (bool,),
    "string[]": (list, tuple),
}
"""What a value of each of the conventions' types is here."""


@pytest.fixture(scope="module")
def listed() -> Any:
    return read_listed()


def read_listed() -> Any:
    beside = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("LICET_CONFORMANCE_DATA", beside)) / "08-otel" / "otel_attributes.json"
    if not path.is_file():
        pytest.skip(f"NOT CHECKED: no {path}; set LICET_CONFORMANCE_DATA")
    return json.loads(path.read_text())


def attributes(listed: Any, span: str) -> dict[str, Any]:
    return {one["name"]: one for one in listed[span]["attributes"]} if span in listed else {}


def registry(listed: Any) -> dict[str, Any]:
    """Return every attribute that the data knows, wherever it stands."""
    found = dict(listed["other_attributes"])
    for span in listed:
        if span.startswith("span."):
            found |= attributes(listed, span)
    for metric in listed["metrics"].values():
        found |= {name: found.get(name, {}) for name in metric["attributes"]}
    return found


def constants(*, metrics: bool = False) -> Iterator[str]:
    """Return every attribute or metric name that licet can leave."""
    for name, value in vars(telemetry).items():
        plain = name.startswith(("SPAN_", "METRIC_", "SCHEMA_URL", "SCOPE"))
        wanted = name.startswith("METRIC_") if metrics else not plain
        if name.isupper() and isinstance(value, str) and "." in value and wanted:
            yield value


def test_every_attribute_is_ours_or_stands_in_the_conventions(listed: Any) -> None:
    foreign = {name for name in constants() if not name.startswith(OURS)}
    assert foreign - registry(listed).keys() - RESOURCE == set()
    assert foreign & registry(listed).keys(), "the search finds what is there"


def test_no_attribute_is_deprecated(listed: Any) -> None:
    known = registry(listed)
    found = {name for name in constants() if known.get(name, {}).get("stability") == "deprecated"}
    assert found == set()


def test_none_of_our_names_takes_a_namespace_of_the_conventions(listed: Any) -> None:
    known = {*registry(listed), *(metric.removeprefix("metric.") for metric in listed["metrics"])}
    taken = {name.partition(".")[0] for name in known}
    ours = {name for name in (*constants(), *constants(metrics=True)) if name.startswith(OURS)}
    assert taken & {name.partition(".")[0] for name in ours} == set()


def test_every_metric_is_ours_or_is_measured_as_the_conventions_say(listed: Any) -> None:
    for metric in telemetry.METRICS.values():
        convention = listed["metrics"].get(f"metric.{metric.name}")
        if convention is None:
            assert metric.name.startswith(OURS), metric.name
        else:
            assert (metric.kind, metric.unit) == (convention["instrument"], convention["unit"])
        foreign = {label for label in metric.labels if not label.startswith(OURS)}
        assert foreign <= registry(listed).keys()


def test_values_with_a_fixed_meaning_are_among_the_conventions_values(listed: Any) -> None:
    known = listed["other_attributes"]
    for name, value in (
        (telemetry.GEN_AI_OPERATION_NAME, telemetry.EXECUTE_TOOL),
        (telemetry.RPC_SYSTEM_NAME, telemetry.GRPC),
    ):
        if name in known:
            assert value in known[name]["values"]


def faults(listed: Any, kind: str, recorded: Mapping[str, Any], *, failed: bool) -> list[str]:
    """Return what a span of one of the `KINDS` says otherwise than its convention."""
    convention, known = attributes(listed, kind), registry(listed)
    said = [f"no {name}" for name, one in convention.items() if needed(one, failed) and name not in recorded]
    for name, value in recorded.items():
        one = convention.get(name) or known.get(name)
        if name.startswith(OURS):
            continue
        if one is None:
            said.append(f"{name} is in no convention")
        elif one.get("requirement") == "opt_in":
            said.append(f"{name} is only for who asks for it")
        elif not isinstance(value, NATIVE.get(one.get("type", ""), (object,))):
            said.append(f"{name} is a {type(value).__name__}")
        elif wrong_value(one, value):
            said.append(f"{name} is {value!r}")
    return said if failed or "error.type" not in recorded else [*said, "error.type of what did not fail"]


def needed(attribute: Any, failed: bool) -> bool:
    """Whether an attribute must be there: always, or since the operation failed."""
    requirement = attribute["requirement"]
    on_failure = attribute["name"] == "error.type" and failed
    return requirement == "required" or on_failure


def wrong_value(attribute: Any, value: Any) -> bool:
    """Whether a value is none of a closed list; what has `_OTHER` for its only value is open."""
    values = attribute.get("well_known_values") or attribute.get("values") or []
    return attribute["type"] == "enum" and bool(values) and values != ["_OTHER"] and value not in values


def kind_of(name: str, kind: str, recorded: Mapping[str, Any]) -> str | None:
    """Return the convention that a span falls under."""
    sort = "rpc" if telemetry.RPC_SYSTEM_NAME in recorded else name.partition(" ")[0]
    return KINDS.get((sort, kind))


def finished(exporter: InMemorySpanExporter, tracing: Tracing) -> list[tuple[str, str, dict[str, Any], bool]]:
    tracing.shutdown()
    return [
        (
            one.name,
            one.kind.name.lower(),
            dict(one.attributes or {}),
            one.status.status_code is StatusCode.ERROR,
        )
        for one in exporter.get_finished_spans()
    ]


def check_all(listed: Any, recorded: list[tuple[str, str, dict[str, Any], bool]]) -> set[str]:
    """Hold spans against their conventions; return which of them were met."""
    met = set()
    for name, kind, values, failed in recorded:
        convention = kind_of(name, kind, values)
        if convention is not None:
            met.add(convention)
            assert faults(listed, convention, values, failed=failed) == [], name
        else:
            foreign = {key for key in values if not key.startswith(OURS)}
            assert foreign <= registry(listed).keys() | RESOURCE, name
    return met


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Answered(code=0, message="", body=b"", metadata=(), trailers=()), "OK"),
        (Answered(code=5, message="", body=b"", metadata=(), trailers=()), "NOT_FOUND"),
        (Refused(refusal=Refusal(Reason.SPENT)), Status.ALREADY_EXISTS.value),
    ],
)
def test_the_doors_spans_are_of_an_rpc_server_and_of_the_tools_client(
    listed: Any, reply: Any, code: str
) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing("test", exporter=exporter)

    async def receive() -> bytes:
        return b""

    request = Request(
        path="/fin.v1.Finance/IssueRefund", metadata=(), peer="", origin="", deadline_ms=None, receive=receive
    )
    trace = DoorTrace(tracing, request)
    trace.asking(telemetry.SPAN_DECIDE, "[::1]:50051").answered("OK")
    trace.forwarding("unix:/run/tool.sock")
    trace.answered(ToolAnswer(code=getattr(reply, "code", 0)))
    trace.close("door.passed", {}, reply)
    recorded = finished(exporter, tracing)
    assert check_all(listed, recorded) == {KINDS["rpc", "client"], KINDS["rpc", "server"]}
    (server,) = (values for _, kind, values, _ in recorded if kind == "server")
    assert server["rpc.response.status_code"] == code
    assert server["rpc.method"] == "fin.v1.Finance/IssueRefund"
    asked, client = (values for _, kind, values, _ in recorded if kind == "client")
    assert (asked["server.address"], asked["server.port"]) == ("::1", 50051)
    assert client["server.address"] == "/run/tool.sock"
    assert "server.port" not in client


@pytest.mark.parametrize(
    ("answer", "failed"),
    [(Denied("POLICY_DENIED", "no"), False), (Unavailable("BEACON_STALE", "away"), True)],
)
def test_agent_span_is_an_execute_tool_span_and_its_requests_are_rpc_client_spans(
    listed: Any, answer: Exception, failed: bool
) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing("test", exporter=exporter)
    recording, root = spans.begin(
        tracing, "/fin.v1.Finance/IssueRefund", "task_1", "call_1", "spiffe://td/dev/agent/a"
    )
    with (
        pytest.raises(type(answer)),
        spans.ended(root),
        spans.step(recording, root, telemetry.SPAN_DECIDE, "[::1]:50051"),
    ):
        raise answer
    recording.close()
    recorded = finished(exporter, tracing)
    assert check_all(listed, recorded) == {KINDS["rpc", "client"], KINDS["execute_tool", "internal"]}
    assert {one for *_, one in recorded} == {failed}, "a denial is an answer, no decision is none"
    (request,) = (values for _, kind, values, _ in recorded if kind == "client")
    assert (request["server.address"], request["server.port"]) == ("::1", 50051)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"rpc.method": None}, "no rpc.method"),
        ({"server.port": "50051"}, "server.port is a str"),
        ({"rpc.system.name": "smoke"}, "rpc.system.name is 'smoke'"),
        ({"rpc.made_up": "x"}, "rpc.made_up is in no convention"),
        ({"gen_ai.tool.call.arguments": "{}"}, "gen_ai.tool.call.arguments is only for who asks for it"),
        ({"error.type": "X"}, "error.type of what did not fail"),
        ({}, ""),
    ],
)
def test_a_span_that_breaks_its_convention_is_seen(listed: Any, change: dict[str, Any], fault: str) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing("test", exporter=exporter)
    recording = tracing.record(TraceContext("a" * 32, "b" * 16))
    root = recording.span("execute_tool x")
    with spans.step(recording, root, telemetry.SPAN_DECIDE, "127.0.0.1:1"):
        pass
    recording.close()
    values = next(values for _, kind, values, _ in finished(exporter, tracing) if kind == "client")
    values = {name: value for name, value in (values | change).items() if value is not None}
    found = faults(listed, KINDS["rpc", "client"], values, failed=False)
    assert found == ([fault] if fault else [])
