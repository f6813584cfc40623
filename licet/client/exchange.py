"""What goes over the wire between an agent and the gate; shared by both clients, without any I/O.

Guarantees: a permit is attached to exactly the bytes that were decided; a decision of unknown form is never
taken for a permit.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from licet.client.errors import Denied, GateError, Held, OutcomeUnknown, Refused, Unavailable
from licet.metadata import APPROVAL, DEV_IDENTITY, PERMIT
from licet.refusal import DOMAIN, MESSAGE, Reason
from licet.tracing import TraceContext, parse_traceparent
from licet.v1 import decider_pb2, spend_pb2
from licet.v1.decision_pb2 import (
    CODEC_PROTOBUF,
    DECISION_TYPE_ALLOW,
    DECISION_TYPE_DENY,
    DECISION_TYPE_HOLD,
    DECISION_TYPE_MODIFY,
    Codec,
    Decision,
)

CALL_ID: Final = re.compile(r"[\x21-\x7e]{1,128}\Z")
DETAILS: Final = "grpc-status-details-bin"

ASK_AGAIN: Final = frozenset(
    {
        "BEACON_BEHIND",
        "BUNDLE_SUPERSEDED",
        "GENERATION_SUPERSEDED",
        "METHOD_SUPERSEDED",
        "EXPIRED",
    }
)
"""Refusals of the door, before any effect, that a new decision for the same step can mend."""

SILENT: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"})
"""Statuses that gRPC itself makes up when nobody answered."""

FINAL: Final = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "UNIMPLEMENTED"})
"""Statuses of the decider that asking again does not change."""

TIMEOUT_S: Final = 30.0
"""How long one call may take in all, where the caller gives no timeout."""

POLL_S: Final = 2.0
"""How often a waiting hold is asked for."""

RETRY_AFTER_S: Final = (0.2, 1.0)
"""How long to wait before each new try, in seconds."""

CHANNEL_OPTIONS: Final = (("grpc.enable_retries", 0), ("grpc.max_reconnect_backoff_ms", 2_000))
"""gRPC's own retries are off: whether a try may be repeated is the gate's word."""

Metadata = tuple[tuple[str, str | bytes], ...]

UserToken = str | Callable[[], str]
"""The user's own token, or what returns it fresh; empty for none."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step to be done: which method with which bytes, under which task and call id."""

    method: str
    body: bytes
    task: str
    call_id: str
    audience: str = ""
    claimed_intent: str = ""
    user_token: UserToken = field(default="", repr=False)
    empty_in_a_row: int = 0
    """How many calls of the method brought nothing lately: the loop breaker's only way to know."""
    codec: Codec.ValueType = CODEC_PROTOBUF
    """How `body` is written: CODEC_JSON_MCP for an MCP tool, whose arguments are a JSON object."""

    def request(self) -> decider_pb2.DecideRequest:
        """Return the question to the decider."""
        return decider_pb2.DecideRequest(
            method=self.method,
            request=self.body,
            codec=self.codec,
            task_id=self.task,
            call_id=self.call_id,
            audience=self.audience,
            claimed_intent=self.claimed_intent,
            user_token=self.user_token if isinstance(self.user_token, str) else self.user_token(),
            empty_in_a_row=self.empty_in_a_row,
        )


class Emptiness:
    """Counts how many answers of each method of one stub were empty in a row."""

    def __init__(self) -> None:
        self._in_a_row: dict[str, int] = {}

    def of(self, method: str) -> int:
        """Return the count of a method."""
        return self._in_a_row.get(method, 0)

    def heard(self, method: str, reply: object) -> None:
        """Take note of an answer. Of a type without fields every answer is empty, and says nothing."""
        empty = isinstance(reply, Message) and bool(reply.DESCRIPTOR.fields) and reply.ByteSize() == 0
        self._in_a_row[method] = self.of(method) + 1 if empty else 0


@dataclass(frozen=True, slots=True)
class Permitted:
    """A permit and the bytes it is for."""

    permit: bytes
    body: bytes
    approvals: tuple[bytes, ...] = ()
    decision: Decision = field(default_factory=Decision)

    def metadata(self) -> Metadata:
        """Return the metadata that goes with the call."""
        return ((PERMIT, self.permit), *((APPROVAL, approval) for approval in self.approvals))


def check_call_id(method: str, call_id: object) -> str:
    """Return the call id. Raises TypeError where there is none, ValueError where it is none."""
    name = method.rsplit("/", 1)[-1]
    if call_id is None:
        raise TypeError(
            f"{name}() needs call_id=…: the stable id of this step, such as the framework's tool-call id; "
            "the same after a retry or a restored checkpoint, so that the step happens once"
        )
    if not isinstance(call_id, str) or not CALL_ID.match(call_id):
        raise ValueError(f"{name}(): call_id must be 1 to 128 printable ASCII characters without spaces")
    return call_id


def answered(
    response: decider_pb2.DecideResponse,
    body: bytes,
    wait: Callable[[float | None, tuple[TraceContext, ...]], object],
) -> Permitted:
    """Return the permit in a decider's answer. Raises `Denied`, `Held`, or `Refused` for a step used up."""
    refusal = response.refusal
    if response.decision in {DECISION_TYPE_ALLOW, DECISION_TYPE_MODIFY}:
        modified = response.decision == DECISION_TYPE_MODIFY
        return Permitted(
            permit=response.signed.SerializeToString(deterministic=True),
            body=response.effective_request if modified else body,
            approvals=tuple(proof.SerializeToString(deterministic=True) for proof in response.approvals),
            decision=_decision(response.signed.payload),
        )
    if response.decision == DECISION_TYPE_HOLD:
        hold = response.hold
        asked = (_decision(response.signed.payload).traceparent, hold.traceparent)  # now, and at first
        held = tuple(one for text in dict.fromkeys(asked) if (one := parse_traceparent(text)) is not None)
        raise Held(
            refusal.safe_reason,
            hold_id=hold.hold_id,
            text=hold.text,
            requirements=tuple((need.rule_id, need.role, need.quorum) for need in hold.requirements),
            expires_at_ms=hold.expires_at_ms,
            decision_id=refusal.decision_id,
            escalate_to=refusal.escalate_to,
            wait=lambda timeout_s: wait(timeout_s, held),
        )
    if response.decision == DECISION_TYPE_DENY and refusal.reason == Reason.SPENT:
        spent = Refused(
            refusal.reason,
            refusal.safe_reason,
            decision_id=refusal.decision_id,
            escalate_to=refusal.escalate_to,
        )
        spent.decision = _decision(response.signed.payload)
        raise spent
    if response.decision == DECISION_TYPE_DENY:
        raise Denied(
            refusal.reason,
            refusal.safe_reason,
            escalate_to=refusal.escalate_to,
            decision_id=refusal.decision_id,
        )
    raise Unavailable(str(Reason.DECISION_INVALID), "the decider gave an answer this client does not know")


def _decision(payload: bytes) -> Decision:
    """Read our own permit for its ids; the door is who verifies it."""
    try:
        return Decision.FromString(payload)
    except DecodeError:
        return Decision()


def undecided(error: grpc.RpcError) -> GateError:
    """Return what a failed request to the decider means: nothing was sent to the tool, whatever it is."""
    reason, told = reason_of(error)
    text = told.get("safeReason") or _text(error, reason)
    kind = Refused if _code(error) in FINAL else Unavailable
    return kind(reason or _code(error), text, escalate_to=told.get("escalateTo", ""))


def refused(error: grpc.RpcError, permitted: Permitted) -> GateError | None:
    """Return the gate's word in a failed call; None where the tool itself answered with the error.

    A connection that broke under a spending call says nothing about the effect: `OutcomeUnknown`.
    """
    reason, told = reason_of(error)
    decision_id = permitted.decision.decision_id
    if not reason:
        if permitted.decision.spends and _code(error) in SILENT:
            text = "the connection broke; ask again with the same call id"
            return OutcomeUnknown(_code(error), text, decision_id=decision_id)
        return None
    text = told.get("safeReason") or _text(error, reason)
    if reason == Reason.OUTCOME_UNKNOWN:
        return OutcomeUnknown(reason, text, decision_id=decision_id)
    said = Refused(
        reason,
        text,
        outcome=told.get("outcome", ""),
        decision_id=decision_id,
        escalate_to=told.get("escalateTo", ""),
    )
    said.decision = permitted.decision
    return said


def may_ask_again(error: GateError) -> bool:
    """Tell whether deciding the same step again is safe and may help: nothing was sent, or nothing ran."""
    return isinstance(error, Unavailable) or error.reason in ASK_AGAIN


def reason_of(error: grpc.RpcError) -> tuple[str, Mapping[str, str]]:
    """Return reason and safe metadata of the ErrorInfo of domain `licet`; an empty reason for none."""
    details: Any = getattr(error, "trailing_metadata", lambda: ())() or ()
    for key, value in details:
        if key != DETAILS or not isinstance(value, bytes):
            continue
        status = status_pb2.Status()
        try:
            status.ParseFromString(value)
            for detail in status.details:
                info = error_details_pb2.ErrorInfo()
                if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.domain == DOMAIN:
                    return info.reason, dict(info.metadata)
        except DecodeError:  # broken details say nothing
            continue
    return "", {}


def _code(error: grpc.RpcError) -> str:
    code: Any = getattr(error, "code", lambda: None)()
    return str(code.name) if code is not None else "UNKNOWN"


def _text(error: grpc.RpcError, reason: str) -> str:
    known = MESSAGE.get(Reason(reason)) if reason in Reason.__members__ else None
    return known or str(getattr(error, "details", lambda: "")() or "no answer")


def outcome_name(response: decider_pb2.GetOutcomeResponse) -> str:
    """Return `EXECUTED`, `FAILED_NO_EFFECT`, `VOIDED`, `UNKNOWN` (reserved, still open) or `NONE`."""
    if not response.reserved:
        return "NONE"
    if not response.outcome:
        return "UNKNOWN"
    return spend_pb2.Outcome.Name(response.outcome).removeprefix("OUTCOME_")


def outcome_request(decision: Decision) -> decider_pb2.GetOutcomeRequest:
    """Return the question how the step of a decision ended."""
    return decider_pb2.GetOutcomeRequest(
        spend_id=decision.spend_id, audience=decision.audience, round=decision.round
    )


def identity_metadata(identity: str) -> Metadata:
    """Return the metadata of a development identity; empty under mTLS."""
    return ((DEV_IDENTITY, identity),) if identity else ()
