"""What leaves of a usable decision: the reply, and what its span says."""

from collections.abc import Mapping

from decider.decision.envelope import Envelope, Refused
from decider.decision.parts import Track
from decider.decision.verdict import Verdict
from licet import telemetry
from licet.hold import named_hold
from licet.refusal import MESSAGE, Refusal
from licet.tracing import parse_traceparent
from licet.v1 import decider_pb2
from licet.v1.decider_pb2 import DecideResponse
from licet.v1.statement_pb2 import Signed


def response_of(verdict: Verdict, signed: Signed) -> DecideResponse:
    """Return the answer to a usable decision."""
    response = DecideResponse(decision=verdict.decision.decision, signed=signed)
    response.approvals.extend(verdict.proofs)
    response.effective_request = verdict.effective
    if verdict.hold is not None:
        response.hold.CopyFrom(verdict.hold)
    if verdict.refusal is not None:
        response.refusal.CopyFrom(
            decider_pb2.Refusal(
                reason=str(verdict.refusal.reason),
                safe_reason=verdict.decision.reason or MESSAGE[verdict.refusal.reason],
                escalate_to=verdict.escalate_to,
                decision_id=verdict.decision.decision_id,
            )
        )
    return response


def trace_verdict(
    track: Track, verdict: Verdict, source: Envelope | Refused, fields: Mapping[str, object]
) -> None:
    """Leave a usable decision on its span, as its record has it."""
    decision, span = verdict.decision, track.span
    span.set(telemetry.RPC_RESPONSE_STATUS_CODE, "OK")  # of every usable decision, a denial too
    span.set(telemetry.DECISION, str(fields["decision"]))
    span.set(telemetry.DECISION_ID, decision.decision_id)
    span.set(telemetry.BUNDLE_VERSION, decision.bundle_version)
    if verdict.refusal is not None:
        span.set(telemetry.REASON, str(verdict.refusal.reason))
    if isinstance(source, Envelope):
        span.set(telemetry.TIER, source.method.tier)
        span.set(telemetry.SPEND_ID, source.spend_id)
        span.set(telemetry.SUMMARY, str(fields["summary"]))
        span.set(telemetry.OPERATION, source.method.operation)
        span.set(telemetry.RESOURCE, str(fields["resource"]))  # as a record may have it
    if decision.hold_id:
        span.set(telemetry.HOLD_ID, decision.hold_id)
    if verdict.shadow:
        span.set(telemetry.SHADOW_DECISION, verdict.shadow)
    if verdict.refusal is not None or decision.spends:
        track.recording.keep()


def link_asked(track: Track, stored: bytes) -> None:
    """Link the decision to the one that asked people first, whichever process asked then or asks now."""
    hold = named_hold(stored)
    asked = None if isinstance(hold, Refusal) else parse_traceparent(hold.traceparent)
    if asked is not None:
        track.span.link(asked)
