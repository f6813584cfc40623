"""Evaluation: nothing but a clean allow allows."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decider.policy.cedar import Allowed, Failed, Forbidden, Held, RuleCall, RuleSet, slice_of
from licet.hold import Requirement
from tests.worlds.policies import ALLOW, FACTS, FORBID, HOLD, HOLD_2, SCHEMA, ask

LARGE = Requirement("large", "finance-lead", 1)
FOREIGN = Requirement("foreign", "fx-desk", 2)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("", Forbidden(())),
        ("// nothing but a comment", Forbidden(())),
        (FORBID, Forbidden(())),
        (ALLOW, Allowed(("bot",))),
        (ALLOW + FORBID, Allowed(("bot",))),
    ],
    ids=["empty", "comment", "only-deny", "only-allow", "both"],
)
def test_table_of_rule_sets_none_allows_by_default(rules: str, expected: object) -> None:
    assert ask(rules) == expected


def test_forbid_wins_and_is_named() -> None:
    assert ask(ALLOW + FORBID, facts=FACTS | {"refund_allowed": False}) == Forbidden(("not-allowed",))


def test_agent_that_no_rule_names_is_denied_by_none() -> None:
    assert ask(ALLOW, agent="other") == Forbidden(())


@pytest.mark.negative(38)
@pytest.mark.parametrize(
    ("facts", "context"),
    [
        ({"tenant": "t1", "version": 1}, {}),
        ({}, {}),
        (FACTS | {"refund_allowed": "true"}, {}),
        (FACTS | {"refund_allowed": 1}, {}),
        (FACTS | {"version": 1.0}, {}),
        (FACTS | {"version": 1 << 63}, {}),
        (FACTS | {"version": None}, {}),
        (FACTS, {"amount_minor": 50.0}),
        (FACTS, {"amount_minor": float("nan")}),
        (FACTS, {"amount_minor": 1 << 63}),
        (FACTS, {"amount_minor": "5000"}),
        (FACTS, {"tenant": {"__entity": {"type": "Agent", "id": "bot"}}}),
    ],
)
def test_missing_or_mistyped_attribute_is_a_failure_and_never_an_allow(
    facts: dict[str, Any], context: dict[str, Any]
) -> None:
    assert isinstance(ask(ALLOW + FORBID, facts=facts, **context), Failed)
    assert isinstance(ask(ALLOW + FORBID), Allowed)


def test_forbid_that_errors_at_run_time_fails_the_call() -> None:
    condition = "context.amount_minor * 9223372036854775807 > 1"
    overflow = f'@id("o") forbid (principal, action, resource) when {{ {condition} }};'
    assert isinstance(ask(ALLOW + overflow), Failed)
    assert isinstance(ask(ALLOW + overflow, amount_minor=0), Allowed)


def test_unknown_operation_is_a_failure() -> None:
    assert isinstance(ask(ALLOW, operation="delete_everything"), Failed)


def test_field_that_a_tool_adds_to_its_facts_stops_no_call() -> None:
    assert isinstance(ask(ALLOW, facts=FACTS | {"colour": "red"}), Allowed)


def test_a_call_with_facts_missing_does_not_change_what_later_calls_may_know() -> None:
    rules = RuleSet(ALLOW + FORBID, SCHEMA)
    context = {"tenant": "t1", "tier": 4, "amount_minor": 1, "currency": "USD"}
    missing = RuleCall("bot", "refund", "Order", "order:O1", {"tenant": "t1"}, context)
    whole = RuleCall("bot", "refund", "Order", "order:O1", FACTS, context)
    assert isinstance(rules.evaluate(missing), Failed)
    assert isinstance(rules.evaluate(whole), Allowed)


def test_hold_holds_what_would_be_allowed() -> None:
    assert ask(ALLOW + HOLD, amount_minor=10_001) == Held((LARGE,))
    assert ask(ALLOW + HOLD, amount_minor=10_000) == Allowed(("bot",))


def test_hold_on_what_no_rule_allows_is_a_denial() -> None:
    assert ask(HOLD, amount_minor=10_001) == Forbidden(())


def test_hold_beside_a_plain_forbid_is_a_denial_by_the_forbid() -> None:
    evaluation = ask(ALLOW + HOLD + FORBID, amount_minor=10_001, facts=FACTS | {"refund_allowed": False})
    assert evaluation == Forbidden(("not-allowed",))


def test_holds_unite_and_one_lifted_leaves_all_standing() -> None:
    rules = ALLOW + HOLD + HOLD_2
    both = {"amount_minor": 10_001, "currency": "EUR"}
    assert ask(rules, **both) == Held((FOREIGN, LARGE))
    assert ask(rules, lifted=frozenset({"large"}), **both) == Held((FOREIGN, LARGE))
    assert ask(rules, lifted=frozenset({"large", "foreign"}), **both) == Allowed(("bot",), (FOREIGN, LARGE))


def test_lifting_a_plain_forbid_is_not_possible() -> None:
    evaluation = ask(
        ALLOW + FORBID, facts=FACTS | {"refund_allowed": False}, lifted=frozenset({"not-allowed"})
    )
    assert evaluation == Forbidden(("not-allowed",))


RULES = [
    ALLOW,
    FORBID,
    HOLD,
    HOLD_2,
    HOLD.replace('@hold("finance-lead:1")', "@modify").replace("large", "narrow"),
    '@id("read") permit (principal, action == Action::"read", resource);',
    '@id("any") permit (principal == Agent::"root", action, resource);',
    (
        '@id("in") permit (principal, action in [Action::"refund", Action::"read"], resource)'
        " when { context.tier < 2 };"
    ),
    '@id("old") forbid (principal, action, resource is Order) when { resource.version > 7 };',
    (
        '@id("t") forbid (principal, action == Action::"read", resource is Order)'
        " when { resource.tenant != context.tenant };"
    ),
]


@settings(max_examples=80, deadline=None)
@given(
    rules=st.lists(st.sampled_from(RULES), unique=True),
    agent=st.sampled_from(["bot", "root", "other"]),
    operation=st.sampled_from(["refund", "read"]),
    allowed=st.booleans(),
    version=st.sampled_from([1, 8]),
    amount=st.sampled_from([1, 10_001]),
    currency=st.sampled_from(["USD", "EUR"]),
    tier=st.sampled_from([1, 4]),
)
def test_slice_by_action_answers_as_the_full_set(
    *,
    rules: list[str],
    agent: str,
    operation: str,
    allowed: bool,
    version: int,
    amount: int,
    currency: str,
    tier: int,
) -> None:
    sliced, full = RuleSet("".join(rules), SCHEMA), RuleSet("".join(rules), SCHEMA)
    everything = slice_of(full.rules)
    full._slices = {"refund": everything, "read": everything}
    facts = FACTS | {"refund_allowed": allowed, "version": version}
    context = {"tenant": "t1", "tier": tier, "amount_minor": amount, "currency": currency}
    call = RuleCall(agent, operation, "Order", "order:O1", facts, context)
    assert sliced.evaluate(call) == full.evaluate(call)
    assert sliced.narrow(call) == full.narrow(call)
