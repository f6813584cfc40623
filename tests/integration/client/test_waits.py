"""A held call that goes on once people answered: its wait is a trace of its own, linked at both ends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from examples.refund.fin.v1 import finance_pb2_grpc
from licet import telemetry
from licet.client import AsyncClient, Client, Held, Step, Unavailable
from licet.client.exchange import answered
from licet.client.spans import MAX_WAITS, Waits
from licet.embedded.otlp_receiver import OtlpReceiver
from licet.embedded.trace_store import TraceStore
from licet.metadata import DEV_IDENTITY
from licet.tracing import TraceContext, Tracing, inject
from licet.v1 import decider_pb2
from licet.v1.decider_pb2 import DecideResponse
from licet.v1.decision_pb2 import CODEC_PROTOBUF, DECISION_TYPE_ALLOW, DECISION_TYPE_HOLD, Decision
from licet.v1.hold_pb2 import Hold
from tests.integration.client.test_client import door, request
from tests.integration.decider.test_holds import desk_of, held
from tests.integration.decider.test_waiting import decided
from tests.worlds.decisions import REFUND, REFUND_BOT, Ground, House, furnish, refund

__all__ = ["door"]
CALL = "call-1"
ONE, TWO = f"00-{'a' * 32}-{1:016x}-01", f"00-{'b' * 32}-{2:016x}-01"


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


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["sync", "aio"])
async def test_wait_for_people_outlives_a_store_that_is_away(
    house: House, door: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("client", "aio"):
        monkeypatch.setattr(f"licet.client.{module}.POLL_S", 0.05)
    desk = await desk_of(house)
    where: dict[str, Any] = {
        "decider": f"127.0.0.1:{house.process.port}",
        "tools": {"finance": f"127.0.0.1:{door.port}"},
        "identity": REFUND_BOT,
    }
    step = Step(REFUND, refund(minor=82_000), "task_789", CALL)
    client: Any = AsyncClient(**where) if kind == "aio" else Client(**where)

    async def run(call: Any, *args: Any) -> Any:
        return await call(*args) if kind == "aio" else await asyncio.to_thread(call, *args)

    with pytest.raises(Held) as hold:
        await run(client.decide, step)
    house.ground.nats.stop()
    failed = house.process._journal.seq
    with pytest.raises(Unavailable):
        await run(hold.value.wait, 0.0)
    waiting = asyncio.ensure_future(run(hold.value.wait, 60))
    async with asyncio.timeout(60):
        while house.process._journal.seq < failed + 2:  # noqa: ASYNC110 - it was told so while it waited
            await asyncio.sleep(0.01)
    house.ground.nats.start()
    await desk.answer((await decided(house, request=step.body, call_id=CALL)).hold, "lena")
    await waiting
    assert (await run(client.decide, step)).decision.hold_id == hold.value.hold_id
    await run(client.close)


def test_waits_are_forgotten_past_their_cap() -> None:
    waits, tracing = Waits(), Tracing("test")
    for number in range(MAX_WAITS + 1):
        with waits.wait(tracing, "task", f"call-{number}", ()):
            pass
    assert waits.of("task", "call-0") == ()
    assert len(waits.of("task", "call-1")) == 1
    assert waits.of("task", "call-1") == (), "linked once"


@pytest.mark.parametrize(
    ("now", "first", "links"),
    [("no", "", []), (ONE, ONE, [1]), (TWO, ONE, [2, 1]), (TWO, "no", [2]), ("", ONE, [1])],
)
def test_a_hold_links_to_the_latest_decision_and_the_first_and_a_broken_one_nowhere(
    now: str, first: str, links: list[int]
) -> None:
    waited: list[tuple[TraceContext, ...]] = []
    response = DecideResponse(decision=DECISION_TYPE_HOLD, hold=Hold(traceparent=first))
    response.signed.payload = Decision(traceparent=now).SerializeToString()
    with pytest.raises(Held) as hold:
        answered(response, b"", lambda _, held: waited.append(held))
    hold.value.wait()
    assert [int(one.span_id, 16) for one in waited[0]] == links


@pytest.mark.asyncio
async def test_the_link_survives_the_process_that_asked(ground: Ground, tmp_path: Path) -> None:
    """Whoever restores a checkpoint elsewhere has no memory of the first try; the hold has."""
    store = TraceStore(tmp_path / "traces.db")
    receiver = OtlpReceiver(store)
    receiver.start()
    house = await furnish(ground, otlp_endpoint=receiver.endpoint)
    desk = await desk_of(house)
    first, wait, resumed = "1" * 32, "2" * 32, "3" * 32

    async def decide(trace_id: str) -> Any:
        asked = decider_pb2.DecideRequest(
            method=REFUND,
            request=refund(minor=82_000),
            codec=CODEC_PROTOBUF,
            task_id="task_789",
            call_id=CALL,
        )
        sent = ((DEV_IDENTITY, REFUND_BOT), *inject(TraceContext(trace_id, "4" * 16, sampled=False)))
        return await house.stub.Decide(asked, metadata=sent, timeout=10)

    asked = (await decide(first)).hold
    assert (await decide(wait)).hold == asked, "the record is the first one's, to the byte"
    await desk.answer(asked, "lena")
    assert (await decide(resumed)).decision == DECISION_TYPE_ALLOW
    events = [event for event in await house.events() if event.hold_id == asked.hold_id]
    await house.close()
    receiver.stop()
    spans = {
        trace_id: {one.name: one for one in store.trace(trace_id)} for trace_id in (first, wait, resumed)
    }
    store.close()
    origin = spans[first][telemetry.SPAN_POLICY_EVALUATE]
    assert spans[first][telemetry.SPAN_DECIDE].links == ()
    for later in (wait, resumed):
        assert spans[later][telemetry.SPAN_DECIDE].links == ((first, origin.span_id),), "linked"
        assert spans[later][telemetry.SPAN_DECIDE].parent_id == "4" * 16, (
            "and a child of its own caller alone"
        )
    traced = {event.kind: event.trace_id for event in events if event.kind.startswith("approval.")}
    assert traced == {"approval.requested": first, "approval.voted": first}
