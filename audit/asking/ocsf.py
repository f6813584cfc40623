"""Decisions and refusals as OCSF API Activity (class 6003, schema 1.8.0), for SIEMs. Pure.

Guarantees: every required attribute of the class and of its objects is there; ids are the event's own, so a
record leads back to the store. Profiles: security_control, ai_operation, trace. Not exported: arguments,
operators' details, signatures. A hold has no value of its own in OCSF: action 99 `Held`, disposition Delayed.
"""

from collections.abc import Mapping
from typing import Any, Final

VERSION: Final = "1.8.0"
CATEGORY_UID: Final = 6
CLASS_UID: Final = 6003
READ_TIER: Final = 1
KINDS: Final = (
    "decision.allowed",
    "decision.denied",
    "decision.held",
    "decision.modified",
    "decision.failed",
    "door.refused",
)
"""Events that become records."""

_ACTIONS: Final[Mapping[str, tuple[int, str, int, str, int, str]]] = {
    # decision: action, its name, disposition, its name, status, its name
    "allow": (1, "Allowed", 1, "Allowed", 1, "Success"),
    "deny": (2, "Denied", 2, "Blocked", 2, "Failure"),
    "hold": (99, "Held", 14, "Delayed", 99, "Held"),
    "modify": (4, "Modified", 11, "Corrected", 1, "Success"),
    "failed": (2, "Denied", 27, "Error", 2, "Failure"),
}
_SEVERITY: Final = {"allow": (1, "Informational"), "modify": (1, "Informational"), "hold": (2, "Low")}
_REFUSED_SEVERITY: Final = (3, "Medium")


def record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the OCSF record of one row of `events` whose kind is one of KINDS.

    Raises ValueError for another kind.
    """
    if row["kind"] not in KINDS:
        raise ValueError(f"`{row['kind']}` is no decision and no refusal")
    decision = str(row["decision"]) if str(row["kind"]).startswith("decision.") else "deny"
    action_id, action, disposition_id, disposition, status_id, status = _ACTIONS.get(
        decision, _ACTIONS["failed"]
    )
    severity_id, severity = _SEVERITY.get(decision, _REFUSED_SEVERITY)
    activity_id, activity = (2, "Read") if int(row["tier"]) <= READ_TIER else (1, "Create")
    if not row["operation"]:  # refused before its method was known: its tier says nothing
        activity_id, activity = 0, "Unknown"
    found = {
        "activity_id": activity_id,
        "activity_name": activity,
        "category_uid": CATEGORY_UID,
        "category_name": "Application Activity",
        "class_uid": CLASS_UID,
        "class_name": "API Activity",
        "type_uid": CLASS_UID * 100 + activity_id,
        "type_name": f"API Activity: {activity}",
        "time": int(row["time_us"]) // 1000,
        "severity_id": severity_id,
        "severity": severity,
        "action_id": action_id,
        "action": action,
        "disposition_id": disposition_id,
        "disposition": disposition,
        "status_id": status_id,
        "status": status,
        "message": str(row["summary"]),
        "status_detail": str(row["reason"]),
        "actor": _actor(row),
        "api": _api(row),
        "src_endpoint": {"name": str(row["caller"]) or "unknown", "svc_name": str(row["agent"])},
        "ai_agent": {"name": str(row["agent"]), "uid": str(row["caller"])},
        "resources": [{"name": str(row["resource"]), "type": str(row["tool"])}] if row["resource"] else [],
        "policy": {"name": "licet bundle", "uid": str(row["bundle_version"]), "is_applied": True},
        "authorizations": [
            {"decision": decision, "policy": {"uid": str(rule), "name": str(rule)}}
            for rule in row["rule_ids"]
        ],
        "metadata": _metadata(row),
    }
    if row["trace_id"]:
        found["trace"] = {"uid": str(row["trace_id"]), "span": {"uid": str(row["span_id"])}}
    return {name: value for name, value in found.items() if value not in ("", [])}


def _actor(row: Mapping[str, Any]) -> dict[str, Any]:
    actor: dict[str, Any] = {
        "app_name": str(row["agent"]) or "unknown",
        "app_uid": str(row["caller"]) or "unknown",
    }
    if row["principal"]:
        actor["user"] = {"name": str(row["principal"])}
    return actor


def _api(row: Mapping[str, Any]) -> dict[str, Any]:
    api: dict[str, Any] = {
        "operation": str(row["operation"] or row["method"]) or "unknown",
        "service": {"name": str(row["tool"]) or "unknown"},
        "request": {"uid": str(row["decision_id"] or row["event_id"])},
    }
    if row["tool_version"]:
        api["version"] = str(row["tool_version"])
    return api


def _metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "product": {"name": "licet", "vendor_name": "licet"},
        "profiles": ["security_control", "ai_operation", "trace"],
        "uid": str(row["event_id"]),
        "event_code": str(row["kind"]),
        "log_name": str(row["js_stream"]),
        "sequence": int(row["seq"]),
        "correlation_uid": str(row["task_id"]) or str(row["decision_id"]),
        "tenant_uid": str(row["tenant"]),
        "logged_time": int(row["js_time_us"]) // 1000,
    }
