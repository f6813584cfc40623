"""A method of the tool, executed under its permits: from a gRPC handler's call to the guard and back."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import grpc
from google.protobuf.message import Message
from opentelemetry.trace import SpanKind

from licet import metadata, telemetry
from licet.guard.guard import Call, Done, Effect, Guard
from licet.guard.ledger import CommitUnknown, LedgerUnavailable
from licet.guard.status import EXECUTED, NONE, STORED, abort
from licet.guard.step import Spend
from licet.log import of_trace
from licet.permit import Presented
from licet.refusal import Reason, Refusal
from licet.tracing import OK, SERVER_FAILURES, Recording, Span, TraceContext, Tracing, extract, rpc

ReplyT = TypeVar("ReplyT", bound=Message)

UNKNOWN: Final = "UNKNOWN"

Pairs = tuple[tuple[str, str | bytes], ...]


class GuardedMethod(Generic[ReplyT]):
    """One method of the tool, executed under its permits.

    `entries`: how many ledger rows its change writes. With `tracing`, each call leaves the spans of the tool
    and of `ledger.commit`; the outbox names the latter with or without it.
    """

    def __init__(
        self,
        guard: Guard,
        path: str,
        reply_type: type[ReplyT],
        *,
        entries: int,
        tracing: Tracing | None = None,
    ) -> None:
        self._guard, self._path = guard, path
        self._reply_type, self._entries = reply_type, entries
        self._tracing = tracing or Tracing("tool")

    def __call__(
        self, request: Message, context: grpc.ServicerContext, change: Callable[[Spend], ReplyT]
    ) -> ReplyT:
        """Return the reply of the step's one effect; ends the call with a status when there is none.

        The trailer `licet-effect` says what became of it. What `change` raises, `context.abort` included,
        rolls back and goes on to gRPC with the trailer `none`.
        """
        sent: Pairs = tuple(context.invocation_metadata())
        recording = self._tracing.record(extract(sent))
        with of_trace(recording.trace_id):
            try:
                done = self._execute(request, context, change, sent, recording)
            finally:
                recording.keep()  # a write is never hidden by its caller's sampled flag
                recording.close()
        return done.reply

    def _execute(
        self,
        request: Message,
        context: grpc.ServicerContext,
        change: Callable[[Spend], ReplyT],
        sent: Pairs,
        recording: Recording,
    ) -> Done[ReplyT]:
        name = self._path.removeprefix("/")
        server = recording.span(name, kind=SpanKind.SERVER, attributes=rpc(name))
        with served(server, context):
            return self._committed(request, context, change, sent, server=server, recording=recording)

    def _committed(
        self,
        request: Message,
        context: grpc.ServicerContext,
        change: Callable[[Spend], ReplyT],
        sent: Pairs,
        *,
        server: Span,
        recording: Recording,
    ) -> Done[ReplyT]:
        commit = recording.span(telemetry.SPAN_LEDGER_COMMIT, under=server)
        call = call_of(self._path, request, sent, commit.context)

        def run(spend: Spend) -> ReplyT:
            # the step's EXEC row is new: if the tool's code fails or aborts now, there was no effect
            context.set_trailing_metadata(((metadata.EFFECT, NONE),))
            return change(spend)

        try:
            done = self._guard.execute(call, Effect(run, self._reply_type, self._entries))
            no_effect = isinstance(done, Refusal) and not self._guard.executed(call)
        except LedgerUnavailable as error:
            abort(context, Refusal(Reason.STORE_UNAVAILABLE, str(error)))
        except CommitUnknown as error:
            abort(context, Refusal(Reason.OUTCOME_UNKNOWN, str(error)))
        if isinstance(done, Refusal):
            server.set(telemetry.REASON, done.reason)
            server.answered(done.status)
            abort(context, done, no_effect=no_effect)
        context.set_trailing_metadata(((metadata.EFFECT, STORED if done.stored else EXECUTED),))
        commit.set(telemetry.SPEND_ID, done.spend_id)
        commit.set(telemetry.LEDGER_CHANGE_ID, done.change_ids)
        return done


@contextmanager
def served(span: Span, context: grpc.ServicerContext) -> Iterator[None]:
    """Say on a server's span with which status its call ends, unless that was said; a failure is an error.

    What a handler raises without a status ends as UNKNOWN, as grpcio has it.
    """
    try:
        yield
    except BaseException as error:
        if not span.ended_ns:
            code = getattr(context, "code", None)  # grpc.aio does not tell its synchronous handlers
            status = _status(code() if code is not None else None)
            chosen = isinstance(error, grpc.aio.AbortError)  # by the handler, whatever the status
            span.answered(status, failed=status in SERVER_FAILURES and not chosen)
        raise
    else:
        span.answered(OK)


def _status(code: object) -> str:
    """Return the name of a status as grpcio keeps it: an enum, its number, or nothing."""
    if isinstance(code, grpc.StatusCode):
        return str(code.name)
    names = (one.name for one in grpc.StatusCode if code and one.value[0] == code)
    return str(next(names, UNKNOWN))


def call_of(path: str, request: Message, sent: Pairs, trace: TraceContext | None) -> Call:
    """Return the call that a handler got: its request as the handler sees it, and the metadata of licet.

    The request is serialised again: what is checked is what the handler will read, unknown fields included.
    """
    attempts = _texts(sent, metadata.ATTEMPT)
    presented = Presented(
        path=path,
        permits=_blobs(sent, metadata.PERMIT),
        approvals=_blobs(sent, metadata.APPROVAL),
        body=request.SerializeToString(deterministic=True),
        peer="",
    )
    attempt = attempts[0] if len(attempts) == 1 else ""
    return Call(presented, attempt, *((trace.trace_id, trace.span_id) if trace is not None else ("", "")))


def _blobs(pairs: Iterable[tuple[str, Any]], key: str) -> tuple[bytes, ...]:
    return tuple(value for name, value in pairs if name == key and isinstance(value, bytes))


def _texts(pairs: Iterable[tuple[str, Any]], key: str) -> tuple[str, ...]:
    return tuple(value for name, value in pairs if name == key and isinstance(value, str))
