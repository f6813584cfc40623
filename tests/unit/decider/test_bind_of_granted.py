"""A permit for a range of calls holds no call that what was granted for this one would have stopped."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from decider.approval.votes import HoldState, Tally
from decider.decision.decide import decide, narrow_verdict, overbooked, resume
from decider.decision.envelope import Envelope, build_envelope
from decider.decision.limits import NOTHING_SEEN, Seen, Stop
from decider.decision.record import verdict_event
from decider.decision.verdict import LIFE_MS, Verdict
from decider.in_force.in_force import InForce
from decider.policy.cedar import Allowed
from decider.policy.terms import Terms
from decider.task.contract import CONTRACT_RULE, Contract
from licet.delegation import Delegation
from licet.explain import Said, explain
from licet.refusal import Reason, Refusal
from licet.tier import CallClass
from licet.v1.decision_pb2 import (
    CONSTRAINT_OP_GE,
    CONSTRAINT_OP_LE,
    DECISION_TYPE_ALLOW,
    DECISION_TYPE_DENY,
    DECISION_TYPE_MODIFY,
    Constraint,
    ConstraintOp,
)
from licet.v1.statement_pb2 import Scalar
from tests.unit.decider.test_decide import FACTS, MOMENT, NOW, house, in_force, request, usable
from tests.worlds.decisions import POLICY, REFUND, REFUND_BOT, refund

AMOUNT: Final = ("amount", "minor")


def bound(op: ConstraintOp.ValueType, value: int) -> Constraint:
    return Constraint(path=AMOUNT, op=op, values=[Scalar(integer=value)])


RANGE: Final = (bound(CONSTRAINT_OP_GE, 1), bound(CONSTRAINT_OP_LE, 5000))


def ranged(now: InForce | None = None) -> InForce:
    """The rule `bot` binds its permits to 1 to 50.00."""
    now = now or in_force()
    terms = Terms(ceilings=MappingProxyType({("bot", REFUND): RANGE}))
    return replace(now, bundle=replace(now.bundle, terms=terms))


def link(
    constraints: Mapping[str, tuple[Constraint, ...]] | None = None, *, left_ms: int = 3_600_000
) -> Delegation:
    every = frozenset({"*"})
    return Delegation(
        *("a" * 32, "", b"", 1, "t1", "ana", "refund-bot", NOW - 1, NOW + left_ms),
        *(frozenset({"dev"}), every, every, every, 4, 4, 9),
        constraints=constraints or {},
        max_cost={"USD": 10_000},
    )


@pytest.fixture
def envelope(tmp_path: Path) -> Envelope:
    """A refund of 5.00 at a method whose permits may be for a range."""
    tools = (POLICY / "tools.yaml").read_text()
    ranged_tools = tools.replace("    guarded: true\n", "    guarded: true\n    ceilings: true\n", 1)
    made = build_envelope(
        request(request=refund(minor=500)), REFUND_BOT, house(tmp_path, ranged_tools), now_ms=NOW
    )
    assert isinstance(made, Envelope), made
    return made


def permit(envelope: Envelope, now: InForce | None = None) -> Verdict:
    verdict = usable(decide(envelope, FACTS, Allowed(("bot",)), now or ranged(), MOMENT))
    assert verdict.decision.decision == DECISION_TYPE_ALLOW, verdict.refusal
    return verdict


def most(verdict: Verdict) -> int:
    """The largest amount that the permit lets through."""
    if not verdict.decision.ceilings:
        return 500
    tops = [
        one for one in verdict.decision.ceilings if one.op == CONSTRAINT_OP_LE and tuple(one.path) == AMOUNT
    ]
    return min(one.values[0].integer for one in tops)


def test_lawful_twin_nothing_else_granted_is_bound_to_the_range(envelope: Envelope) -> None:
    assert most(permit(envelope)) == 5000


def test_range_ends_where_the_constraint_of_a_link_ends(envelope: Envelope) -> None:
    """Ana hands down at most 10.00 a refund; asked for 5.00, the agent must not get a permit for 50.00."""
    narrow = link({REFUND: (bound(CONSTRAINT_OP_LE, 1000),)})
    assert most(permit(replace(envelope, links=(narrow,)))) <= 1000


def test_range_ends_where_the_contract_of_the_task_ends(envelope: Envelope) -> None:
    """The task's contract names 5.00 alone."""
    contract = Contract(
        frozenset({"*"}), values={envelope.method.operation: {"amount.minor": frozenset({"500"})}}
    )
    task = replace(envelope.task, contract=contract)
    assert most(permit(replace(envelope, task=task))) == 500


def approved(waiting: Envelope) -> Tally:
    """The hold of this call, lifted by lena."""
    held = usable(decide(waiting, FACTS, Allowed(("bot",)), ranged(), MOMENT))
    assert held.hold is not None
    return Tally(held.hold, HoldState.LIFTED, (), ("lena",), (), ())


@pytest.mark.parametrize("when", ["seen before the rules", "booked last"])
def test_call_that_people_approved_and_a_limit_stopped_says_who_approved_it(
    envelope: Envelope, when: str
) -> None:
    contract = Contract(frozenset({"*"}), needs_approval=frozenset({"*"}))
    waiting = replace(envelope, task=replace(envelope.task, contract=contract))
    people, stop = approved(waiting), Stop(Refusal(Reason.BUDGET_EXHAUSTED, "x"), ("budget-x",))
    seen = Seen(stop) if when == "seen before the rules" else NOTHING_SEEN
    again = resume(waiting, FACTS, Allowed(("bot",)), people, in_force=ranged(), moment=MOMENT, seen=seen)
    assert isinstance(again, Verdict)
    stopped = again if seen.stop else overbooked(waiting, again, stop, ranged(), MOMENT)
    _, record = verdict_event(stopped, waiting, bytes(32))
    assert (record["decision"], record["reason"]) == ("deny", "BUDGET_EXHAUSTED")
    said = {one.question: (one.answer, one.value, one.rule) for one in explain(record).answers}
    approval = (Said.YES, "approved by lena", f"hold {people.hold.hold_id}")
    assert said["did the people approve that must?"] == approval
    assert said["is there a budget for it?"][0] is Said.NO


def test_permit_that_people_approved_is_for_the_call_that_they_saw(envelope: Envelope) -> None:
    """A person approved 5.00 for this step; the permit must not let 50.00 through."""
    contract = Contract(frozenset({"*"}), needs_approval=frozenset({"*"}))
    waiting = replace(envelope, task=replace(envelope.task, contract=contract))
    people = approved(waiting)
    assert [need.rule_id for need in people.hold.requirements] == [CONTRACT_RULE]
    verdict = resume(waiting, FACTS, Allowed(("bot",)), people, in_force=ranged(), moment=MOMENT)
    assert isinstance(verdict, Verdict)
    assert verdict.decision.decision == DECISION_TYPE_ALLOW
    assert most(verdict) == 500
    assert verdict.decision.call_digest == envelope.call_digest


def test_no_permit_outlives_a_link_that_it_rests_on(envelope: Envelope) -> None:
    long, short = link(), link(left_ms=700)
    assert permit(replace(envelope, links=(long,))).decision.not_after_ms == NOW + LIFE_MS[CallClass.WRITE]
    assert permit(replace(envelope, links=(long, short))).decision.not_after_ms == NOW + 700


def test_stage_shadow_lets_no_call_past_a_delegation_that_is_used_up(envelope: Envelope) -> None:
    """Docs: in stage shadow, contracts and delegations deny all the same."""
    shadow = in_force(shadow=True, waived_ms=LIFE_MS[CallClass.WRITE])
    allowed = permit(envelope, shadow)
    budget = Stop(Refusal(Reason.BUDGET_EXHAUSTED, "x"), ("budget-x",))
    assert overbooked(envelope, allowed, budget, shadow, MOMENT).shadow == "deny", (
        "the lawful twin: budgets are on trial"
    )
    used_up = Stop(Refusal(Reason.DELEGATION_EXCEEDED, "x"), ("delegation-max-calls",))
    stopped = overbooked(envelope, permit(envelope, shadow), used_up, shadow, MOMENT)
    assert stopped.decision.decision == DECISION_TYPE_DENY


def test_narrowed_permit_is_for_the_narrowed_call_alone(envelope: Envelope) -> None:
    """Rules lowered 50.00 to 5.00; ceilings of the allowing rule must not give the 50.00 back."""
    asked = replace(envelope, call_digest=b"a" * 32)
    verdict = narrow_verdict(asked, envelope, permit(envelope), ("desk-limit",))
    assert verdict.decision.decision == DECISION_TYPE_MODIFY
    assert most(verdict) == 500
    assert verdict.decision.call_digest == envelope.call_digest
