"""The guard over gRPC: the service on the tool's own socket, and refusals as statuses.

Guarantees: every refusal ends the call with its status, `google.rpc.ErrorInfo` (domain `licet`) and no
detail; the trailer `licet-effect` says `executed`, `stored` or `none`, and is missing exactly when the guard
does not know or when the step had another effect before: then only a fence can tell.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NoReturn, TypeVar

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from licet import metadata
from licet.guard.fence import fence
from licet.guard.guard import Call, Effect, Guard
from licet.guard.ledger import MAX_OUTBOX_LIMIT, Change, CommitUnknown, LedgerUnavailable, State
from licet.guard.step import Spend
from licet.permit import Presented
from licet.refusal import DOMAIN, Reason, Refusal
from licet.v1 import guard_pb2, guard_pb2_grpc

ReplyT = TypeVar("ReplyT", bound=Message)

EXECUTED: Final = "executed"
STORED: Final = "stored"
NONE: Final = "none"

_UNSAID: Final = frozenset({Reason.SPENT, Reason.OUTCOME_UNKNOWN})
"""Refusals after which the step may have had an effect all the same."""

_logger = logging.getLogger(__name__)


def serve(guard: Guard, server: grpc.Server) -> None:
    """Register GuardService (Beacon, Outbox, Fence) on the tool's own server.

    The server must listen on a Unix socket only. Works on `grpc.server` and on `grpc.aio.server`, which runs
    its methods in threads.
    """
    guard_pb2_grpc.add_GuardServiceServicer_to_server(_GuardService(guard), server)


class GuardedMethod(Generic[ReplyT]):
    """One method of the tool, executed under its permits."""

    def __init__(self, guard: Guard, path: str, reply_type: type[ReplyT], entries: int) -> None:
        self._guard, self._path = guard, path
        self._reply_type, self._entries = reply_type, entries

    def __call__(
        self, request: Message, context: grpc.ServicerContext, change: Callable[[Spend], ReplyT]
    ) -> ReplyT:
        """Return the reply of the step's one effect; ends the call with a status when there is none.

        What `change` raises, `context.abort` included, rolls back and goes on to gRPC with the trailer
        `none`.
        """
        call = call_of(self._path, request, context.invocation_metadata())
        try:
            done = self._guard.execute(call, Effect(change, self._reply_type, self._entries))
        except LedgerUnavailable as error:
            abort(context, Refusal(Reason.STORE_UNAVAILABLE, str(error)))
        except CommitUnknown as error:
            abort(context, Refusal(Reason.OUTCOME_UNKNOWN, str(error)))
        except BaseException:
            context.set_trailing_metadata(((metadata.EFFECT, NONE),))
            raise
        if isinstance(done, Refusal):
            abort(context, done)
        context.set_trailing_metadata(((metadata.EFFECT, STORED if done.stored else EXECUTED),))
        return done.reply


def call_of(path: str, request: Message, sent: Iterable[tuple[str, str | bytes]]) -> Call:
    """Return the call that a handler got: its request as the handler sees it, and the metadata of licet.

    The request is serialised again: what is checked is what the handler will read, unknown fields included.
    """
    pairs = tuple(sent)
    attempts = _texts(pairs, metadata.ATTEMPT)
    trace_id, span_id = _trace(_texts(pairs, "traceparent"))
    presented = Presented(
        path=path,
        permits=_blobs(pairs, metadata.PERMIT),
        approvals=_blobs(pairs, metadata.APPROVAL),
        body=request.SerializeToString(deterministic=True),
        peer="",
    )
    return Call(presented, attempts[0] if len(attempts) == 1 else "", trace_id, span_id)


def abort(context: grpc.ServicerContext, refusal: Refusal) -> NoReturn:
    """End the call with a refusal: status, reason, one safe sentence, and what is known of the effect."""
    _logger.info(
        "guard.refused", extra={"licet_fields": {"reason": refusal.reason, "detail": refusal.detail}}
    )
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=refusal.reason, domain=DOMAIN))
    code = code_pb2.Code.Value(refusal.status)
    status = rpc_status.to_status(status_pb2.Status(code=code, message=refusal.message, details=[detail]))
    trailers = tuple(status.trailing_metadata)
    if refusal.reason not in _UNSAID:
        trailers = (*trailers, (metadata.EFFECT, NONE))
    context.set_trailing_metadata(trailers)
    context.abort(status.code, status.details)
    raise AssertionError("abort raises")


class _GuardService(guard_pb2_grpc.GuardServiceServicer):
    """What the sidecar, and through it the reconciler, asks of a guard."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def Beacon(  # noqa: N802 - the proto's name
        self, request: guard_pb2.BeaconRequest, _context: grpc.ServicerContext
    ) -> guard_pb2.BeaconResponse:
        taken = self._guard.take_beacon(request)
        held = self._guard.standing
        return guard_pb2.BeaconResponse(
            accepted=not isinstance(taken, Refusal),
            reason=taken.reason if isinstance(taken, Refusal) else "",
            keyset_version=0 if held is None else held.door.keys.version,
            revocations_seq=0 if held is None else held.door.revocations.seq,
        )

    def Outbox(  # noqa: N802 - the proto's name
        self, request: guard_pb2.OutboxRequest, context: grpc.ServicerContext
    ) -> guard_pb2.OutboxResponse:
        limit = min(max(request.limit, 1), MAX_OUTBOX_LIMIT)
        try:
            changes = self._guard.ledger.outbox(request.acked, limit)
        except (LedgerUnavailable, CommitUnknown) as error:
            abort(context, Refusal(Reason.STORE_UNAVAILABLE, str(error)))
        audience = self._guard.anchor.audience
        return guard_pb2.OutboxResponse(changes=[_change(change, audience) for change in changes])

    def Fence(  # noqa: N802 - the proto's name
        self, request: guard_pb2.FenceRequest, context: grpc.ServicerContext
    ) -> guard_pb2.FenceResponse:
        standing = self._guard.standing
        if standing is None:
            abort(context, Refusal(Reason.BEACON_STALE, "no key set yet"))
        try:
            found = fence(self._guard.ledger, standing, request.reserve, now_ms=time.time_ns() // 1_000_000)
        except (LedgerUnavailable, CommitUnknown) as error:
            abort(context, Refusal(Reason.STORE_UNAVAILABLE, str(error)))
        if isinstance(found, Refusal):
            abort(context, found)
        row = found.row
        executed = row.state is State.EXEC
        return guard_pb2.FenceResponse(
            state=guard_pb2.FENCE_STATE_EXECUTED if executed else guard_pb2.FENCE_STATE_VOIDED,
            spend_id=row.spend_id,
            round=row.round,
            attempt=row.attempt,
            call_digest=row.call_digest,
            decided_at_us=row.decided_at_us,
        )


def _change(change: Change, audience: str) -> guard_pb2.LedgerChange:
    entry, spend = change.entry, change.spend
    return guard_pb2.LedgerChange(
        outbox_seq=change.outbox_seq,
        audience=audience,
        spend_id=spend.spend_id,
        round=spend.round,
        entry=entry.number,
        change_id=entry.change_id,
        resource=entry.resource,
        tenant=entry.tenant,
        account=entry.account,
        amount_minor=entry.amount_minor,
        currency=entry.currency,
        call_digest=spend.call_digest,
        attempt=spend.attempt,
        decision_id=spend.decision_id,
        committed_at_us=change.committed_at_us,
        issuer=spend.issuer,
        trace_id=change.trace_id,
        span_id=change.span_id,
    )


def _blobs(pairs: Iterable[tuple[str, Any]], key: str) -> tuple[bytes, ...]:
    return tuple(value for name, value in pairs if name == key and isinstance(value, bytes))


def _texts(pairs: Iterable[tuple[str, Any]], key: str) -> tuple[str, ...]:
    return tuple(value for name, value in pairs if name == key and isinstance(value, str))


def _trace(parents: tuple[str, ...]) -> tuple[str, str]:
    """Return trace and span id of a W3C traceparent of version 00; empty ones for anything else."""
    parts = parents[0].split("-") if len(parents) == 1 else []
    if [len(part) for part in parts] != [2, 32, 16, 2] or set("".join(parts)) - set("0123456789abcdef"):
        return "", ""
    return parts[1], parts[2]
