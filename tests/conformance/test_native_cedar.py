"""Cedar's own examples and integration tests, through the handles that the decider evaluates with.

The decider parses rules into nodes, leaves out those of other actions, and makes a handle of the rest. Each
request must be answered as Cedar's own suites say, with the full set and with the slice. Templates are
refused at build, whatever they say.
"""

import json
from functools import cache
from typing import Any

import cedarpy
import pytest
from cedarpy import pst

from decider.policy.rules import RulesError, parse_rules
from tests.conformance.conftest import DATA, lines

CASES, SETS = "01-native-policy/cases.jsonl", "01-native-policy/data/cedar_sets.jsonl"


@cache
def sets() -> dict[str, Any]:
    return {row["id"]: row for row in lines(SETS)}


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    if not (DATA / CASES).is_file():
        pytest.skip(f"NOT CHECKED: no {DATA / CASES}; set LICET_CONFORMANCE_DATA")
    return [case for case in lines(CASES) if case["engine"] == "cedar" and case["policy_ref"] in sets()]


@cache
def nodes_of(ref: str) -> tuple[tuple[str, Any], ...]:
    return tuple(cedarpy.policies_to_pst(sets()[ref]["policies"]).static_policies.items())


def handle(nodes: dict[str, Any]) -> cedarpy.PolicySet:
    """Make the handle as `decider.policy.cedar.policy_set` does: from nodes, never from text."""
    return cedarpy.PolicySet.from_pst(pst.PolicySet(templates={}, static_policies=nodes, template_links=()))


def sliced(nodes: dict[str, Any], action: Any) -> dict[str, Any]:
    kept = {}
    for name, node in nodes.items():
        named = node.action.entity if isinstance(node.action, pst.ActionEq) else None
        if named is None or named.id == action["id"]:
            kept[name] = node
    return kept


def answer(case: dict[str, Any], policies: cedarpy.PolicySet) -> tuple[str, list[str], int]:
    of = sets()[case["policy_ref"]]
    checked = of["authorize_with_schema"] and case["validate_request"] is not False
    request = {**case["request"], "context": case["context"]}
    schema = of["schema"] if checked else None
    result = cedarpy.is_authorized(request, policies, json.dumps(of["entities"]), schema)
    found = result.diagnostics
    return result.decision.value.lower(), sorted(found.reasons), len(found.errors)


def expected(case: dict[str, Any]) -> tuple[str, list[str] | None, int | None]:
    wanted = case["expected"]
    reason, errors = wanted.get("reason"), wanted.get("errors")
    return (
        wanted["decision"],
        None if reason is None else sorted(reason),
        None if errors is None else len(errors),
    )


def test_requests_are_answered_as_cedars_own_suites_say(cases: list[dict[str, Any]]) -> None:
    checked = 0
    for case in cases:
        if sets()[case["policy_ref"]]["template_links"]:
            continue
        nodes = dict(nodes_of(case["policy_ref"]))
        decision, reasons, errors = expected(case)
        for policies in (nodes, sliced(nodes, case["request"]["action"])):
            got = answer(case, handle(policies))
            assert got[0] == decision, case["id"]
            assert reasons is None or got[1] == reasons, case["id"]
            assert errors is None or got[2] == errors, case["id"]
        checked += 1
    assert checked > 0


def test_templates_are_refused_at_build(cases: list[dict[str, Any]]) -> None:
    for ref in {case["policy_ref"] for case in cases}:
        if sets()[ref]["template_links"]:
            with pytest.raises(RulesError, match="templates"):
                parse_rules(sets()[ref]["policies"])
