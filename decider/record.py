"""Decisions as audit events: which fields of a decision stand in its record.

Resource ids stand in clear unless the catalog marks them personal; then the record has only their HMAC under
the tool's key. `detail` is for operators: causes, never arguments. Pure.
"""

import hashlib
import hmac
from typing import Any, Final

from decider.decide import Verdict
from decider.envelope import Asked, Envelope, Refused
from decider.mint import PERMITTING
from licet.catalog import Method
from licet.event import EventKind
from licet.flood import Count
from licet.refusal import Refusal
from licet.v1.decision_pb2 import Decision, DecisionType
from licet.v1.hold_pb2 import Hold

KINDS: Final = {
    DecisionType.DECISION_TYPE_ALLOW: (EventKind.DECISION_ALLOWED, "allow"),
    DecisionType.DECISION_TYPE_DENY: (EventKind.DECISION_DENIED, "deny"),
    DecisionType.DECISION_TYPE_HOLD: (EventKind.DECISION_HELD, "hold"),
    DecisionType.DECISION_TYPE_MODIFY: (EventKind.DECISION_MODIFIED, "modify"),
}
"""Kind and word of each decision."""

RESOURCE_DOMAIN: Final = b"licet-resource-v1\0"


def resource_shown(resource: str, method: Method, k_tool: bytes) -> str:
    """Return a resource id as the record may have it."""
    if not method.resource_personal or not resource:
        return resource
    digest = hmac.new(k_tool, RESOURCE_DOMAIN + resource.encode(), hashlib.sha256).hexdigest()
    return f"{resource.partition(':')[0]}:hmac-{digest[:32]}"


def decision_fields(decision: Decision) -> dict[str, Any]:
    """Return the event fields that every decision has."""
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
        "resource": decision.resource,
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
        "resource": resource_shown(envelope.resource, method, k_tool),
        "amount_minor": amount_minor if -(1 << 63) <= amount_minor < 1 << 63 else 0,
        "currency": currency[:16],
        "summary": envelope.summary,
        "risk_flags": envelope.risk_flags,
    }


def verdict_event(
    verdict: Verdict, source: Envelope | Refused, k_tool: bytes | None
) -> tuple[EventKind, dict[str, Any]]:
    """Return kind and fields of the event of a usable decision."""
    kind = KINDS[verdict.decision.decision][0]
    fields = decision_fields(verdict.decision)
    if isinstance(source, Envelope) and k_tool is not None:
        fields |= envelope_fields(source, k_tool)
    elif isinstance(source, Refused):
        fields |= {
            "tool": source.catalog.tool if source.catalog else "",
            "operation": source.method.operation if source.method else "",
            "tier": source.method.tier if source.method else 0,
        }
    if verdict.refusal is not None:
        fields |= {"reason": str(verdict.refusal.reason), "detail": verdict.refusal.detail}
    if verdict.approvers:
        fields["approvals"] = verdict.approvers
    if verdict.shadow:
        fields["shadow_decision"] = verdict.shadow
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


def flood_event(count: Count) -> tuple[EventKind, dict[str, Any]]:
    """Return kind and fields of the event that tells by their number of requests that were not decided."""
    fields = {"decision": "failed", "caller": count.bucket, "reason": str(count.reason)}
    return EventKind.DECISION_FAILED, fields | {"detail": count.detail}


def hold_fields(hold: Hold) -> dict[str, Any]:
    """Return the event fields of a hold."""
    return {
        "tenant": hold.tenant,
        "principal": hold.principal,
        "agent": hold.agent,
        "task_id": hold.task_id,
        "spend_id": hold.spend_id,
        "hold_id": hold.hold_id,
        "method": hold.method,
        "resource": hold.resource,
        "call_digest": hold.call_digest.hex(),
        "rule_ids": tuple(sorted({need.rule_id for need in hold.requirements})),
        "generation": hold.generation,
        "summary": hold.text,
        "not_after_ms": hold.expires_at_ms,
    }
