"""Rules are sliced by action before they are evaluated: any bundle answers as the full set does."""

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from decider.policy.cedar import Failed, RuleCall, RuleSet, slice_of
from decider.policy.rules import RulesError
from tests.worlds.policies import SCHEMA, call_of

ON_ORDERS = ("refund", "read")
SCOPES = (
    *(f'action == Action::"{name}"' for name in ON_ORDERS),
    'action in [Action::"refund", Action::"read"]',
    'action in [Action::"read"]',
    'action in Action::"refund"',
    "action",
)
PRINCIPALS = ('principal == Agent::"bot"', 'principal == Agent::"other"', "principal is Agent", "principal")
CONDITIONS = (
    "",
    "when { resource.refund_allowed }",
    "when { !resource.refund_allowed }",
    "when { context.amount_minor > 5000 }",
    "unless { context.amount_minor > 5000 }",
    "when { context.tenant == resource.tenant }",
    "when { resource.version + context.amount_minor > 0 }",  # overflows: an error at run time
    'when { action == Action::"refund" }',
    'unless { action == Action::"read" }',
)
MARKS = ("", '@hold("finance-lead:1") ', '@hold("fx-desk:2") ', "@modify ")


@st.composite
def rules(draw: st.DrawFn) -> str:
    """The text of a bundle's rules, in any order, of any actions."""
    text = ""
    for number in range(draw(st.integers(0, 7))):
        effect = draw(st.sampled_from(("permit", "forbid")))
        mark = draw(st.sampled_from(MARKS)) if effect == "forbid" else ""
        scope = f"{draw(st.sampled_from(PRINCIPALS))}, {draw(st.sampled_from(SCOPES))}, resource is Order"
        text += f'@id("rule-{number}") {mark}{effect} ({scope}) {draw(st.sampled_from(CONDITIONS))};\n'
    if draw(st.booleans()):
        text += '@id("search") permit (principal, action == Action::"search", resource is Resource);\n'
    return text


CALLS = st.builds(
    lambda agent, operation, allowed, tenant, amount, version: call_of(
        agent=agent,
        operation=operation,
        facts={"tenant": tenant, "refund_allowed": allowed, "version": version},
        amount_minor=amount,
    ),
    st.sampled_from(("bot", "other", "third")),
    st.sampled_from(ON_ORDERS),
    st.booleans(),
    st.sampled_from(("t1", "t2")),
    st.sampled_from((0, 5000, 5001, (1 << 63) - 1)),
    st.sampled_from((0, 1, (1 << 63) - 1)),
)


def whole(rule_set: RuleSet, call: RuleCall, lifted: frozenset[str]) -> Any:
    """Evaluate against every rule of the bundle."""
    rule_set._slices[call.operation] = slice_of(rule_set.rules)
    return rule_set.narrow(call, lifted=lifted)


@settings(max_examples=40, deadline=None)
@given(rules(), CALLS, st.frozensets(st.sampled_from([f"rule-{n}" for n in range(7)])))
def test_slice_answers_as_the_full_set_does(text: str, call: RuleCall, lifted: frozenset[str]) -> None:
    try:
        sliced, full = RuleSet(text, SCHEMA), RuleSet(text, SCHEMA)
    except RulesError:  # a rule that can never apply is refused at build
        assume(False)
        raise
    one, other = sliced.narrow(call, lifted=lifted), whole(full, call, lifted)
    if isinstance(one, Failed) and isinstance(other, Failed):
        return  # both fail; which of several errors is told first is the engine's choice
    assert one == other
