"""The agent's span around a gated call: `execute_tool <name>`, by OpenTelemetry's GenAI conventions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import grpc
from opentelemetry import trace as otel
from opentelemetry.trace import SpanKind

from licet import telemetry
from licet.client.errors import Denied, GateError, Held, Refused
from licet.tracing import Recording, Span, TraceContext, Tracing

OK: Final = "OK"
_ANSWERS: Final = (Denied, Held, Refused)
_RPC: Final = {telemetry.RPC_SYSTEM_NAME: telemetry.GRPC}


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


@contextmanager
def step(recording: Recording, span: Span, name: str) -> Iterator[Span]:
    """Record one request under the agent's span. A denial, a hold, a refusal are answers, no errors."""
    made = recording.span(name, kind=SpanKind.CLIENT, under=span, attributes=_RPC)
    made.set(telemetry.RPC_METHOD, name)
    try:
        yield made
    except GateError as error:
        made.set(telemetry.RPC_RESPONSE_STATUS_CODE, _status(error.__cause__))
        made.set(telemetry.REASON, error.reason)
        if not isinstance(error, _ANSWERS):
            made.fail(error.reason)
        raise
    except grpc.RpcError as error:  # the tool's own answer
        made.set(telemetry.RPC_RESPONSE_STATUS_CODE, _status(error))
        made.fail(_status(error))
        raise
    except BaseException as error:
        made.fail(type(error).__name__)
        raise
    else:
        made.set(telemetry.RPC_RESPONSE_STATUS_CODE, OK)
    finally:
        made.end()


def _status(error: BaseException | None) -> str:
    """Return the status that the RPC ended with; a decision that is no permit came with OK."""
    return str(error.code().name) if isinstance(error, grpc.RpcError) else OK
