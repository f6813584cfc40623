"""What the door stands on, as the core sees it: each part is a Protocol and can be stood in for by a fake.

A fake counts only when it passes the same contract tests as the real part (tests/contract/sidecar).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from licet.event import EventKind
from licet.permit import DoorState, Permit
from licet.refusal import Refusal
from licet.tracing import TraceContext
from licet.v1 import spend_pb2
from licet.v1.decision_pb2 import Decision
from sidecar.exchange import Pairs, Request, ToolAnswer
from sidecar.outcome import Outcome

if TYPE_CHECKING:
    from sidecar.trace import DoorTrace


class Clock(Protocol):
    """Time, as the core may know it."""

    def now_ms(self) -> int:
        """Return Unix time in ms; may jump."""

    def monotonic_ms(self) -> int:
        """Return ms of a clock that never goes back; its zero means nothing."""


class Beacons(Protocol):
    """What is current: the newest beacon and what it points at."""

    def state(self) -> DoorState | None:
        """Return what the door knows now, replaced as a whole; None before the first beacon."""

    async def newer(self, than: DoorState, *, timeout_ms: int) -> bool:
        """Wait until `state()` is another than `than`; False when that did not happen in time."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """The step is this call's: the store acked the reserve at `seq`."""

    seq: int


class Spend(Protocol):
    """The write-once store of spends (PROTOCOL 3)."""

    async def reserve(self, permit: Permit, *, attempt: str) -> Reserved | Refusal:
        """Use the step up, or say why not. Returns only when it is certain, or when the permit has ended."""

    def outcome(self, permit: Permit, *, attempt: str, outcome: Outcome, status_code: int) -> None:
        """Spool the outcome record; it is published until acked, also after the caller has gone."""


class Journal(Protocol):
    """The process's own event log."""

    @property
    def full(self) -> bool:
        """Whether the spool has no room for the events of writes."""

    @property
    def crowded(self) -> bool:
        """Whether refusals are to be counted rather than told one by one: half the spool waits."""

    def spool(self, kind: EventKind, **fields: Any) -> str:
        """Return the event id; the event is in the spool: no kill of the process loses it."""

    async def append(self, kind: EventKind, **fields: Any) -> str:
        """Return the event id once the event is in the fsynced spool: no loss of power loses it."""


class Tool(Protocol):
    """The tool behind the door."""

    @property
    def address(self) -> str:
        """Where it listens, as gRPC spells it."""

    async def ready(self) -> bool:
        """Return whether a connection stands, after a moment's wait; False uses no step up."""

    async def call(self, forward: "Forward") -> ToolAnswer:
        """Make the call and return how it ended; never raises for what the tool or the connection did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """One verified call on its way to the tool. There is none without a `Permit`.

    Attributes:
        permit: What verification returned; its `arguments.canonical` is what is sent.
        attempt: 32 lower hex digits, this one try.
        trace: Trace context for the tool.
        timeout_ms: How long the tool may take.
        request: Server streaming: where messages go.
    """

    permit: Permit
    attempt: str
    trace: TraceContext | None
    timeout_ms: int
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Obtained:
    """Decide on call: the permit that came back, and what travels with it."""

    permit: bytes
    approvals: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """Decide on call: no permit. `safe` and `trailers` may be told to the caller."""

    refusal: Refusal
    safe: tuple[tuple[str, str], ...] = ()
    trailers: Pairs = ()


class Decider(Protocol):
    """Whom the door asks when the catalog lets it and no permit came (PROTOCOL 2.8)."""

    async def decide(
        self, request: Request, body: bytes, *, call_id: str, trace: "DoorTrace"
    ) -> Obtained | Denied:
        """Ask with the exact bytes and the authenticated peer; never raises for what the decider did.

        The request is a span of `trace`.
        """


class Meter(Protocol):
    """What is counted of calls."""

    def concluded(
        self, *, enforcement: str, reason: str, outcome: str, seconds: float, trace: TraceContext
    ) -> None:
        """Count one call that has ended; neither waits nor raises."""


class FenceOutcomes(Protocol):
    """Where the outcome that a fence found is written."""

    def fenced(
        self, decision: Decision, *, attempt: str, outcome: spend_pb2.Outcome.ValueType, answer: bytes
    ) -> None:
        """Spool the outcome record, with the guard's answer; published until acked."""


class Fences(Protocol):
    """How a round is closed on behalf of the reconciler (PROTOCOL 3.5)."""

    async def fence(self, body: bytes) -> "Fenced | Refusal":
        """Ask the guard, and spool the outcome record it leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """The guard's answer, and whose round it was."""

    answer: bytes
    spend_id: str
    round: int
    decision_id: str
    outcome: str
