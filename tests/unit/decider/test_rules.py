"""Rule texts that mislead their reader: each is refused at build, or does what a careful reader expects."""

import pytest

from decider.policy.cedar import Allowed, Forbidden, Held, RuleSet
from decider.policy.rules import MAX_RULES, RulesError, parse_rules
from tests.worlds.policies import ALLOW, FORBID, HOLD, SCHEMA, ask

FORBID_HAS = (
    '@id("n") forbid (principal, action == Action::"refund", resource is Order) '
    'when { resource has note && resource.note == "x" };'
)

REFUSED = {
    "approvals-in-text": (
        '@id("a") permit (principal, action, resource) when { context.approvals > 1 };',
        "approvals",
    ),
    "hold-on-permit": (ALLOW.replace('@id("bot")', '@id("bot") @hold("lead:1")'), "stands on a forbid only"),
    "misspelt-hold": (HOLD.replace("@hold", "@holds"), "unknown annotation `@holds`"),
    "capital-hold": (HOLD.replace("@hold", "@Hold"), "unknown annotation `@Hold`"),
    "hold-of-nobody": (HOLD.replace("finance-lead:1", "finance-lead:0"), "must be `role:n`"),
    "hold-of-minus-one": (HOLD.replace("finance-lead:1", "finance-lead:-1"), "must be `role:n`"),
    "hold-without-number": (HOLD.replace("finance-lead:1", "finance-lead"), "must be `role:n`"),
    "hold-of-ten": (HOLD.replace("finance-lead:1", "finance-lead:10"), "must be `role:n`"),
    "hold-empty": (HOLD.replace("finance-lead:1", ""), "must be `role:n`"),
    "two-holds-on-one-rule": (HOLD.replace('@hold("', '@hold("x:1") @hold("'), "no Cedar"),
    "same-id-twice": (ALLOW + ALLOW.replace("bot", "bot"), "given twice"),
    "no-id": (ALLOW.replace('@id("bot")', ""), "has no `@id`"),
    "empty-id": (ALLOW.replace('@id("bot")', '@id("")'), "has no `@id`"),
    "id-with-space": (ALLOW.replace('@id("bot")', '@id("the bot")'), "an id is 1 to 64"),
    "guarded-forbid": (FORBID_HAS, "a forbid must not use `has`"),
    "guarded-unless": (
        FORBID_HAS.replace("when", "unless").replace(' && resource.note == "x"', ""),
        "a forbid must not use `has`",
    ),
    "optional-attribute": (FORBID_HAS.replace("resource has note && ", ""), "note"),
    "unknown-attribute": (FORBID.replace("refund_allowed", "refund_alowed"), "refund_alowed"),
    "unknown-action": (ALLOW.replace('"refund"', '"refnd"'), "refnd"),
    "unknown-type": (ALLOW.replace("is Order", "is Ordr"), "Ordr"),
    "number-as-text": (FORBID.replace("!resource.refund_allowed", 'resource.version == "1"'), "not-allowed"),
    "float": (HOLD.replace("10000", "100.5"), "no Cedar"),
    "template": ('@id("t") permit (principal == ?principal, action, resource);', "templates"),
    "not-cedar": ("allow everything", "no Cedar"),
    "too-many": ("".join(ALLOW.replace('"bot")', f'"b{n}")', 1) for n in range(MAX_RULES + 1)), "more than"),
}


@pytest.mark.parametrize(("rules", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_misleading_rules_are_refused_at_build(rules: str, why: str) -> None:
    with pytest.raises(RulesError) as error:
        RuleSet(rules, SCHEMA)
    assert why in str(error.value)


def test_the_lawful_twins_are_taken() -> None:
    assert len(RuleSet(ALLOW + FORBID + HOLD, SCHEMA).rules) == 3


def test_has_in_a_permit_only_narrows_and_is_taken() -> None:
    permit = ALLOW.replace(";", " when { resource has note };")
    assert isinstance(ask(permit), Forbidden)
    assert isinstance(
        ask(permit, facts={"tenant": "t1", "refund_allowed": True, "version": 1, "note": "x"}), Allowed
    )


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (SCHEMA.replace("currency: String", "currency: String, approvals: Long"), "approvals"),
        (SCHEMA.replace("tier: Long", "tier: String"), "tier"),
        (SCHEMA.replace("principal: Agent", "principal: Order"), "applicable action"),
        ("namespace Fin {" + SCHEMA + "}", "namespace"),
        ("", "refund"),
        ("nonsense", "no Cedar schema"),
    ],
    ids=["approvals-in-schema", "other-type", "other-principal", "namespace", "empty", "nonsense"],
)
def test_schema_that_no_call_could_ever_fit_is_refused_at_build(schema: str, why: str) -> None:
    with pytest.raises(RulesError, match=why):
        RuleSet(ALLOW, schema)


def test_forbid_outside_its_action_does_not_stop_another() -> None:
    rules = ALLOW + FORBID.replace('Action::"refund"', 'Action::"read"')
    assert isinstance(ask(rules, facts={"tenant": "t1", "refund_allowed": False, "version": 1}), Allowed)


def test_hold_without_condition_holds_everything() -> None:
    rules = ALLOW + '@id("all") @hold("lead:1") forbid (principal, action, resource);'
    assert isinstance(ask(rules), Held)


def test_every_fault_is_reported_at_once() -> None:
    with pytest.raises(RulesError) as error:
        parse_rules(ALLOW.replace('@id("bot")', "") + HOLD.replace("@hold", "@hald") + FORBID_HAS)
    assert len(error.value.faults) == 3
