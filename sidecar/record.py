"""What one call leaves behind: the fields of its one door event.

Guaranteed: nothing of the arguments but what the catalog's summary shows, no permit, no signature, no
token. A refused call is joined to its decision whenever the permit's signature is valid; fields of a permit
that does not verify are never recorded as if they were true.
"""

from dataclasses import dataclass
from typing import Final

from licet.catalog import hidden_resource
from licet.event import EventKind
from licet.flood import Count
from licet.identity import parse_spiffe_id
from licet.metadata import CALL_ID, TASK_ID
from licet.permit import DoorState, Permit, Presented, verify_permit
from licet.refusal import Refusal
from licet.v1 import decision_pb2
from sidecar.exchange import Refused, Reply, Request, echo
from sidecar.parts import Fenced

SIGNED_STEP: Final = 6
"""From this check on, the permit's signature was found valid and its fields may be recorded."""


@dataclass(slots=True)
class Record:
    """What is known of a call so far, step by step."""

    presented: Presented | None = None
    state: DoorState | None = None
    permit: Permit | None = None
    attempt: str = ""
    outcome: str = ""
    reason: str = ""
    code: int = 0
    detail: str = ""
    call_id: str = ""
    fenced: Fenced | None = None


def door_event(
    request: Request, record: Record, reply: Reply, *, forwarded: bool, now_ms: int
) -> tuple[EventKind, dict[str, object]]:
    """Return kind and fields of the one event that `reply` ends its call with."""
    passed = forwarded or (record.fenced is not None and not isinstance(reply, Refused))
    kind = EventKind.DOOR_PASSED if passed else EventKind.DOOR_REFUSED
    fields: dict[str, object] = {
        "caller": request.peer,
        "method": echo(request.path),
        "attempt": record.attempt,
        "outcome": record.outcome,
        "reason": record.reason,
        "detail": record.detail,
    }
    if isinstance(reply, Refused):
        fields["reason"] = reply.refusal.reason.value
        fields["detail"] = record.detail or reply.refusal.detail
    decision = _decision(record, reply, now_ms)
    if decision is not None:
        fields.update(_decision_fields(decision))
        fields["resource"] = _resource_shown(decision, record.state)
    else:
        fields["call_id"] = echo(record.call_id or request.value(CALL_ID))
        fields["task_id"] = echo(request.value(TASK_ID))
    if record.permit is not None:
        fields.update(_permit_fields(record.permit))
    if record.fenced is not None:
        fields.update(
            spend_id=record.fenced.spend_id,
            round=record.fenced.round,
            decision_id=record.fenced.decision_id,
            outcome=record.fenced.outcome,
        )
    return kind, fields


def flood_event(count: Count) -> tuple[EventKind, dict[str, object]]:
    """Return kind and fields of the event that tells of refusals by their number."""
    caller = count.bucket if parse_spiffe_id(count.bucket) is not None else ""
    return EventKind.DOOR_REFUSED, {"caller": caller, "reason": count.reason.value, "detail": count.detail}


def _decision(record: Record, reply: Reply, now_ms: int) -> decision_pb2.Decision | None:
    """Return the decision of the permit, when its signature is valid."""
    if record.permit is not None:
        return record.permit.decision
    if record.presented is None or record.state is None or not isinstance(reply, Refused):
        return None
    if reply.refusal.step < SIGNED_STEP or len(record.presented.permits) != 1:
        return None
    decision = verify_permit(record.presented.permits[0], record.state.keys, now_ms=now_ms)
    return None if isinstance(decision, Refusal) else decision


def _decision_fields(decision: decision_pb2.Decision) -> dict[str, object]:
    return {
        "tenant": decision.tenant,
        "principal": decision.principal,
        "agent": decision.agent,
        "task_id": decision.task_id,
        "call_id": decision.call_id,
        "decision_id": decision.decision_id,
        "spend_id": decision.spend_id,
        "round": decision.round,
        "hold_id": decision.hold_id,
        "delegations": tuple(decision.delegations),
        "tool_version": decision.method_digest.hex(),
        "bundle_version": decision.bundle_version,
        "rule_ids": tuple(decision.rule_ids),
        "generation": decision.generation,
        "config_seq": decision.config_seq,
        "not_after_ms": decision.not_after_ms,
    }


def _resource_shown(decision: decision_pb2.Decision, state: DoorState | None) -> str:
    """Return the resource as a record may have it: in clear only where the catalog lets it stand."""
    method = state.catalog.listed(decision.method_digest) if state is not None else None
    if state is None or not decision.resource:
        return ""
    if method is not None and not method.resource_personal:
        return decision.resource
    versions = state.catalog.method(decision.method)  # of a version that is not listed, its kind at least
    template = versions.current.resource if versions is not None else None
    return hidden_resource(decision.resource, template, state.k_tool)


def _permit_fields(permit: Permit) -> dict[str, object]:
    fields: dict[str, object] = {
        "operation": permit.method.operation,
        "tier": permit.method.tier,
        "call_digest": permit.call_digest.hex(),
        "summary": permit.method.recorded_summary(permit.arguments),
        "approvals": permit.approvers,
    }
    money = permit.method.money_of(permit.arguments)
    if money is not None:
        fields["amount_minor"], fields["currency"] = money
    return fields
