"""Decisions as audit events: which fields of a decision stand in its record.

Resource ids stand in clear unless the catalog marks them personal or the egress check found something in the
arguments that make them; then the record has only their HMAC under the tool's key, and the summary masks
them. `detail` is for operators: causes, never arguments. Pure.
"""

from typing import Any, Final

from decider.decision.envelope import Asked, Envelope, Refused
from decider.decision.mint import PERMITTING
from decider.decision.verdict import Verdict
from decider.policy.candidate import Opinion
from licet.catalog import Method, hidden_resource
from licet.event import EventKind
from licet.flood import Count
from licet.refusal import Refusal
from licet.tracing import TraceContext, parse_traceparent
from licet.v1.decision_pb2 import Decision, DecisionType
from licet.v1.hold_pb2 import Hold

KINDS: Final = {
    DecisionType.DECISION_TYPE_ALLOW: (EventKind.DECISION_ALLOWED, "allow"),
    DecisionType.DECISION_TYPE_DENY: (EventKind.DECISION_DENIED, "deny"),
    DecisionType.DECISION_TYPE_HOLD: (EventKind.DECISION_HELD, "hold"),
    DecisionType.DECISION_TYPE_MODIFY: (EventKind.DECISION_MODIFIED, "modify"),
}
"""Kind and word of each decision."""


MANY_DENIALS: Final = "too many calls of this caller are denied"
"""Why what would be denied is not decided: past its caller's share nobody could look a denial up."""


def decision_fields(decision: Decision) -> dict[str, Any]:
    """Return the event fields that every decision has; the resource is for who knows how it may be shown."""
    return {
        "decision": KINDS[decision.decision][1],
        "tenant": decision.tenant,
        "principal": decision.principal,
        "caller": decision.caller,
        "agent": decision.agent,
        "task_id": decision.task_id,
        "call_id": decision.call_id,
        "decision_id": decision.decision_id,
        "spend_id": decision.spend_id,
        "round": decision.round,
        "hold_id": decision.hold_id,
        "delegations": tuple(decision.delegations),
        "method": decision.method,
        "tool_version": decision.method_digest.hex(),
        "call_digest": decision.call_digest.hex(),
        "bundle_version": decision.bundle_version,
        "rule_ids": tuple(decision.rule_ids),
        "generation": decision.generation,
        "config_seq": decision.config_seq,
        "original_call_digest": decision.original_call_digest.hex(),
        "not_after_ms": decision.not_after_ms if decision.decision in PERMITTING else 0,
    }


def envelope_fields(envelope: Envelope, k_tool: bytes) -> dict[str, Any]:
    """Return the event fields that come from the envelope."""
    amount_minor, currency = envelope.money or (0, "")
    method = envelope.method
    return {
        "tool": envelope.catalog.tool,
        "operation": method.operation,
        "tier": method.tier,
        "resource": envelope.recorded_resource(k_tool),
        "amount_minor": amount_minor if -(1 << 63) <= amount_minor < 1 << 63 else 0,
        "currency": currency[:16],
        "summary": envelope.recorded_summary,
        "risk_flags": envelope.risk_flags,
    }


def verdict_event(
    verdict: Verdict, source: Envelope | Refused, k_tool: bytes | None, beside: Opinion | None = None
) -> tuple[EventKind, dict[str, Any]]:
    """Return kind and fields of the event of a usable decision."""
    kind = KINDS[verdict.decision.decision][0]
    fields = decision_fields(verdict.decision)
    if isinstance(source, Envelope) and k_tool is not None:
        fields |= envelope_fields(source, k_tool)
        fields["call_digest"] = source.call_digest.hex()  # also where the permit binds a range
    elif isinstance(source, Refused):
        fields |= {
            "tool": source.catalog.tool if source.catalog else "",
            "operation": source.method.operation if source.method else "",
            "tier": source.method.tier if source.method else 0,
        }
    if verdict.changed:
        fields["detail"] = f"changed {', '.join(verdict.changed)}"
    if verdict.refusal is not None:
        fields |= {"reason": str(verdict.refusal.reason), "detail": verdict.refusal.detail}
    if verdict.approvers:
        fields["approvals"] = verdict.approvers
    if verdict.shadow:
        fields["shadow_decision"] = verdict.shadow
    if beside is not None:
        fields["candidate_decision"] = beside.decision
        if beside.decision != fields["decision"]:
            differs = (
                f"candidate {beside.version}: {beside.decision} by {', '.join(beside.rule_ids) or 'no rule'}"
            )
            fields["detail"] = "; ".join(filter(None, (fields.get("detail"), differs)))
    return kind, fields


def failure_event(
    asked: Asked, envelope: Envelope | None, refusal: Refusal, decision_id: str, k_tool: bytes | None
) -> tuple[EventKind, dict[str, Any]]:
    """Return kind and fields of the event that says no decision could be made."""
    fields: dict[str, Any] = {
        "decision": "failed",
        "reason": str(refusal.reason),
        "detail": refusal.detail[:500],
        "decision_id": decision_id,
        "caller": asked.caller,
        "task_id": asked.task_id,
        "call_id": asked.call_id,
        "method": asked.method,
    }
    if envelope is not None and k_tool is not None:
        task = envelope.task
        fields |= {
            "tenant": task.tenant,
            "principal": task.principal,
            "agent": task.agent,
            "spend_id": envelope.spend_id,
            "tool_version": envelope.method.digest.hex(),
            "call_digest": envelope.call_digest.hex(),
        }
        fields |= envelope_fields(envelope, k_tool)
    return EventKind.DECISION_FAILED, fields


def asked_fields(hold: Hold, envelope: Envelope, k_tool: bytes, decision_id: str) -> dict[str, Any]:
    """Return the event fields of a hold that people are asked about now."""
    shown = {"resource": envelope.recorded_resource(k_tool), "summary": envelope.recorded_summary}
    return hold_fields(hold) | shown | {"decision_id": decision_id}


def facts_fields(
    decision: Decision, envelope: Envelope, source: Method, k_tool: bytes, span: TraceContext
) -> dict[str, Any]:
    """Return the event fields of a permit for facts."""
    hidden = envelope.hides(source)
    resource = decision.resource
    return decision_fields(decision) | {
        "tool": envelope.catalog.tool,
        "operation": source.operation,
        "tier": source.tier,
        "resource": hidden_resource(resource, source.resource, k_tool) if hidden else resource,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
    }


def flood_event(count: Count) -> tuple[EventKind, dict[str, Any]]:
    """Return kind and fields of the event that tells by their number of requests that were not decided."""
    fields = {"decision": "failed", "caller": count.bucket, "reason": str(count.reason)}
    return EventKind.DECISION_FAILED, fields | {"detail": count.detail}


def hold_fields(hold: Hold) -> dict[str, Any]:
    """Return the event fields of a hold: without its resource and text, which may hold what is personal.

    Its trace is that of the decision that asked, also where another one's trace brings the answer.
    """
    asked = parse_traceparent(hold.traceparent)
    return {
        "tenant": hold.tenant,
        "principal": hold.principal,
        "agent": hold.agent,
        "task_id": hold.task_id,
        "spend_id": hold.spend_id,
        "hold_id": hold.hold_id,
        "method": hold.method,
        "call_digest": hold.call_digest.hex(),
        "rule_ids": tuple(sorted({need.rule_id for need in hold.requirements})),
        "generation": hold.generation,
        "not_after_ms": hold.expires_at_ms,
        "trace_id": asked.trace_id if asked is not None else "",
        "span_id": asked.span_id if asked is not None else "",
    }
