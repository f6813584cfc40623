"""Twelve questions about a call: every refusal answers one with no, and nothing after it with yes."""

import json
from typing import Any

import pytest

from licet.explain import Said, explain, text_of
from licet.refusal import Reason

RECORD: dict[str, Any] = {
    "kind": "decision.allowed",
    "decision": "allow",
    "event_id": "e" * 32,
    "task_id": "task_1",
    "call_id": "call-1",
    "tenant": "t1",
    "principal": "ana",
    "agent": "refund-bot",
    "environment": "dev",
    "tool": "finance",
    "tool_version": "ab" * 32,
    "method": "/fin.v1.Finance/IssueRefund",
    "operation": "refund",
    "tier": 4,
    "resource": "order:O1",
    "call_digest": "cd" * 32,
    "bundle_version": 7,
    "rule_ids": ["refund-bot-refunds"],
    "amount_minor": 5000,
    "currency": "USD",
    "risk_flags": [],
    "config_seq": 11,
    "generation": 2,
}


def refused(reason: Reason, decision: str = "deny", **fields: Any) -> dict[str, Any]:
    return RECORD | {"decision": decision, "reason": str(reason), "kind": f"decision.{decision}"} | fields


def test_allowed_call_answers_twelve_questions_with_yes_value_and_rule() -> None:
    found = explain(RECORD)
    assert len(found.answers) == 12
    assert {answer.answer for answer in found.answers} == {Said.YES}
    assert all(answer.value for answer in found.answers)
    by = {answer.question: answer for answer in found.answers}
    assert by["is there a budget for it?"].value == "50.00 USD"
    assert "refund-bot-refunds" in by["may the agent use the tool?"].rule
    assert text_of(found).count("\n") == 12


def test_explanation_names_its_reason_and_goes_into_json_whole() -> None:
    found = explain(refused(Reason.BUDGET_EXHAUSTED))
    assert str(Reason.BUDGET_EXHAUSTED) in text_of(found).partition("\n")[0]
    assert text_of(explain(RECORD)).partition("\n")[0].endswith(": allow")
    read = json.loads(json.dumps(found.to_dict()))
    assert (read["reason"], len(read["answers"])) == (str(Reason.BUDGET_EXHAUSTED), 12)
    assert read["answers"][0] == {
        "question": found.answers[0].question,
        "answer": found.answers[0].answer,
        "value": found.answers[0].value,
        "rule": found.answers[0].rule,
    }


@pytest.mark.parametrize("reason", sorted(Reason))
def test_every_reason_answers_exactly_one_question_with_no(reason: Reason) -> None:
    """No reason, known or to come, makes an unasked question look as if it had been answered."""
    answers = explain(refused(reason)).answers
    assert [answer.answer for answer in answers].count(Said.NO) == 1
    assert answers[-1].answer in {Said.YES, Said.NO}


@pytest.mark.parametrize(
    ("reason", "question", "unasked"),
    [
        (Reason.TASK_UNKNOWN, "was it put into an envelope?", "is it the tenant's own?"),
        (Reason.TENANT_MISMATCH, "is it the tenant's own?", "may the agent use the tool?"),
        (Reason.TOKEN_EXPIRED, "may the user delegate it?", "is it the tenant's own?"),
        (Reason.DELEGATION_REVOKED, "may the user delegate it?", "is it the tenant's own?"),
        (Reason.POLICY_DENIED, "may the agent use the tool?", "did the people approve that must?"),
        (Reason.ARGUMENT_REFUSED, "are the arguments in order?", "may the agent use the tool?"),
        (Reason.CONTRACT_REFUSED, "does it fit the task?", "may the agent use the tool?"),
        (Reason.ENVIRONMENT_STOPPED, "is it the right environment?", "may the agent use the tool?"),
        (Reason.BUDGET_EXHAUSTED, "is there a budget for it?", ""),
        (Reason.LOOP_BROKEN, "is there a budget for it?", "did the people approve that must?"),
        (Reason.HOLD_REJECTED, "did the people approve that must?", "is there a budget for it?"),
        (Reason.DECISION_NOT_RECORDED, "is it on record?", ""),
    ],
)
def test_reason_answers_its_own_question(reason: Reason, question: str, unasked: str) -> None:
    said = {answer.question: answer.answer for answer in explain(refused(reason)).answers}
    assert said[question] is Said.NO
    assert not unasked or said[unasked] is Said.NOT_ASKED


def test_autonomy_mode_is_a_question_of_its_own() -> None:
    detail = "the task's contract: tier 4 is more than its autonomy mode"
    answers = explain(refused(Reason.CONTRACT_REFUSED, detail=detail)).answers
    said = {answer.question: answer for answer in answers}
    assert said["does the mode allow it?"].answer is Said.NO
    assert detail in said["does the mode allow it?"].value


def test_held_call_waits_for_the_people_of_its_rules_and_failure_is_no_no() -> None:
    held = explain(refused(Reason.HELD, "hold", rule_ids=["large"], hold_id="f" * 32))
    (waits,) = [answer for answer in held.answers if answer.answer is Said.WAITS]
    assert "large" in waits.rule
    failed = explain(refused(Reason.EVALUATION_FAILED, "failed"))
    assert [answer.answer for answer in failed.answers].count(Said.FAILED) == 1
    assert Said.NO not in {answer.answer for answer in failed.answers}


def test_call_decided_dry_claims_neither_record_nor_budget() -> None:
    said = {answer.question: answer.answer for answer in explain(RECORD, stored=False).answers}
    assert said["is it on record?"] is said["is there a budget for it?"] is Said.NOT_ASKED
