"""The spans of one call at the door, joined to the caller's trace and linked to the decision.

Guaranteed: the caller's trace id is kept, its sampled flag cannot hide a refusal or a write, and no span
carries arguments, results or permits. Not guaranteed: that a span arrives; audit is what cannot be lost.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from google.rpc import code_pb2
from opentelemetry.trace import SpanKind

from licet import telemetry
from licet.event import EventKind
from licet.permit import Permit
from licet.refusal import Refusal
from licet.tracing import (
    OK,
    Recording,
    Span,
    TraceContext,
    Tracing,
    extract,
    new_span_id,
    parse_traceparent,
    rpc,
)
from sidecar.exchange import Refused, Reply, Request, ToolAnswer, echo

_NAMES: Final[Mapping[int, str]] = {number: name for name, number in code_pb2.Code.items()}

_NOTHING: Final = nullcontext()
_FIELDS: Final = (
    (telemetry.REASON, "reason"),
    (telemetry.DECISION_ID, "decision_id"),
    (telemetry.SPEND_ID, "spend_id"),
    (telemetry.OUTCOME, "outcome"),
)


class DoorTrace:
    """Writes down what happened to one call; `close` keeps or drops the whole."""

    __slots__ = ("_forward", "_live", "_recording", "_root", "_verified_id", "_verify")

    def __init__(self, tracing: Tracing, request: Request) -> None:
        self._live = tracing.live
        self._recording: Recording = tracing.record(extract(request.metadata))
        self._root = self._recording.span(
            echo(request.path.lstrip("/")),
            kind=SpanKind.SERVER,
            attributes=_named(request.path) if self._live else None,
        )
        self._verify: Span | None = None
        self._verified_id = ""
        self._forward: Span | None = None

    def ids(self) -> dict[str, str]:
        """Return trace and span id for the door event: `permit.verify`, else the door's own span."""
        return {"trace_id": self._root.trace_id, "span_id": self._verified_id or self._root.span_id}

    def verified(self, result: Permit | Refusal, beacon_age_ms: int | None) -> None:
        """Write down `permit.verify`, which ends now; linked to the decision's `policy.evaluate`."""
        if not self._live:
            self._verified_id = self._verified_id or new_span_id()
            return
        span = self._verify or self._recording.span(telemetry.SPAN_PERMIT_VERIFY, under=self._root)
        self._verify, self._verified_id = span, span.span_id
        if beacon_age_ms is not None:
            span.set(telemetry.BEACON_AGE_MS, beacon_age_ms)
        if isinstance(result, Refusal):
            span.set(telemetry.REASON, result.reason.value)
        else:
            span.set(telemetry.DECISION_ID, result.decision.decision_id)
            decided = parse_traceparent(result.decision.traceparent)
            if decided is not None:
                span.link(decided)
                self._root.link(decided)
            if result.spends:
                self._recording.keep()
        span.end()

    def spending(self) -> AbstractContextManager[object]:
        """Start `permit.spend`; leaving it as a context ends it."""
        if not self._live:
            return _NOTHING
        return self._recording.span(telemetry.SPAN_PERMIT_SPEND, kind=SpanKind.CLIENT, under=self._root)

    @property
    def seconds(self) -> float:
        """How long the call took, once it is closed."""
        return max(0, self._root.ended_ns - self._root.started_ns) / 1e9

    def here(self) -> TraceContext:
        """Return the context of the door's own span."""
        return self._root.context

    def asking(self, path: str, decider: str) -> Span:
        """Start the span of a request to the decider at an address; whoever asks says how it ended."""
        return self._recording.span(
            path, kind=SpanKind.CLIENT, under=self._root, attributes=rpc(path, decider)
        )

    def forwarding(self, tool: str) -> TraceContext:
        """Start the span of the call to the tool at an address; return what the tool is to hang under."""
        name = self._root.name
        if not self._live:
            return self._root.context.child()
        self._forward = self._recording.span(
            name, kind=SpanKind.CLIENT, under=self._root, attributes=rpc(name, tool)
        )
        return self._forward.context

    def answered(self, answer: ToolAnswer) -> None:
        """Write down how the tool answered, which is now; a refusal of its guard is no failure."""
        if self._forward is not None:
            status = status_name(answer.code)
            self._forward.answered(status, failed=status != OK and not answer.reason)

    def fail(self, error_type: str) -> None:
        """Mark that the door itself failed; a refusal is no failure."""
        self._root.fail(error_type)

    def close(self, kind: str, fields: dict[str, object], reply: Reply) -> None:
        """Finish the spans of the call, and keep them when it was refused or had an outcome."""
        if not self._live:
            self._recording.close()
            return
        known: dict[str, str | int | bool] = {
            telemetry.ENFORCEMENT: kind.rpartition(".")[2],
            telemetry.TOOL_REACHED: kind == EventKind.DOOR_PASSED,
            telemetry.RPC_RESPONSE_STATUS_CODE: (
                reply.refusal.status.value if isinstance(reply, Refused) else status_name(reply.code)
            ),
        }
        if fields.get("spend_id"):
            known[telemetry.SPEND_ROUND] = int(str(fields.get("round", 0)))
        for key, name in _FIELDS:
            value = fields.get(name)
            if isinstance(value, str) and value:
                known[key] = value
        self._root.update(known)
        if isinstance(reply, Refused):
            self._recording.keep()
        self._recording.close()


def _named(path: str) -> Mapping[str, str]:
    return {telemetry.RPC_SYSTEM_NAME: telemetry.GRPC, telemetry.RPC_METHOD: echo(path[1:])}


def status_name(code: int) -> str:
    """Return how gRPC calls a status."""
    return _NAMES.get(code, "UNKNOWN")
