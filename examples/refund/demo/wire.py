"""What a caller can put on the wire, honest or not: any bytes, any permit or none, at any replica.

The lawful way is `licet.client`; an attacker does not use it, so neither do the cases that play one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from opentelemetry.trace import SpanKind

from licet import metadata, telemetry
from licet.refusal import DOMAIN
from licet.strict import canonical
from licet.tracing import Recording, Span, Tracing, inject, rpc
from licet.v1 import decider_pb2, decider_pb2_grpc, decision_pb2
from licet.v1.decision_pb2 import Codec, Decision

OK: Final = "OK"
TIMEOUT_S: Final = 30.0
REFUND: Final = "/fin.v1.Finance/IssueRefund"
GET_ORDER: Final = "/fin.v1.Finance/GetOrder"
OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
)


@dataclass(frozen=True, slots=True)
class Reply:
    """How a call ended. `reason`: OK, the reason of licet, or the bare status; `status`: gRPC's."""

    reason: str
    status: str
    body: bytes = b""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A usable decision as the decider answered it.

    `sent`: the signed statement's bytes. `hold_id`: of the hold that waits, empty where none does.
    """

    sent: bytes
    decision: Decision
    reason: str
    hold_id: str = ""


@dataclass(slots=True)
class Step:
    """One thing an agent means to do once, and everything it tried for it."""

    call_id: str
    task_id: str
    recording: Recording
    root: Span
    asked: list[Asked] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    @property
    def trace_id(self) -> str:
        """The trace that everything of this step belongs to."""
        return self.root.context.trace_id


class Wire:
    """One agent's connections to the decider and to every replica of the tool's sidecar."""

    def __init__(self, decider: str, sidecars: Sequence[str], identity: str, tracing: Tracing) -> None:
        self.identity = identity
        self._addresses = (decider, *sidecars)
        self._tracing = tracing
        self._decider_channel = grpc.insecure_channel(decider, options=OPTIONS)
        self._decider = decider_pb2_grpc.DeciderServiceStub(self._decider_channel)
        self._sidecars = [grpc.insecure_channel(address, options=OPTIONS) for address in sidecars]

    def close(self) -> None:
        """Close every connection."""
        for channel in (self._decider_channel, *self._sidecars):
            channel.close()

    def step(
        self,
        call_id: str,
        task_id: str,
        name: str = f"{telemetry.SPAN_EXECUTE_TOOL} refund",
        tool: str = "issue_refund",
    ) -> Step:
        """Begin a step with a trace of its own; `name` is its first span. Close its recording in the end.

        `tool` is what the model calls the method.
        """
        recording = self._tracing.record()
        operation = name.partition(" ")[0]
        root = recording.span(name, attributes={telemetry.GEN_AI_OPERATION_NAME: operation})
        if operation == telemetry.EXECUTE_TOOL:
            root.set(telemetry.GEN_AI_TOOL_NAME, tool)
            root.set(telemetry.GEN_AI_TOOL_CALL_ID, call_id)
        return Step(call_id, task_id, recording, root)

    def decide(self, step: Step, method: str, body: bytes) -> Asked:
        """Ask for a decision. Raises grpc.RpcError when there is none."""
        request = decider_pb2.DecideRequest(
            method=method,
            request=body,
            codec=Codec.CODEC_PROTOBUF,
            task_id=step.task_id,
            call_id=step.call_id,
        )
        asked_of = rpc(telemetry.SPAN_DECIDE, self._addresses[0])
        with step.recording.span(
            telemetry.SPAN_DECIDE, kind=SpanKind.CLIENT, under=step.root, attributes=asked_of
        ) as span:
            identity = ((metadata.DEV_IDENTITY, self.identity),)
            try:
                answer = self._decider.Decide(
                    request, timeout=TIMEOUT_S, metadata=(*identity, *inject(span.context))
                )
            except grpc.RpcError as error:
                span.answered(reply_of(error).status, failed=True)
                raise
            span.answered(OK)
        decision = decision_pb2.Decision.FromString(answer.signed.payload)
        asked = Asked(canonical(answer.signed), decision, answer.refusal.reason, answer.hold.hold_id)
        step.asked.append(asked)
        return asked

    def present(
        self,
        step: Step,
        method: str,
        body: bytes,
        permits: Iterable[bytes],
        replica: int = 0,
        *,
        timeout: float = TIMEOUT_S,
    ) -> Reply:
        """Send a call to one replica, with whatever stands in the permit's place."""
        asked_of = rpc(method.lstrip("/"), self._addresses[1 + replica])
        span = step.recording.span(
            method.lstrip("/"), kind=SpanKind.CLIENT, under=step.root, attributes=asked_of
        )
        sent: tuple[tuple[str, str | bytes], ...] = (
            (metadata.DEV_IDENTITY, self.identity),
            (metadata.CALL_ID, step.call_id),
            (metadata.TASK_ID, step.task_id),
            *((metadata.PERMIT, permit) for permit in permits),
            *inject(span.context),
        )
        call: Any = self._sidecars[replica].unary_unary(method)
        try:
            body = call(body, timeout=timeout, metadata=sent)
        except grpc.RpcError as error:
            reply = reply_of(error)
            span.set(telemetry.REASON, reply.reason)
        else:
            reply = Reply(OK, OK, body)
        span.answered(reply.status)
        step.replies.append(reply)
        return reply


def reply_of(error: grpc.RpcError) -> Reply:
    """Return how a call ended that raised: licet's reason where there is one."""
    status = error.code().name
    found = rpc_status.from_call(error)
    for detail in found.details if found is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.domain == DOMAIN:
            return Reply(info.reason, status, message=found.message)
    return Reply(status, status, message=error.details() or "")


def encoded(message: Message) -> bytes:
    """Return a message's bytes as any client would send them."""
    return message.SerializeToString()
