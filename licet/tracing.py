"""Spans of one call in one process, made cheaply and kept or dropped as a whole.

Guarantees
- The trace id of the caller is kept; `tracestate` is capped; baggage is never read, so it cannot travel on.
- A caller's sampled flag can add a trace but cannot hide one: `Recording.keep` overrules it.
- Nothing here blocks or grows: ended spans go to a bounded queue that drops when the collector is away.
- Times are Unix ns; ids are W3C: 32 and 16 lower hex digits.

Not guaranteed: that a span arrives. Audit is what cannot be lost; a trace is the way to read it.

Spans are written down after the fact as `ReadableSpan`: an SDK span on the path costs several times more,
also when it is not sampled (docs/adr/0010-spans-after-the-fact.md).
"""

import functools
import random
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Final, Self

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from licet import __version__, telemetry
from licet.clock import wall_ns

type_attribute = str | bool | int | float | tuple[str, ...]

_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})\Z")
_SAMPLED: Final = 1
OK: Final = "OK"
SERVER_FAILURES: Final = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
"""How an RPC ends when its server failed; any other status is the caller's to judge (OpenTelemetry, gRPC)."""
_SCOPE: Final = InstrumentationScope(telemetry.SCOPE, __version__, telemetry.SCHEMA_URL)
_MAX_QUEUE: Final = 4096
_BATCH: Final = 256
_EXPORT_TIMEOUT_MS: Final = 2000
_DELAY_MS: Final = 500


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Where a span hangs: W3C trace and span id, whether its caller sampled it, a capped tracestate."""

    trace_id: str
    span_id: str
    sampled: bool = True
    tracestate: str = ""

    @property
    def traceparent(self) -> str:
        """The W3C `traceparent` header value."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def child(self) -> "TraceContext":
        """Return where something below hangs that is no span of ours: of the same trace, with a new id."""
        return TraceContext(self.trace_id, new_span_id(), self.sampled, self.tracestate)


def new_span_id() -> str:
    """Return an id that no other span has; it is no secret."""
    return f"{random.getrandbits(64) or 1:016x}"


def parse_traceparent(text: str, tracestate: str = "") -> TraceContext | None:
    """Read a `traceparent`; None for anything that is not exactly version 00 with non-zero ids.

    Source: W3C Trace Context 3.2. A malformed header starts a new trace; it never refuses a call.
    """
    match = _TRACEPARENT.match(text)
    if match is None:
        return None
    trace_id, span_id, flags = match.groups()
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    state = tracestate if len(tracestate) <= telemetry.MAX_TRACESTATE_BYTES and tracestate.isascii() else ""
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED), state)


def extract(metadata: Iterable[tuple[str, str | bytes]]) -> TraceContext | None:
    """Find the trace context in gRPC metadata; None where there is none, or more than one."""
    parents: list[str] = []
    state = ""
    for key, value in metadata:
        if key == telemetry.TRACEPARENT and isinstance(value, str):
            parents.append(value)
        elif key == telemetry.TRACESTATE and isinstance(value, str):
            state = value
    return parse_traceparent(parents[0], state) if len(parents) == 1 else None


def inject(context: TraceContext) -> tuple[tuple[str, str], ...]:
    """Give the gRPC metadata that carries a trace context."""
    parent = ((telemetry.TRACEPARENT, context.traceparent),)
    return (*parent, (telemetry.TRACESTATE, context.tracestate)) if context.tracestate else parent


@functools.lru_cache(maxsize=1024)
def rpc(method: str, server: str = "") -> Mapping[str, type_attribute]:
    """Return the attributes of an RPC's span; `server` is whom a client asks: host:port, or unix:path."""
    attributes: dict[str, type_attribute] = {
        telemetry.RPC_SYSTEM_NAME: telemetry.GRPC,
        telemetry.RPC_METHOD: method.removeprefix("/"),
    }
    host, _, port = server.rpartition(":")
    if server.startswith("unix:"):
        attributes[telemetry.SERVER_ADDRESS] = server.removeprefix("unix:")
    elif port.isascii() and port.isdigit():
        attributes[telemetry.SERVER_ADDRESS] = host.strip("[]")
        attributes[telemetry.SERVER_PORT] = int(port)
    elif server:
        attributes[telemetry.SERVER_ADDRESS] = server
    return MappingProxyType(attributes)


class Span:
    """One span of a recording; ends once, at the latest with its recording."""

    __slots__ = (
        "_attributes",
        "_context",
        "_error",
        "_given",
        "_links",
        "_state",
        "_under",
        "ended_ns",
        "kind",
        "name",
        "span_id",
        "started_ns",
        "trace_id",
    )

    def __init__(
        self,
        name: str,
        kind: SpanKind,
        trace_id: str,
        under: "Span | TraceContext | None",
        links: Sequence[TraceContext],
        *,
        attributes: Mapping[str, type_attribute] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.trace_id = trace_id
        self.span_id = new_span_id()
        self.started_ns = wall_ns()
        self.ended_ns = 0
        self._under = under
        self._context: TraceContext | None = None  # most spans are never asked for it
        self._links = links
        self._given = attributes  # shared with its giver
        self._attributes: dict[str, type_attribute] = {}
        self._error = ""

    @property
    def context(self) -> TraceContext:
        """Where what belongs below this span hangs."""
        if self._context is None:
            parent = self.parent
            state = parent.tracestate if parent is not None else ""
            self._context = TraceContext(self.trace_id, self.span_id, sampled=True, tracestate=state)
        return self._context

    @property
    def parent(self) -> TraceContext | None:
        """Where this span hangs; None for the first of a trace."""
        return self._under.context if isinstance(self._under, Span) else self._under

    def set(self, key: str, value: type_attribute) -> None:
        """Set an attribute; the key is a constant of `licet.telemetry`."""
        self._attributes[key] = value

    def update(self, attributes: Mapping[str, type_attribute]) -> None:
        """Set several attributes."""
        self._attributes.update(attributes)

    def link(self, context: TraceContext) -> None:
        """Point at another span without becoming its child."""
        self._links = (*self._links, context)

    def fail(self, error_type: str) -> None:
        """Mark that enforcement or a part failed. A refusal is no failure and is not marked."""
        self._error = error_type
        self._attributes[telemetry.ERROR_TYPE] = error_type

    def answered(self, status: str, *, failed: bool = False) -> None:
        """Say with which status the RPC ended, such as `NOT_FOUND`, and whether that is a failure; end."""
        self._attributes[telemetry.RPC_RESPONSE_STATUS_CODE] = status
        if failed:
            self.fail(status)
        self.end()

    def end(self) -> None:
        """End now; a second call changes nothing."""
        if not self.ended_ns:
            self.ended_ns = wall_ns()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self._error:
            self.fail(kind.__name__)
        self.end()

    def readable(self, resource: Resource) -> ReadableSpan:
        """Give the span as the SDK's exporters read it."""
        return ReadableSpan(
            name=self.name,
            context=_span_context(self.context),
            parent=_span_context(self.parent) if self.parent else None,
            resource=resource,
            attributes={**self._given, **self._attributes} if self._given else self._attributes,
            links=[Link(_span_context(one)) for one in self._links],
            kind=self.kind,
            status=Status(StatusCode.ERROR, self._error) if self._error else Status(StatusCode.UNSET),
            start_time=self.started_ns,
            end_time=self.ended_ns,
            instrumentation_scope=_SCOPE,
        )


class Recording:
    """The spans of one call in one process. `close` keeps all or drops all.

    Kept when the caller sampled the trace, when there is no caller, or when `keep` was called: every deny,
    hold and write is kept whatever the caller's flag says.
    """

    __slots__ = ("_keep", "_spans", "_tracing", "parent", "trace_id")

    def __init__(self, tracing: "Tracing", parent: TraceContext | None) -> None:
        self.parent = parent
        self.trace_id: str = parent.trace_id if parent else f"{random.getrandbits(128) or 1:032x}"
        self._tracing = tracing
        self._spans: list[Span] = []
        self._keep = parent is None or parent.sampled

    def span(
        self,
        name: str,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        under: Span | None = None,
        links: Sequence[TraceContext] = (),
        attributes: Mapping[str, type_attribute] | None = None,
    ) -> Span:
        """Start a span: under another of this recording, else under the caller's."""
        above = under if under is not None else self.parent
        span = Span(name, kind, self.trace_id, above, links, attributes=attributes)
        self._spans.append(span)
        if self.parent is None:
            self.parent = span.context  # the first span of a trace without a caller is the parent of the rest
        return span

    def keep(self) -> None:
        """Keep this recording whatever the caller's sampled flag says."""
        self._keep = True

    def close(self) -> None:
        """End every span and hand them over, or drop them; a second call does nothing."""
        spans, self._spans = self._spans, []
        for span in spans:
            span.end()
        if self._keep:
            self._tracing.export(spans)


class Tracing:
    """Where a process's spans go. Without an exporter they are made, carry ids, and go nowhere."""

    __slots__ = ("_exporter", "_processor", "_resource")

    def __init__(self, service: str, instance: str = "", exporter: SpanExporter | None = None) -> None:
        attributes: dict[str, str] = {telemetry.SERVICE_NAME: service, telemetry.SERVICE_VERSION: __version__}
        if instance:
            attributes[telemetry.SERVICE_INSTANCE_ID] = instance
        self._resource = Resource(attributes, telemetry.SCHEMA_URL)
        self._exporter = exporter
        self._processor = _processor(exporter) if exporter is not None else None

    @property
    def live(self) -> bool:
        """Whether spans go anywhere: where they do not, nothing need be said in them."""
        return self._processor is not None

    def record(self, parent: TraceContext | None = None) -> Recording:
        """Begin the spans of one call."""
        return Recording(self, parent)

    def export(self, spans: Iterable[Span]) -> None:
        """Queue ended spans; never blocks, drops the oldest when the queue is full."""
        if self._processor is not None:
            for span in spans:
                self._processor.on_end(span.readable(self._resource))

    def shutdown(self) -> None:
        """Flush for at most two seconds and stop; what a silent collector did not take by then is dropped."""
        if self._processor is None or self._exporter is None:
            return
        flushing = threading.Thread(target=self._processor.force_flush, daemon=True)  # it takes no timeout
        flushing.start()
        flushing.join(_EXPORT_TIMEOUT_MS / 1000)
        if flushing.is_alive():
            self._exporter.shutdown()  # what is on its way ends now, and the rest of the queue fails at once
        self._processor.shutdown()  # type: ignore[no-untyped-call] # the SDK leaves it untyped
        self._processor = None


def configure(service: str, endpoint: str | None, instance: str = "") -> Tracing:
    """Trace to an OTLP/gRPC endpoint (`http://host:port`), or to nowhere when there is none."""
    if not endpoint:
        return Tracing(service, instance)
    # Imported here so that a process that traces to nowhere does not load the exporter.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    insecure = endpoint.startswith("http://")
    return Tracing(
        service, instance, OTLPSpanExporter(endpoint, insecure=insecure, timeout=_EXPORT_TIMEOUT_MS / 1000)
    )


def _processor(exporter: SpanExporter) -> BatchSpanProcessor:
    return BatchSpanProcessor(
        exporter,
        max_queue_size=_MAX_QUEUE,
        schedule_delay_millis=_DELAY_MS,
        max_export_batch_size=_BATCH,
        export_timeout_millis=_EXPORT_TIMEOUT_MS,
    )


def _span_context(context: TraceContext) -> SpanContext:
    state = TraceState.from_header([context.tracestate]) if context.tracestate else None
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=False,
        trace_flags=flags,
        trace_state=state,
    )
