"""Stand-ins for what the door stands on. Each passes the contract tests of the part it stands in for."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from licet.event import EventKind
from licet.permit import DoorState, Permit
from licet.refusal import Reason, Refusal
from licet.v1 import spend_pb2
from licet.v1.decision_pb2 import Decision
from sidecar.exchange import Pairs, Request, ToolAnswer
from sidecar.outcome import Outcome
from sidecar.parts import Forward, Reserved


class FakeClock:
    """Moves when told."""

    def __init__(self, now_ms: int, monotonic_ms: int = 1_000_000) -> None:
        self.now = now_ms
        self.monotonic = monotonic_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.monotonic

    def advance(self, ms: int) -> None:
        self.now += ms
        self.monotonic += ms


class FakeBeacons:
    """Holds a state until another is set."""

    def __init__(self, state: DoorState | None) -> None:
        self._state = state
        self._changed = asyncio.Event()

    def state(self) -> DoorState | None:
        return self._state

    def set(self, state: DoorState) -> None:
        self._state = state
        self._changed.set()
        self._changed = asyncio.Event()

    async def newer(self, than: DoorState, *, timeout_ms: int) -> bool:
        if self._state is not than:
            return True
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_ms / 1000)
        except TimeoutError:
            return False
        return True


class FakeSpend:
    """A write-once store in memory."""

    def __init__(self) -> None:
        self.reserves: dict[tuple[str, int], str] = {}
        self.outcomes: dict[tuple[str, int], str] = {}
        self.refuse: Refusal | None = None
        self.gate: asyncio.Event | None = None
        self._seq = itertools.count(1)

    async def reserve(self, permit: Permit, *, attempt: str) -> Reserved | Refusal:
        if self.gate is not None:
            await self.gate.wait()
        if self.refuse is not None:
            return self.refuse
        key = (permit.spend_id, permit.round)
        if key in self.reserves:
            return Refusal(Reason.SPENT)
        self.reserves[key] = attempt
        return Reserved(next(self._seq))

    def outcome(self, permit: Permit, *, attempt: str, outcome: Outcome, status_code: int) -> None:
        self.outcomes.setdefault((permit.spend_id, permit.round), outcome.value)

    def fenced(
        self, decision: Decision, *, attempt: str, outcome: spend_pb2.Outcome.ValueType, answer: bytes
    ) -> None:
        name = spend_pb2.Outcome.Name(outcome).removeprefix("OUTCOME_")
        self.outcomes.setdefault((decision.spend_id, decision.round), name)


class FakeTool:
    """Keeps what it got and answers what it was told."""

    address = "unix:/run/tool.sock"

    def __init__(self) -> None:
        self.reachable = True
        self.got: list[Forward] = []
        self.answer: ToolAnswer | Callable[[Forward], ToolAnswer] = ToolAnswer(
            code=0, body=b"done", effect="executed"
        )
        self.fault: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.called = asyncio.Event()

    async def ready(self) -> bool:
        return self.reachable

    async def call(self, forward: Forward) -> ToolAnswer:
        self.got.append(forward)
        self.called.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return self.answer(forward) if callable(self.answer) else self.answer


class FakeJournal:
    """Keeps events in memory, and refuses those the real one refuses."""

    def __init__(self) -> None:
        self.full = False
        self.crowded = False
        self.fault: Exception | None = None
        self.events: list[tuple[EventKind, dict[str, Any]]] = []
        self.durable = 0
        """How many events, from the first on, were waited for."""

    async def append(self, kind: EventKind, **fields: Any) -> str:
        event_id = self.spool(kind, **fields)
        self.durable = len(self.events)
        return event_id

    def spool(self, kind: EventKind, **fields: Any) -> str:
        from licet.v1.event_pb2 import Event

        if self.fault is not None:
            raise self.fault
        Event(kind=kind, **fields)
        self.events.append((kind, fields))
        return f"{len(self.events):032x}"


def request(
    path: str,
    body: bytes | Refusal,
    metadata: Pairs = (),
    *,
    peer: str,
    deadline_ms: int | None = None,
    origin: str = "ipv4:127.0.0.1:1",
) -> Request:
    async def receive() -> bytes | Refusal:
        return body

    return Request(
        path=path, metadata=metadata, peer=peer, origin=origin, deadline_ms=deadline_ms, receive=receive
    )
