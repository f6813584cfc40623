"""A call decided dry says what a running decider says of it, and leaves nothing behind."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from decider.policy.dry import decide_dry, read_call, read_ground
from licet.cli import app
from tests.integration.decider.test_modify import CHANGES, CLAMP, activate
from tests.worlds.decisions import ENV, House, order, refund

pytestmark = pytest.mark.asyncio

HOLD = """
@id("large") @hold("finance-lead:1")
forbid (principal, action == Action::"refund", resource is Order) when { context.amount_minor < 100 };
"""

CALLS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"minor": 1500}, {}),
    ({"minor": 5000}, {}),
    ({"minor": 50}, {}),
    ({"minor": 1500, "order_id": "O3"}, {"refund_allowed": False}),
    ({"minor": 1500, "order_id": "O4"}, {"tenant": "t2"}),
    ({"minor": 0}, {}),
    ({"minor": 1500, "currency": "JPY"}, {}),
]


async def test_dry_decision_is_the_running_deciders(house: House, tmp_path: Path) -> None:
    """Same decision, reason and rules for each call; a test of both, since they are made apart."""
    await activate(house, CLAMP + HOLD, {"modify": CHANGES})
    now_ms = time.time_ns() // 1_000_000
    ground = read_ground(house.ground.policy, environment=ENV, trust_domain="licet.local", now_ms=now_ms)
    for at, (asked, changes) in enumerate(CALLS):
        order_id = asked.get("order_id", "O1")
        facts = order(order_id, **changes)
        house.finance.orders[order_id] = facts
        await house.decide(refund(**asked), call_id=f"dry-{at}")
        (event,) = await house.decisions(f"dry-{at}")
        file = tmp_path / f"{at}.yaml"
        money = {"minor": str(asked["minor"]), "currency": asked.get("currency", "USD")}
        call = {
            "caller": "agent/refund-bot",
            "task": "task_789",
            "call_id": f"dry-{at}",
            "method": "fin.v1.Finance/IssueRefund",
            "arguments": {"order_id": order_id, "amount": money},
            "facts": facts,
        }
        file.write_text(yaml.safe_dump(call))
        record = decide_dry(read_call(file), ground, now_ms=now_ms)
        said = (
            record["kind"],
            record.get("reason", ""),
            sorted(record["rule_ids"]),
            record.get("amount_minor", 0),
        )
        assert said == (event.kind, event.reason, sorted(event.rule_ids), event.amount_minor), asked
    before = len(await house.events())
    result = CliRunner().invoke(
        app, ["explain", str(tmp_path / "3.yaml"), "--policy", str(house.ground.policy), "--json"]
    )
    assert result.exit_code == 0, result.output
    answers = {one["question"]: one for one in json.loads(result.stdout)["answers"]}
    assert answers["may the agent use the tool?"]["answer"] == "no"
    assert "refund-not-allowed" in answers["may the agent use the tool?"]["rule"]
    assert len(await house.events()) == before


NINES = "99999999999999999999"
LIMITLESS = f"""caller: agent/refund-bot
task: task_789
method: fin.v1.Finance/IssueRefund
arguments: {{order_id: O1, amount: {{minor: {NINES}, currency: USD}}}}
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("caller: a\ntask: t\nmethod: m\nargument: {}\n", "unknown field"),
        ("task: t\nmethod: m\n", "is required"),
        (
            "caller: a\ntask: t\nmethod: fin.v1.Finance/IssueRefund\narguments: {orderid: 1}\n",
            "call.yaml:4: arguments:",
        ),
        (LIMITLESS, "call.yaml:4: arguments: "),
        (LIMITLESS.replace(NINES, "1") + "facts: {version: no}\n", "call.yaml:5: facts: "),
        ("", "is empty"),
    ],
)
async def test_call_file_that_says_nothing_useful_is_refused_with_its_field(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "call.yaml"
    file.write_text(text)
    result = CliRunner().invoke(app, ["explain", str(file), "--policy", "examples/refund/policy"])
    assert result.exit_code == 1
    assert why in " ".join(result.output.split())
