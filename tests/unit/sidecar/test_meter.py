"""The core tells its meter of every call once, however it ends, and its log lines lead to the trace."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from licet.tracing import TraceContext
from sidecar.core import Door
from tests.unit.sidecar.conftest import World
from tests.worlds.fakes import request
from tests.worlds.log_lines import log_lines
from tests.worlds.mint import AGENT, REFUND

pytestmark = pytest.mark.asyncio


class Counted:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.traces: list[TraceContext] = []

    def concluded(
        self, *, enforcement: str, reason: str, outcome: str, seconds: float, trace: TraceContext
    ) -> None:
        assert seconds >= 0
        self.calls.append((enforcement, reason, outcome))
        self.traces.append(trace)


@pytest.fixture
def counted(world: World) -> Counted:
    made = Counted()
    world.door = Door(replace(world.door._parts, meter=made))
    return made


async def test_each_call_is_counted_once_by_how_it_ended(world: World, counted: Counted) -> None:
    permit = world.mint.permit()
    await world.call(permit)
    await world.call(permit)
    await world.call()
    assert counted.calls == [
        ("passed", "", "EXECUTED"),
        ("refused", "SPENT", ""),
        ("refused", "NO_PERMIT", ""),
    ]


async def test_a_fault_is_counted_and_its_log_line_leads_to_the_trace(
    world: World, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a fault of the store")

    world.spend.reserve = broken  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        await world.call(world.mint.permit())
    assert counted.calls == [("refused", "INTERNAL", "")]
    (line,) = (record for record in caplog.records if record.getMessage() == "door.fault")
    fields: dict[str, Any] = line.licet_fields  # type: ignore[attr-defined]
    assert fields["trace_id"] == counted.traces[0].trace_id == world.event[1]["trace_id"]
    assert "a fault of the store" not in str(fields)


async def test_every_line_of_a_call_has_its_trace(world: World, counted: Counted) -> None:
    """Whoever reads one line must find the call, also where the request could not even be built."""

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a fault of the store")

    world.spend.reserve = broken  # type: ignore[method-assign]
    with log_lines() as lines:
        await world.call(world.mint.permit())
        await world.door.handle(replace(request(REFUND, b"", peer=AGENT), fault="ValueError"))
    assert [one["event"] for one in lines] == ["door.fault", "door.fault", "door.request_fault"]
    assert [one["trace_id"] for one in lines] == [counted.traces[n].trace_id for n in (0, 0, 1)]
    assert counted.traces[0].trace_id != counted.traces[1].trace_id


async def test_an_event_that_is_lost_is_counted_as_what_the_caller_heard(
    world: World, counted: Counted
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError("no space left")

    world.journal.spool = full  # type: ignore[method-assign]
    await world.call(world.mint.permit())
    assert counted.calls == [("passed", "OUTCOME_UNKNOWN", "EXECUTED")]
