"""Recorded calls under other rules: every change by the call's own id, no swap behind a total."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from decider.policy.cedar import RuleSet
from decider.policy.replay import Change, ReplayError, read_inputs, replay, text_of
from licet.cli import app
from tests.worlds.policies import ALLOW, FACTS, FORBID, HOLD, SCHEMA, call_of


def recorded(call_id: str, decision: str, reason: str = "", **changes: Any) -> dict[str, Any]:
    facts = FACTS | changes.pop("facts", {})
    lifted = changes.pop("lifted", [])
    call = call_of(facts=facts, **changes)
    return {
        "decision_id": f"{call_id:0>32}",
        "task_id": "task_1",
        "call_id": call_id,
        "decision": decision,
        "reason": reason,
        "rule_ids": ["bot"],
        "left_out": [],
        "rules": {
            "agent": call.agent,
            "operation": call.operation,
            "resource_type": call.resource_type,
            "resource": call.resource,
            "attributes": dict(call.attributes),
            "context": {key: list(v) if isinstance(v, tuple) else v for key, v in call.context.items()},
            "lifted": lifted,
        },
    }


NOT_ALLOWED = {"refund_allowed": False}
INPUTS = [
    recorded("lawful", "allow"),
    recorded("large", "allow", amount_minor=50_000),
    recorded("stopped", "deny", "POLICY_DENIED", facts=NOT_ALLOWED),
    recorded("approved", "allow", amount_minor=50_000, lifted=["large"]),
    recorded("outside", "deny", "CONTRACT_REFUSED"),
    recorded("early", "deny", "TASK_UNKNOWN") | {"rules": None},
]


def changes(rules: str) -> dict[str, Change]:
    return {row.call.partition("/")[2]: row.change for row in replay(RuleSet(rules, SCHEMA), INPUTS).rows}


def test_same_rules_change_nothing() -> None:
    assert changes(ALLOW + FORBID) == {
        "lawful": Change.KEPT,
        "large": Change.KEPT,
        "stopped": Change.STILL_STOPPED,
        "approved": Change.KEPT,
        "outside": Change.NOT_ASKED,
        "early": Change.NOT_ASKED,
    }


def test_swap_of_one_lost_and_one_gained_is_told_by_call() -> None:
    """As many calls pass as before: a total would say that nothing changed."""
    found = replay(RuleSet(ALLOW + HOLD, SCHEMA), INPUTS)
    assert {row.call: row.change for row in found.grave} == {
        "task_1/large": Change.LOST,
        "task_1/stopped": Change.GAINED,
    }
    assert found.counts["lost"] == found.counts["gained"] == 1
    assert "lost" in text_of(found)
    assert "task_1/large" in text_of(found)


def test_what_something_else_stopped_is_not_gained_by_any_bundle() -> None:
    assert changes(ALLOW)["outside"] is Change.NOT_ASKED


def test_rules_that_cannot_be_evaluated_are_unavailable_and_no_denial() -> None:
    rules = (
        '@id("a") permit (principal, action == Action::"refund", resource is Order);'
        '@id("b") forbid (principal, action == Action::"refund", resource is Order)'
        " when { resource.version * 9223372036854775807 > 0 };"
    )
    inputs = [recorded("overflow", "allow", facts={"version": 2})]
    (row,) = replay(RuleSet(rules, SCHEMA), inputs).rows
    assert row.change is Change.UNAVAILABLE


@pytest.mark.parametrize("broken", [{}, {"decision": "allow"}, INPUTS[0] | {"rules": {"agent": "x"}}])
def test_line_that_is_no_decision_input_is_named(broken: dict[str, Any]) -> None:
    with pytest.raises(ReplayError, match="line 1"):
        replay(RuleSet(ALLOW, SCHEMA), [broken])


def test_command_gates_by_calls_and_says_which(tmp_path: Path) -> None:
    (tmp_path / "bundle.yaml").write_text('version: 1\nescalate_to: "x"\n')
    (tmp_path / "rules.cedar").write_text(ALLOW + HOLD)
    (tmp_path / "schema.cedarschema").write_text(SCHEMA)
    inputs = tmp_path / "inputs.jsonl"
    inputs.write_text("".join(json.dumps(one) + "\n" for one in INPUTS))
    command = ["policy", "replay", str(tmp_path), "--inputs", str(inputs)]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "lost" in shown.stdout
    gated = CliRunner().invoke(app, [*command, "--gate", "--json"])
    assert gated.exit_code == 1
    assert json.loads(gated.stdout)["counts"]["lost"] == 1
    inputs.write_text("no json\n")
    assert CliRunner().invoke(app, command).exit_code == 1
    with pytest.raises(ReplayError, match="cannot be read"):
        list(read_inputs(tmp_path / "none"))


def test_new_policy_fits_its_catalog_denies_everything_and_passes_its_tests(tmp_path: Path) -> None:
    """The first lines that a rule author sees are sound, and an existing file is never overwritten."""
    policy = Path(__file__).parents[3] / "examples" / "refund" / "policy"
    for name in ("tools.yaml", "descriptors.binpb"):
        (tmp_path / name).write_bytes((policy / name).read_bytes())
    assert CliRunner().invoke(app, ["policy", "new", str(tmp_path)]).exit_code == 0
    assert "refund_allowed: Bool" in (tmp_path / "schema.cedarschema").read_text()
    for command in ("lint", "test"):
        result = CliRunner().invoke(app, ["policy", command, str(tmp_path)])
        assert result.exit_code == 0, result.output
    (tmp_path / "rules.cedar").write_text("// mine\n")
    assert CliRunner().invoke(app, ["policy", "new", str(tmp_path)]).exit_code == 1
    assert (tmp_path / "rules.cedar").read_text() == "// mine\n"
