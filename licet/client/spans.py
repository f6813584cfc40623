"""The agent's span around a gated call: `execute_tool <name>`, by OpenTelemetry's GenAI conventions."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import grpc
from opentelemetry import trace as otel
from opentelemetry.trace import SpanKind

from licet import telemetry
from licet.client.errors import Denied, GateError, Held, Refused
from licet.tracing import OK, Recording, Span, TraceContext, Tracing, rpc

MAX_WAITS: Final = 1024
UNKNOWN: Final = "UNKNOWN"
_ANSWERS: Final = (Denied, Held, Refused)


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


class Waits:
    """Which steps waited for people, and under which span: the decision that follows links to it.

    Not guaranteed: more than the `MAX_WAITS` newest. A wait in another process is not known here; the hold
    names the decision that asked first, and decider and waits link to that one wherever they run.
    """

    def __init__(self) -> None:
        self._spans: OrderedDict[tuple[str, str], TraceContext] = OrderedDict()

    @contextmanager
    def wait(self, tracing: Tracing, task: str, call_id: str, held: Sequence[TraceContext]) -> Iterator[Span]:
        """Record a wait as a trace of its own, linked to the decisions that hold the call."""
        recording = tracing.record()
        span = recording.span(telemetry.SPAN_APPROVAL_WAIT, links=held)
        span.set(telemetry.TASK_ID, task)
        span.set(telemetry.GEN_AI_TOOL_CALL_ID, call_id)
        self._spans[task, call_id] = span.context
        while len(self._spans) > MAX_WAITS:
            self._spans.popitem(last=False)
        try:
            yield span
        except GateError as answer:
            span.set(telemetry.REASON, answer.reason)
            raise
        finally:
            recording.close()

    def of(self, task: str, call_id: str) -> tuple[TraceContext, ...]:
        """Return the wait that the next decision on a step links to, once."""
        found = self._spans.pop((task, call_id), None)
        return (found,) if found is not None else ()


@contextmanager
def step(
    recording: Recording, span: Span, name: str, server: str, links: Sequence[TraceContext] = ()
) -> Iterator[Span]:
    """Record one request to `server` under the agent's span, and what it ended with.

    A denial, a hold, a refusal are answers, no errors. A request may be made again: what the agent's span
    itself ends with is said by `ended`.
    """
    made = recording.span(name, kind=SpanKind.CLIENT, under=span, links=links, attributes=rpc(name, server))
    try:
        yield made
    except GateError as error:
        made.set(telemetry.RPC_RESPONSE_STATUS_CODE, _status(error.__cause__))
        _judge(made, error)
        raise
    except grpc.RpcError as error:  # the tool's own answer
        made.answered(_status(error), failed=True)
        raise
    except BaseException as error:
        made.answered(UNKNOWN)
        made.fail(type(error).__name__)
        raise
    else:
        made.answered(OK)
    finally:
        made.end()


@contextmanager
def ended(span: Span) -> Iterator[None]:
    """Say on the agent's span with what its call ended, where that was no answer of the tool."""
    try:
        yield
    except GateError as error:
        _judge(span, error)
        raise
    except grpc.RpcError as error:
        span.fail(_status(error))
        raise
    except BaseException as error:
        span.fail(type(error).__name__)
        raise


def _judge(span: Span, error: GateError) -> None:
    span.set(telemetry.REASON, error.reason)
    if not isinstance(error, _ANSWERS):
        span.fail(error.reason)


def _status(error: BaseException | None) -> str:
    """Return the status that the RPC ended with; a decision that is no permit came with OK."""
    return str(error.code().name) if isinstance(error, grpc.RpcError) else OK
