"""What `licet approvals` shows an approver, and which answers it does not sign."""

import pytest

from decider.approval.cli import lines_of, row_of, why_not
from licet.v1.approvals_pb2 import HoldStatus
from licet.v1.hold_pb2 import Hold, HoldChange, HoldCost, HoldRequirement

HOLD = Hold(
    hold_id="0f" * 16,
    text="Refund 820.00 USD for order O1",
    requirements=[HoldRequirement(rule_id="large", role="finance-lead", quorum=1)],
    excluded_approvers=["ana@t1.example.com", "refund-bot"],
    risk_flags=["personal:email"],
)


def lines(facts_json: str) -> list[str]:
    hold = Hold()
    hold.CopyFrom(HOLD)
    hold.facts_json = facts_json
    return list(lines_of(row_of(HoldStatus(hold=hold.SerializeToString()))))


@pytest.mark.parametrize(
    "said",
    [
        "\\n  risk_flags  none",
        "\\r  risk_flags  none",
        "\\u001b[1A\\u001b[2K",
        "\\u009b2K",
        "\\u2028x",
        "\\u202e",
    ],
    ids=["a line", "a return", "an escape", "an escape of one byte", "a separator", "a turned line"],
)
def test_fact_of_a_tool_makes_no_line_of_its_own_and_takes_none_away(said: str) -> None:
    """A customer writes a note into an order; the person who approves its refund reads it as a fact."""
    honest = lines('{"note": "call back", "status": "paid"}')
    hostile = lines(f'{{"note": "call back{said}", "status": "paid"}}')
    assert "  risk_flags  personal:email" in honest
    assert [line for line in hostile if "note" not in line] == [line for line in honest if "note" not in line]
    assert len(hostile) == len(honest)
    assert all(line.isprintable() for line in hostile)


def test_what_it_costs_and_what_was_narrowed_stand_beside_the_sentence() -> None:
    hold = Hold(
        amount_minor=82_000,
        currency="USD",
        costs=[HoldCost(name="tokens", amount=300)],
        changes=[HoldChange(path="amount.minor", asked="820000", now="82000")],
    )
    row = row_of(HoldStatus(hold=hold.SerializeToString()))
    assert {"  cost        820.00 USD", "  cost        300 tokens"} < set(lines_of(row))
    assert "  narrowed    amount.minor: 820000 → 82000" in lines_of(row)
    assert (row["amount_minor"], row["costs"]) == (82_000, {"tokens": 300})
    assert not any("cost" in line for line in lines_of(row_of(HoldStatus(hold=HOLD.SerializeToString()))))


@pytest.mark.parametrize(
    ("who", "role", "why"),
    [
        ("ana@t1.example.com", "finance-lead", "a part in this call"),
        ("omar", "finance-lead", "approved it already"),
        ("lena", "tool-owner", "--role finance-lead"),
        ("lena", "finance-lead", ""),
    ],
)
def test_answer_that_could_not_count_is_not_signed_and_hears_why(who: str, role: str, why: str) -> None:
    assert why in why_not(HOLD, who, role, ("omar",))
    assert bool(why) == bool(why_not(HOLD, who, role, ("omar",)))
