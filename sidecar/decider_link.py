"""The decider, over gRPC: the beacon after silence, artifacts by digest, and decide on call.

Guaranteed: a permit that comes back is not believed here; it runs through the door's checks like one that
was presented. Whatever the decider fails to do denies. Under mTLS nothing is said to anybody but the
environment's decider, by its SPIFFE id (`licet.tls_relay`), and a new certificate of ours is used from the
next question on. Not guaranteed: that a decider hands out what is genuine; the root key says so.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from grpc import aio

from licet import telemetry
from licet.metadata import DEV_IDENTITY, TASK_ID
from licet.refusal import Reason, Refusal, Status
from licet.statement import canonical, parse_signed
from licet.tls_relay import TlsRelay
from licet.tracing import OK, inject
from licet.v1 import decider_pb2, decider_pb2_grpc, decision_pb2
from licet.v1.statement_pb2 import Signed
from sidecar.exchange import Request
from sidecar.parts import Denied, Obtained
from sidecar.status import licet_reason
from sidecar.tool.link import signed_bytes
from sidecar.trace import DoorTrace

BEACON_TIMEOUT_S: Final = 1.0
ARTIFACT_TIMEOUT_S: Final = 5.0
DECIDE_TIMEOUT_S: Final = 10.0

EFFECTIVE_REQUEST: Final = "licet-effective-request-bin"
"""Trailer of MODIFIED: the request that the caller must send now, at most `MAX_EFFECTIVE_BYTES`."""

MAX_EFFECTIVE_BYTES: Final = 4_096
"""Header blocks are small; a larger effective request is asked for at the decider."""

_REASONS: Final[Mapping[str, Reason]] = {reason.value: reason for reason in Reason}
_CHANNEL_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection
)


class DeciderLink:
    """Our end of `licet.v1.DeciderService`.

    Args:
        address: `host:port`.
        audience: Audience of the tool behind this door.
        relay: mTLS to that address; None on loopback under the development setting.
        identity: Development identity to send along; empty under mTLS.
    """

    def __init__(self, address: str, audience: str, *, relay: TlsRelay | None, identity: str) -> None:
        self._address = address
        self._relay = relay
        self._audience = audience
        self._metadata: tuple[tuple[str, str], ...] = ((DEV_IDENTITY, identity),) if identity else ()
        self._retired: set[asyncio.Task[None]] = set()
        self._connect()

    def start(self) -> None:
        """Connect when asked for something."""
        if self._relay is not None:
            self._relay.start()

    async def close(self) -> None:
        """Close the connection."""
        await asyncio.gather(self._channel.close(), *self._retired)
        if self._relay is not None:
            await self._relay.close()

    @property
    def trouble(self) -> str:
        """Why there is no connection under mTLS; empty when there is one, or none was tried."""
        return "" if self._relay is None else self._relay.trouble

    def _connect(self) -> None:
        self._channel = (
            aio.insecure_channel(self._address, options=_CHANNEL_OPTIONS)
            if self._relay is None
            else self._relay.channel(_CHANNEL_OPTIONS)
        )
        self._stub: decider_pb2_grpc.DeciderServiceAsyncStub = decider_pb2_grpc.DeciderServiceStub(
            self._channel
        )

    def _decider(self) -> "decider_pb2_grpc.DeciderServiceAsyncStub":
        """Return the stub to ask with: over a new connection when our certificate is another than before."""
        if self._relay is not None and self._relay.renew():
            retired = asyncio.ensure_future(self._channel.close(DECIDE_TIMEOUT_S))  # open questions go on
            self._retired.add(retired)
            retired.add_done_callback(self._retired.discard)
            self._connect()
        return self._stub

    async def beacon(self) -> Signed | None:
        """Return the newest beacon, None when nobody answers."""
        try:
            answer = await self._decider().GetBeacon(
                decider_pb2.GetBeaconRequest(), timeout=BEACON_TIMEOUT_S, metadata=self._metadata
            )
        except aio.AioRpcError:
            return None
        return answer.beacon

    async def artifact(self, sha256: bytes) -> Signed | None:
        """Return the artifact of that digest, None when nobody has it."""
        request = decider_pb2.GetArtifactRequest(sha256=sha256)
        try:
            answer = await self._decider().GetArtifact(
                request, timeout=ARTIFACT_TIMEOUT_S, metadata=self._metadata
            )
        except aio.AioRpcError:
            return None
        signed = parse_signed(answer.artifact)
        return None if isinstance(signed, Refusal) else signed

    async def decide(
        self, request: Request, body: bytes, *, call_id: str, trace: DoorTrace
    ) -> Obtained | Denied:
        """Ask on behalf of the authenticated peer, with the exact bytes; a decider's failure is a denial.

        The request is a span of the call's trace. A denial, a hold, a refusal are answers; that no decision
        came is a failure.
        """
        ask = decider_pb2.DecideRequest(
            method=request.path,
            request=body,
            codec=decision_pb2.CODEC_PROTOBUF,
            task_id=request.value(TASK_ID),
            call_id=call_id,
            on_behalf_of=request.peer,
            audience=self._audience,
        )
        with trace.asking(telemetry.SPAN_DECIDE, self._address) as span:
            pairs = (*self._metadata, *inject(span.context))
            obtained: Obtained | Denied
            try:
                answer = await self._decider().Decide(ask, timeout=DECIDE_TIMEOUT_S, metadata=pairs)
            except aio.AioRpcError as error:
                obtained, status = _failed(error), error.code().name
            else:
                obtained, status = _usable(answer), OK
            if isinstance(obtained, Denied):
                refusal = obtained.refusal
                span.set(telemetry.REASON, refusal.reason.value)
                if refusal.status is Status.UNAVAILABLE or refusal.reason is Reason.DECISION_INVALID:
                    span.fail(refusal.reason.value)
            span.answered(status)
        return obtained


def _failed(error: aio.AioRpcError) -> Denied:
    """No decision was made, or the request was refused before one: never a reason to let the call through."""
    found = [value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"]
    name = licet_reason(found[0]) if len(found) == 1 and isinstance(found[0], bytes) else ""
    reason = _REASONS.get(name, Reason.EVALUATION_FAILED)
    return Denied(refusal=Refusal(reason, detail=f"decider: {error.code().name}"))


def _usable(answer: decider_pb2.DecideResponse) -> Obtained | Denied:
    match answer.decision:
        case decision_pb2.DECISION_TYPE_ALLOW:
            return Obtained(
                permit=signed_bytes(answer.signed),
                approvals=tuple(canonical(approval) for approval in answer.approvals),
            )
        case decision_pb2.DECISION_TYPE_MODIFY:
            effective = answer.effective_request
            fits = len(effective) <= MAX_EFFECTIVE_BYTES
            return Denied(
                refusal=Refusal(Reason.MODIFIED),
                safe=_safe(answer.refusal),
                trailers=((EFFECTIVE_REQUEST, effective),) if fits else (),
            )
        case decision_pb2.DECISION_TYPE_HOLD:
            return Denied(
                refusal=Refusal(Reason.HELD), safe=(*_safe(answer.refusal), ("holdId", answer.hold.hold_id))
            )
        case decision_pb2.DECISION_TYPE_DENY:
            reason = _REASONS.get(answer.refusal.reason, Reason.POLICY_DENIED)
            return Denied(refusal=Refusal(reason), safe=_safe(answer.refusal))
        case _:
            return Denied(refusal=Refusal(Reason.DECISION_INVALID, detail=f"decider said {answer.decision}"))


def _safe(refusal: decider_pb2.Refusal) -> tuple[tuple[str, str], ...]:
    told = (
        ("safeReason", refusal.safe_reason),
        ("escalateTo", refusal.escalate_to),
        ("decisionId", refusal.decision_id),
    )
    return tuple((key, value) for key, value in told if value)
