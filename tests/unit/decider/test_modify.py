"""Narrowing a call: what rules may change of it, and that it stays the call that was asked."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decider.decision.envelope import Change, Envelope, House, build_envelope
from decider.decision.modify import changes_of, narrowed
from decider.policy.cedar import Forbidden, Narrowable, RuleSet
from decider.policy.rules import RulesError
from decider.policy.terms import Terms
from licet.catalog.method import MASK
from licet.refusal import Reason, Refusal
from licet.v1.bundle_pb2 import FieldChange
from tests.unit.decider.test_decide import NOW, house, request
from tests.worlds.decisions import REFUND, REFUND_BOT, TYPES, refund
from tests.worlds.policies import ALLOW, FORBID, HOLD, SCHEMA, call_of

RULE = "desk-limit"
CLAMP = """@id("desk-limit") @modify forbid (principal, action == Action::"refund", resource is Order)
when { context.amount_minor > 2000 };\n"""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> House:
    return house(tmp_path_factory.mktemp("modify"))


def asked(ground: House, body: bytes | None = None) -> Envelope:
    body = refund(minor=5000) if body is None else body
    envelope = build_envelope(request(request=body), REFUND_BOT, ground, now_ms=NOW)
    assert isinstance(envelope, Envelope), envelope
    return envelope


def terms(changes: Mapping[str, Mapping[str, Any]]) -> Terms:
    listed = [FieldChange(rule_id=RULE, method=REFUND, path=path, **how) for path, how in changes.items()]
    return Terms(changes={(RULE, REFUND): tuple(listed)})


def changed(changes: Mapping[str, Mapping[str, Any]]) -> tuple[FieldChange, ...]:
    return changes_of((RULE,), terms(changes), REFUND)


def test_amount_is_lowered_to_the_ceiling_and_all_else_stays(ground: House) -> None:
    envelope = asked(ground)
    effective = narrowed(
        envelope, changes_of((RULE,), terms({"amount.minor": {"at_most": 2000}}), REFUND), ground
    )
    assert isinstance(effective, Envelope)
    assert (effective.money, effective.resource) == ((2000, "USD"), envelope.resource)
    assert effective.spend_id == envelope.spend_id
    assert effective.call_digest != envelope.call_digest
    assert TYPES("IssueRefundRequest").FromString(effective.arguments.canonical).amount.minor == 2000


def test_approvers_see_what_was_narrowed_and_no_text_that_a_rule_took_out(ground: House) -> None:
    message = TYPES("IssueRefundRequest").FromString(refund(minor=5000))
    message.reason, message.memo, message.kind = "call 555-0100", "for Ana", 1
    message.lines.extend((1, 2))
    how: dict[str, Mapping[str, Any]] = {
        "amount.minor": {"at_most": 2000},
        "reason": {"mask": True},
        "memo": {"clear": True},
        "kind": {"set": {"text": "REFUND_KIND_PARTIAL"}},
        "lines": {"clear": True},
    }
    effective = narrowed(asked(ground, message.SerializeToString()), changed(how), ground)
    assert isinstance(effective, Envelope), effective
    assert effective.changes == (
        Change("amount.minor", "5000", "2000"),
        Change("reason", "(13 characters)", "(3 characters)"),
        Change("memo", "(7 characters)", "(none)"),
        Change("kind", "REFUND_KIND_FULL", "REFUND_KIND_PARTIAL"),
        Change("lines", "(2 values)", "(none)"),
    )
    again = narrowed(effective, changed({"amount.minor": {"at_most": 1000}}), ground)
    assert isinstance(again, Envelope)
    assert again.changes == (*effective.changes, Change("amount.minor", "2000", "1000"))
    flagged = replace(asked(ground), flagged=frozenset({"amount.minor"}))
    hidden = narrowed(flagged, changed({"amount.minor": {"at_most": 2000}}), ground)
    assert isinstance(hidden, Envelope)
    assert hidden.changes == (Change("amount.minor", MASK, MASK),)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"order_id": {"set": {"text": "O3"}}}, "another resource"),
        ({"amount.currency": {"set": {"text": "JPY"}}}, "another currency"),
        ({"amount.minor": {"set": {"integer": 9000}}}, "a larger amount"),
        ({"amount.minor": {"at_most": 1_000_000}}, "nothing would change"),
        ({"amount.minor": {"mask": True}}, "is no text"),
        ({"amount.minor": {"set": {"text": "5"}}}, "does not fit its field"),
        ({"amount": {"clear": True}}, "cannot be read: ARGUMENT_REFUSED"),
        ({"order_id": {"mask": True}}, "another resource"),
        ({"order_id": {"clear": True}}, "cannot be read: ARGUMENTS_MALFORMED"),
        ({"no_such": {"clear": True}}, "no single value"),
        ({"order_id.deeper": {"clear": True}}, "leads through no single message"),
        ({"amount.minor": {}}, "changes nothing"),
    ],
)
def test_change_that_makes_another_call_of_it_is_refused(
    ground: House, changes: dict[str, Any], why: str
) -> None:
    refusal = narrowed(asked(ground), changed(changes), ground)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.POLICY_DENIED
    assert why in refusal.detail


def test_rule_without_a_change_for_this_method_is_refused(ground: House) -> None:
    refusal = narrowed(
        asked(ground), changes_of(("other",), terms({"amount.minor": {"at_most": 1}}), REFUND), ground
    )
    assert isinstance(refusal, Refusal)
    assert "no change is given" in refusal.detail


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(minor=st.integers(1, 1 << 40), ceiling=st.integers(1, 1 << 40))
def test_narrowed_call_never_has_a_larger_amount_or_another_order(
    ground: House, minor: int, ceiling: int
) -> None:
    envelope = asked(ground, refund(minor=minor))
    effective = narrowed(
        envelope, changes_of((RULE,), terms({"amount.minor": {"at_most": ceiling}}), REFUND), ground
    )
    if minor <= ceiling:
        assert isinstance(effective, Refusal)
    else:
        assert isinstance(effective, Envelope)
        assert effective.money == (ceiling, "USD")
        assert effective.resource == envelope.resource


def test_rules_that_modify_are_told_apart_from_those_that_deny() -> None:
    """Where a plain forbid fires too, or nothing would allow it, there is nothing to narrow."""
    rules = RuleSet(ALLOW + FORBID + CLAMP, SCHEMA)
    assert rules.narrow(call_of(amount_minor=5000)) == Narrowable((RULE,))
    assert rules.narrow(call_of(amount_minor=5000), modify=False) == Forbidden((RULE,))
    assert rules.evaluate(call_of(amount_minor=5000)) == Forbidden((RULE,))
    refused = {"tenant": "t1", "refund_allowed": False, "version": 1}
    assert rules.narrow(call_of(facts=refused, amount_minor=5000)) == Forbidden(("not-allowed",))
    assert RuleSet(CLAMP, SCHEMA).narrow(call_of(amount_minor=5000)) == Forbidden(())


def test_call_that_is_held_as_well_is_narrowed_first() -> None:
    rules = RuleSet(ALLOW + HOLD + CLAMP, SCHEMA)
    assert rules.narrow(call_of(amount_minor=50_000)) == Narrowable((RULE,))
    assert rules.evaluate(call_of(amount_minor=50_000)) == Forbidden((RULE,))


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (CLAMP.replace("forbid", "permit"), "stands on a forbid only"),
        (CLAMP.replace("@modify", '@modify("amount")'), "takes no value"),
        (CLAMP.replace("@modify", '@modify @hold("lead:1")'), "either holds or modifies"),
    ],
)
def test_modify_where_it_means_nothing_is_refused(rule: str, fault: str) -> None:
    with pytest.raises(RulesError, match=fault):
        RuleSet(ALLOW + rule, SCHEMA)
