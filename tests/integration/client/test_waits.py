"""A held call that goes on once people answered: its wait is a trace of its own, linked at both ends."""

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from examples.refund.fin.v1 import finance_pb2_grpc
from licet import telemetry
from licet.client import AsyncClient, Client, Held
from licet.client.spans import MAX_WAITS, Waits
from licet.tracing import TraceContext, Tracing, parse_traceparent
from licet.v1.decision_pb2 import Decision
from tests.integration.client.test_client import door, request
from tests.integration.decider.test_holds import desk_of, held
from tests.worlds.decisions import REFUND_BOT, House

__all__ = ["door"]
CALL = "call-1"


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["sync", "aio"])
async def test_wait_links_to_the_decision_that_held_and_the_next_decision_to_the_wait(
    house: House, door: Any, kind: str
) -> None:
    desk = await desk_of(house)
    exporter = InMemorySpanExporter()
    where: dict[str, Any] = {
        "decider": f"127.0.0.1:{house.process.port}",
        "tools": {"finance": f"127.0.0.1:{door.port}"},
        "identity": REFUND_BOT,
        "tracing": Tracing("agent", exporter=exporter),
    }
    client = AsyncClient(**where) if kind == "aio" else Client(**where)
    stub: Any = client.stub(finance_pb2_grpc.FinanceStub, task="task_789")

    async def run(call: Any, *args: Any, **fields: Any) -> Any:
        result = await asyncio.to_thread(call, *args, **fields) if kind == "sync" else call(*args, **fields)
        return await result if kind == "aio" else result

    with pytest.raises(Held) as hold:
        await run(stub.IssueRefund, request(minor=82_000), call_id=CALL)
    await desk.answer(await held(house, call_id=CALL), "lena")
    await run(hold.value.wait, 10)
    await run(stub.IssueRefund, request(minor=82_000), call_id=CALL)
    await run(stub.IssueRefund, request(minor=100), call_id="call-2")
    await asyncio.to_thread(where["tracing"].shutdown)

    spans = exporter.get_finished_spans()
    (wait,) = (one for one in spans if one.name == telemetry.SPAN_APPROVAL_WAIT)
    assert wait.parent is None
    assert wait.status.is_unset
    (first,) = [event for event in await house.events() if event.kind == "decision.held"][1:2]
    assert [f"{link.context.span_id:016x}" for link in wait.links] == [first.span_id]
    decided = [one for one in spans if one.name == telemetry.SPAN_DECIDE]
    linked = [[link.context.span_id for link in one.links] for one in decided]
    assert wait.context is not None
    assert linked == [[], [wait.context.span_id], []], "once, and only the step that waited"
    if kind == "aio":
        await client.close()  # type: ignore[misc]
    else:
        client.close()  # type: ignore[unused-coroutine]


def test_waits_are_forgotten_past_their_cap() -> None:
    waits, tracing = Waits(), Tracing("test")
    for number in range(MAX_WAITS + 1):
        with waits.wait(tracing, "task", f"call-{number}", None):
            pass
    assert waits.of("task", "call-0") == ()
    assert len(waits.of("task", "call-1")) == 1
    assert waits.of("task", "call-1") == (), "linked once"


def test_a_broken_traceparent_of_a_hold_links_nowhere() -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing("test", exporter=exporter)
    context: TraceContext | None = parse_traceparent(Decision(traceparent="no").traceparent)
    with Waits().wait(tracing, "task", "call", context):
        pass
    tracing.shutdown()
    (span,) = exporter.get_finished_spans()
    assert list(span.links) == []
