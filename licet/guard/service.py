"""GuardService on the tool's own socket: what the sidecar, and through it the reconciler, asks of a guard."""

import grpc

from licet.clock import wall_ms
from licet.guard.fence import fence
from licet.guard.guard import Guard
from licet.guard.ledger import MAX_OUTBOX_LIMIT, Change, CommitUnknown, LedgerUnavailable, State
from licet.guard.status import abort
from licet.refusal import Reason, Refusal
from licet.v1 import guard_pb2, guard_pb2_grpc


def serve(guard: Guard, server: grpc.Server) -> None:
    """Register GuardService (Beacon, Outbox, Fence) on the tool's own server.

    The server must listen on a Unix socket only. Works on `grpc.server` and on `grpc.aio.server`, which runs
    its methods in threads.
    """
    guard_pb2_grpc.add_GuardServiceServicer_to_server(_GuardService(guard), server)


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
            found = fence(self._guard.ledger, standing, request.reserve, now_ms=wall_ms())
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
