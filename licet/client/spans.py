"""The agent's span around a gated call: `execute_tool <name>`, by OpenTelemetry's GenAI conventions."""

from opentelemetry import trace as otel
from opentelemetry.trace import SpanKind

from licet import telemetry
from licet.tracing import Recording, Span, TraceContext, Tracing


def current() -> TraceContext | None:
    """Return the span that the agent's own instrumentation has open; None where there is none."""
    context = otel.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    ids = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    return TraceContext(*ids, sampled=bool(context.trace_flags.sampled))


def begin(tracing: Tracing, method: str, task: str, call_id: str, agent: str) -> tuple[Recording, Span]:
    """Start the recording of one gated call; the caller closes it."""
    recording = tracing.record(current())
    name = method.rsplit("/", 1)[-1]
    attributes: dict[str, str | bool | int | float | tuple[str, ...]] = {
        telemetry.GEN_AI_OPERATION_NAME: telemetry.EXECUTE_TOOL,
        telemetry.GEN_AI_TOOL_NAME: name,
        telemetry.GEN_AI_TOOL_CALL_ID: call_id,
        telemetry.TASK_ID: task,
    }
    if agent:
        attributes[telemetry.GEN_AI_AGENT_ID] = agent
    span = recording.span(f"{telemetry.SPAN_EXECUTE_TOOL} {name}", attributes=attributes)
    return recording, span


def step(recording: Recording, span: Span, name: str) -> Span:
    """Start the client span of one request under the agent's."""
    made = recording.span(name, kind=SpanKind.CLIENT, under=span)
    made.set(telemetry.RPC_SYSTEM_NAME, telemetry.GRPC)
    made.set(telemetry.RPC_METHOD, name)
    return made
