"""What a tool writes in its errors is for its caller alone: no log line, span or event repeats it."""

import secrets
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from licet.tracing import Tracing
from sidecar.core import Door
from sidecar.exchange import Answered, ToolAnswer
from tests.unit.sidecar.conftest import World, reason
from tests.worlds.log_lines import log_lines

pytestmark = pytest.mark.asyncio

CANARY = f"canary{secrets.token_hex(12)}"
BESIDE = (("authorization", f"Bearer {CANARY}"), ("x-note-bin", CANARY.encode()), ("baggage", f"k={CANARY}"))


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(world: World, exporter: InMemorySpanExporter) -> Tracing:
    made = Tracing("test", exporter=exporter)
    world.door = Door(replace(world.door._parts, tracing=made))
    return made


async def test_a_tools_error_reaches_its_caller_and_nobody_else(
    world: World, tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    world.tool.answer = ToolAnswer(
        code=13, message=f"cannot read {CANARY}", metadata=(("x-why", CANARY),), trailers=(("x-row", CANARY),)
    )
    with log_lines() as lines:
        reply = await world.call(world.mint.permit(), metadata=BESIDE)
    tracing.shutdown()
    assert isinstance(reply, Answered)
    assert CANARY in reply.message, "the caller is told"
    spans = exporter.get_finished_spans()
    assert any(one.attributes and "INTERNAL" in one.attributes.values() for one in spans)
    found = {"logs": lines, "events": world.journal.events, "spans": [one.to_json() for one in spans]}
    assert [name for name, text in found.items() if CANARY in str(text)] == []


async def test_a_tools_answer_reaches_its_caller_and_nobody_else(
    world: World, tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    """What a tool answers is kept nowhere, not even sealed (docs/adr/0175)."""
    world.tool.answer = ToolAnswer(
        code=0,
        body=CANARY.encode(),
        metadata=(("x-why", CANARY),),
        trailers=(("x-row", CANARY),),
        effect="executed",
    )
    with log_lines() as lines:
        reply = await world.call(world.mint.permit(), metadata=BESIDE)
    tracing.shutdown()
    assert isinstance(reply, Answered)
    assert reply.body == CANARY.encode(), "the caller is told"
    assert world.journal.events, "and there is an event"
    spans = [one.to_json() for one in exporter.get_finished_spans()]
    found = {"logs": lines, "events": world.journal.events, "spans": spans}
    assert [
        name for name, text in found.items() if CANARY in str(text) or CANARY.encode().hex() in str(text)
    ] == []


async def test_a_fault_that_quotes_an_argument_is_told_by_its_type_alone(
    world: World, tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    world.tool.fault = ValueError(f"cannot read {CANARY}")
    with log_lines() as lines:
        reply = await world.call(world.mint.permit(), metadata=BESIDE)
    tracing.shutdown()
    assert reason(reply) == "OUTCOME_UNKNOWN"
    spans = exporter.get_finished_spans()
    assert [one["event"] for one in lines] == ["door.fault", "door.fault"]
    assert any(one.attributes and one.attributes.get("error.type") == "ValueError" for one in spans)
    found = {"logs": lines, "events": world.journal.events, "spans": [one.to_json() for one in spans]}
    assert [name for name, text in found.items() if CANARY in str(text) + str(reply)] == []
