"""OCSF records have what the schema's class 6003 and its objects require, and only known enum values."""

import json
from pathlib import Path
from typing import Any

import pytest

from audit.asking.ocsf import KINDS, record

PROFILES_NOT_OURS = ("cloud", "osint", "host")


@pytest.fixture(scope="module")
def schema() -> Any:
    import os

    beside = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("LICET_CONFORMANCE_DATA", beside)) / "09-ocsf" / "ocsf_mapping.json"
    if not path.is_file():
        pytest.skip(f"NOT CHECKED: no {path}; set LICET_CONFORMANCE_DATA")
    return json.loads(path.read_text())


def row(kind: str, decision: str, **changed: Any) -> dict[str, Any]:
    return {
        "kind": kind, "decision": decision, "tier": 4, "time_us": 1_790_000_000_000_000, "summary": "Refund",
        "reason": "", "caller": "spiffe://licet.local/dev/agent/bot", "agent": "bot", "resource": "order:O1",
        "tool": "finance", "bundle_version": 3, "rule_ids": ["refunds"], "trace_id": "ab" * 16,
        "span_id": "cd" * 8, "principal": "ana@t1.example.com", "operation": "refund", "method": "/f.F/R",
        "decision_id": "01" * 16, "event_id": "02" * 16, "tool_version": "ff", "js_stream": "LICET_AUDIT_dev",
        "seq": 7, "task_id": "task_1", "tenant": "t1", "js_time_us": 1_790_000_000_000_001, **changed,
    }  # fmt: skip


CASES = {
    "allow": ("decision.allowed", "allow"),
    "deny": ("decision.denied", "deny"),
    "hold": ("decision.held", "hold"),
    "modify": ("decision.modified", "modify"),
    "failed": ("decision.failed", "failed"),
    "refused": ("door.refused", ""),
}
EMPTY: dict[str, Any] = dict.fromkeys(
    ("summary", "caller", "agent", "resource", "tool", "trace_id", "principal", "operation", "method"), ""
) | {"decision_id": "", "task_id": "", "tenant": "", "rule_ids": []}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("changed", [{}, EMPTY, {"tier": 1}], ids=["full", "empty", "read"])
def test_record_has_every_required_attribute_and_known_values(schema: Any, case: str, changed: Any) -> None:
    found = record(row(*CASES[case], **changed))
    names = schema["api_activity"]["by_requirement"]
    ours = [
        name for name in names["required"] if not any(f"profile {one}]" in name for one in PROFILES_NOT_OURS)
    ]
    assert set(ours) <= set(found)
    known = {name.split(" ")[0] for names in names.values() for name in names}
    assert set(found) <= known
    assert str(found["activity_id"]) in schema["api_activity"]["activity_id"]
    assert found["type_uid"] == found["class_uid"] * 100 + found["activity_id"]
    for field, enum in (
        ("action_id", "security_control.action_id"),
        ("disposition_id",) * 2,
        ("severity_id",) * 2,
    ):
        assert str(found[field]) in schema[enum]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("changed", [{}, EMPTY], ids=["full", "empty"])
def test_objects_have_what_they_require(schema: Any, case: str, changed: Any) -> None:
    found = record(row(*CASES[case], **changed))
    objects = {
        "actor": "actor",
        "api": "api",
        "metadata": "metadata",
        "policy": "policy",
        "src_endpoint": "network_endpoint",
    }
    for name, kind in objects.items():
        rules = schema["objects"][kind]
        assert set(rules["required"]) <= set(found[name]), name
        one_of = (rules["constraints"] or {}).get("at_least_one")
        assert not one_of or set(one_of) & set(found[name]), name


@pytest.mark.parametrize("decision", ["allow", "deny", "hold", "modify"])
def test_mapping_is_the_schemas_own(schema: Any, decision: str) -> None:
    found = record(row(*CASES[decision]))
    for field, value in schema["mapping"][decision].items():
        if field in found:
            assert found[field] == value


@pytest.mark.parametrize(
    ("operation", "tier", "activity"),
    [("search", 0, 2), ("read_order", 1, 2), ("refund", 4, 1), ("wipe", 5, 1), ("", 0, 0)],
)
def test_activity_is_what_the_methods_tier_says_and_unknown_where_there_is_no_method(
    operation: str, tier: int, activity: int
) -> None:
    """The safest reads, of tier 0, once went to SIEMs as things created."""
    found = record(row(*CASES["allow"], operation=operation, tier=tier))
    assert (found["activity_id"], found["type_uid"]) == (activity, 600300 + activity)


def test_other_kinds_are_refused_and_each_of_ours_is_taken() -> None:
    assert {kind for kind, _ in CASES.values()} == set(KINDS)
    with pytest.raises(ValueError, match="no decision"):
        record(row("ledger.changed", ""))
