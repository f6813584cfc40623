"""Each finding, reached by the evidence it is for, beside its lawful twin."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.judging.findings import (
    FENCE_GRACE_MS,
    OVERDUE_US,
    PAGES,
    SETTLE_US,
    WINDOW_US,
    Change,
    Decided,
    Ended,
    FindingClass,
    Reserved,
    Story,
    classify,
    fence_due,
)

AT = 1_790_000_000_000_000
NOW = AT + 20_000_000
END_MS = AT // 1000 + 60_000
ALLOW = Decided(
    "d1", "s1", "allow", "", "t1", "finance", "order:O1", AT, 4, 5000, "USD", "digest", ("refunds",), END_MS
)
DENY = replace(ALLOW, decision="deny", reason="POLICY_DENIED", not_after_ms=0)
OUT = Change(
    "s1", "d1", "t1", "finance", "order:O1", 1, "c/1", "merchant:t1", -5000, "USD", AT + 100, "digest"
)
IN = replace(OUT, entry=2, change_id="c/2", account="customer:O1", amount_minor=5000)
RESERVE = Reserved("d1", 0, "a1", "valid", END_MS)
EXECUTED = Ended(0, "EXECUTED", "valid", AT + 200)
DONE = Story((ALLOW,), door_passed=True, reserves=(RESERVE,), outcomes=(EXECUTED,), changes=(OUT, IN))


def finding(story: Story, now_us: int = NOW) -> FindingClass:
    return classify(story, now_us=now_us).finding


def test_allowed_and_executed_exactly_as_announced() -> None:
    found = classify(DONE, now_us=NOW)
    assert (found.finding, found.settled, found.pages) == (FindingClass.ALLOWED_EXECUTED, True, False)


@pytest.mark.parametrize(
    "changes",
    [
        (replace(OUT, amount_minor=-5100), replace(IN, amount_minor=5100)),
        (replace(OUT, amount_minor=-4900), replace(IN, amount_minor=4900)),
        (replace(OUT, currency="JPY"), replace(IN, currency="JPY")),
        (replace(OUT, resource="order:O2"), IN),
        (replace(OUT, tenant="t2"), IN),
        (replace(OUT, call_digest="other"), IN),
        (OUT, IN, replace(OUT, entry=3, change_id="c/3")),
    ],
    ids=["more", "less", "currency", "resource", "tenant", "digest", "third row"],
)
def test_change_other_than_announced_is_wrong_parameters(changes: Any) -> None:
    found = classify(replace(DONE, changes=changes), now_us=NOW)
    assert (found.finding, found.pages) == (FindingClass.ALLOWED_WRONG_PARAMETERS, True)


def test_under_ceilings_less_is_lawful_and_more_is_not() -> None:
    story = replace(DONE, reserves=(replace(RESERVE, ceilings=True),))
    less = (
        replace(OUT, amount_minor=-4900, call_digest="x"),
        replace(IN, amount_minor=4900, call_digest="x"),
    )
    more = (replace(OUT, amount_minor=-5100), replace(IN, amount_minor=5100))
    assert finding(replace(story, changes=less)) is FindingClass.ALLOWED_EXECUTED
    assert finding(replace(story, changes=more)) is FindingClass.ALLOWED_WRONG_PARAMETERS


def test_denied_and_nothing_changed_is_the_correct_denial() -> None:
    assert finding(Story((DENY,))) is FindingClass.DENIED_STOPPED
    assert finding(Story((replace(DENY, decision="hold"),))) is FindingClass.DENIED_STOPPED


def test_failed_decision_is_no_correct_denial() -> None:
    assert (
        finding(Story((replace(DENY, decision="failed", reason="FACTS_UNAVAILABLE"),)))
        is FindingClass.FAILED_STOPPED
    )


@pytest.mark.negative(39)
@pytest.mark.parametrize("by", ["", "d9"], ids=["nobody", "another permit"])
def test_denied_resource_that_changed_all_the_same_is_a_bypass(by: Any) -> None:
    change = replace(OUT, spend_id="s9" if by else "", decision_id=by)
    found = classify(Story((DENY,), other_changes=(change,)), now_us=NOW)
    assert (found.finding, found.pages, found.settled) == (FindingClass.DENIED_BUT_BYPASSED, True, True)


@pytest.mark.parametrize(
    "change",
    [
        replace(OUT, spend_id="", resource="order:O2"),
        replace(OUT, spend_id="", tenant="t2"),
        replace(OUT, spend_id="", tool="mail"),
        replace(OUT, spend_id="", time_us=AT - 1),
        replace(OUT, spend_id="", time_us=AT + WINDOW_US + 1),
        replace(OUT, spend_id="", issuer="back-office"),
    ],
    ids=["resource", "tenant", "tool", "before", "long after", "back office"],
)
def test_change_of_something_else_is_no_bypass_of_this_denial(change: Any) -> None:
    assert finding(Story((DENY,), other_changes=(change,))) is FindingClass.DENIED_STOPPED


@pytest.mark.negative(39)
def test_change_that_nobody_decided_is_no_rule_lookup_and_on_a_denied_resource_a_bypass() -> None:
    orphan = replace(OUT, spend_id="", decision_id="")
    assert finding(Story(changes=(orphan,))) is FindingClass.NO_RULE_LOOKUP
    assert finding(Story(changes=(orphan,), other_decisions=(DENY,))) is FindingClass.DENIED_BUT_BYPASSED
    assert finding(Story(changes=(orphan,), other_decisions=(ALLOW,))) is FindingClass.NO_RULE_LOOKUP


def test_held_and_changed_without_approval() -> None:
    held = Story((replace(DENY, decision="hold"),), changes=(OUT, IN))
    assert finding(held) is FindingClass.HELD_WITHOUT_APPROVAL
    assert finding(replace(DONE, decisions=(replace(DENY, decision="hold"), ALLOW), approvals=("eva",))) is (
        FindingClass.ALLOWED_EXECUTED
    )


def test_rules_that_differ_from_the_label() -> None:
    assert finding(replace(DONE, label=("other",))) is FindingClass.WRONG_RULE
    assert finding(replace(DONE, label=("refunds",))) is FindingClass.ALLOWED_EXECUTED


def test_ledger_reader_that_sees_something_else() -> None:
    assert finding(replace(DONE, ledger_rows=(OUT, IN))) is FindingClass.ALLOWED_EXECUTED
    assert finding(replace(DONE, ledger_rows=(OUT,))) is FindingClass.LEDGER_DISAGREES
    hidden = replace(DONE, changes=(), outcomes=(replace(EXECUTED, outcome="VOIDED"),), ledger_rows=(OUT, IN))
    assert finding(hidden) is FindingClass.LEDGER_DISAGREES


def test_row_too_many_that_comes_right_after_the_execution_is_waited_for_and_found() -> None:
    """Settled at once, the step would never be looked at again, and the row would stay unseen."""
    tampered = replace(DONE, ledger_rows=(OUT, IN, replace(OUT, amount_minor=-1)))
    early, late = (classify(tampered, now_us=AT + wait) for wait in (SETTLE_US + 1, OVERDUE_US + 1_000_000))
    assert (early.finding, early.settled) == (FindingClass.ALLOWED_EXECUTED, False)
    assert (late.finding, late.settled) == (FindingClass.LEDGER_DISAGREES, True)
    honest = classify(replace(DONE, ledger_rows=(OUT, IN)), now_us=AT + SETTLE_US + 1)
    assert (honest.finding, honest.settled) == (FindingClass.ALLOWED_EXECUTED, True)


def test_outcome_and_ledger_that_contradict_each_other() -> None:
    voided = replace(DONE, outcomes=(replace(EXECUTED, outcome="VOIDED"),))
    assert finding(voided) is FindingClass.LEDGER_DISAGREES
    assert finding(replace(DONE, changes=())) is FindingClass.LEDGER_DISAGREES


def test_ledger_row_may_come_a_little_later_than_the_outcome() -> None:
    found = classify(replace(DONE, changes=()), now_us=AT + SETTLE_US)
    assert (found.finding, found.settled) == (FindingClass.ALLOWED_EXECUTED, False)


@pytest.mark.parametrize("outcome", ["VOIDED", "FAILED_NO_EFFECT"])
def test_no_effect_is_allowed_not_executed(outcome: Any) -> None:
    story = replace(DONE, changes=(), outcomes=(replace(EXECUTED, outcome=outcome),))
    assert finding(story) is FindingClass.ALLOWED_NOT_EXECUTED


def test_permit_never_presented_is_settled_when_it_has_ended() -> None:
    story = Story((ALLOW,), door_refusals=("DIGEST_MISMATCH",))
    early, late = classify(story, now_us=NOW), classify(story, now_us=(END_MS + FENCE_GRACE_MS) * 1000)
    assert (early.finding, early.settled) == (FindingClass.ALLOWED_NOT_EXECUTED, False)
    assert (late.finding, late.settled) == (FindingClass.ALLOWED_NOT_EXECUTED, True)
    assert "DIGEST_MISMATCH" in late.detail


def test_open_round_is_unknown_and_may_be_fenced_after_the_grace_only() -> None:
    story = Story((ALLOW,), reserves=(RESERVE,))
    due = (END_MS + FENCE_GRACE_MS) * 1000
    assert finding(story) is FindingClass.UNKNOWN_OUTCOME
    assert fence_due(story, now_us=due - 1) == ()
    assert fence_due(story, now_us=due) == (RESERVE,)
    assert fence_due(replace(story, outcomes=(EXECUTED,)), now_us=due) == ()


def test_round_after_one_without_effect_counts() -> None:
    story = replace(
        DONE,
        reserves=(RESERVE, replace(RESERVE, round=1, decision_id="d2")),
        decisions=(ALLOW, replace(ALLOW, decision_id="d2", time_us=AT + 50)),
        outcomes=(Ended(0, "VOIDED", "valid"), replace(EXECUTED, round=1)),
    )
    assert finding(story) is FindingClass.ALLOWED_EXECUTED


def test_permit_spent_that_no_decider_recorded() -> None:
    assert finding(Story(reserves=(RESERVE,))) is FindingClass.NO_RULE_LOOKUP


amounts = st.integers(-(2**63), 2**63 - 1)
changes = st.builds(
    Change,
    spend_id=st.just("s1"),
    decision_id=st.sampled_from(["d1", ""]),
    tenant=st.sampled_from(["t1", "t2"]),
    tool=st.just("finance"),
    resource=st.sampled_from(["order:O1", "order:O2"]),
    entry=st.integers(0, 3),
    change_id=st.text(max_size=3),
    account=st.text(max_size=3),
    amount_minor=amounts,
    currency=st.sampled_from(["USD", "JPY", ""]),
    time_us=st.integers(AT - WINDOW_US, AT + WINDOW_US),
    call_digest=st.sampled_from(["digest", "other", ""]),
    issuer=st.sampled_from(["permit", ""]),
)
decisions = st.builds(
    replace,
    st.sampled_from([ALLOW, DENY]),
    decision=st.sampled_from(["allow", "modify", "deny", "hold", "failed", "odd"]),
)
stories = st.builds(
    Story,
    decisions=st.lists(decisions, max_size=3).map(tuple),
    door_passed=st.booleans(),
    reserves=st.lists(st.just(RESERVE), max_size=1).map(tuple),
    outcomes=st.lists(
        st.builds(
            replace, st.just(EXECUTED), outcome=st.sampled_from(["EXECUTED", "VOIDED", "FAILED_NO_EFFECT"])
        ),
        max_size=1,
    ).map(tuple),
    changes=st.lists(changes, max_size=3).map(tuple),
    other_changes=st.lists(changes, max_size=2).map(tuple),
    other_decisions=st.lists(decisions, max_size=2).map(tuple),
)


@given(stories)
def test_change_without_a_usable_decision_is_never_called_executed(story: Any) -> None:
    found = classify(story, now_us=NOW)
    if story.changes and not any(decided.usable for decided in story.decisions):
        assert found.finding in PAGES
    if found.finding is FindingClass.ALLOWED_EXECUTED and story.changes:
        assert all(change.currency == "USD" for change in story.changes)
        assert all(change.resource == "order:O1" and change.tenant == "t1" for change in story.changes)


@given(stories)
def test_every_story_has_one_finding_and_pages_are_settled(story: Any) -> None:
    found = classify(story, now_us=NOW)
    assert isinstance(found.finding, FindingClass)
    assert found.settled or not found.pages or not story.changes or not story.decisions


def test_change_waits_a_moment_for_its_decision_which_comes_by_another_stream() -> None:
    """A writer that is behind in one stream must not wake anybody; a decision that never comes must."""
    changed = Story(changes=DONE.changes)
    at = max(change.time_us for change in DONE.changes)
    early, late = classify(changed, now_us=at + OVERDUE_US - 1), classify(changed, now_us=at + OVERDUE_US)
    assert (early.finding, early.settled) == (FindingClass.NO_RULE_LOOKUP, False)
    assert (late.finding, late.settled) == (FindingClass.NO_RULE_LOOKUP, True)
    assert classify(DONE, now_us=NOW).finding is FindingClass.ALLOWED_EXECUTED


@pytest.mark.negative(39)
def test_effect_past_the_sidecar_is_executed_without_spend_and_waits_for_a_lagging_spend_log() -> None:
    past = replace(DONE, reserves=(), outcomes=(), door_passed=False)
    at = max(change.time_us for change in past.changes)
    early, late = classify(past, now_us=at + OVERDUE_US - 1), classify(past, now_us=at + OVERDUE_US)
    assert (early.finding, early.settled) == (FindingClass.EXECUTED_WITHOUT_SPEND, False)
    assert (late.finding, late.settled, late.pages) == (FindingClass.EXECUTED_WITHOUT_SPEND, True, True)
    back_office = replace(past, changes=tuple(replace(one, issuer="back-office") for one in past.changes))
    assert finding(back_office) is FindingClass.ALLOWED_NOT_EXECUTED


def test_permit_spent_that_no_decider_recorded_is_settled_once_its_decision_is_overdue() -> None:
    story = Story(reserves=(replace(RESERVE, time_us=AT),))
    assert not classify(story, now_us=AT + OVERDUE_US - 1).settled
    assert classify(story, now_us=AT + OVERDUE_US).settled


def test_bypass_by_many_names_a_few_and_counts_the_rest() -> None:
    many = tuple(replace(OUT, spend_id=f"s{n}", decision_id=f"x{n:04}") for n in range(1000))
    detail = classify(Story((DENY,), other_changes=many), now_us=NOW).detail
    assert detail.endswith("and 995 more")
    assert len(detail) < 200


def test_step_of_which_rows_were_cut_is_not_judged_and_pages() -> None:
    found = classify(replace(DONE, cut=("spend.outcome",)), now_us=NOW)
    assert (found.finding, found.pages) == (FindingClass.NOT_JUDGED, True)
    assert classify(replace(DONE, strangers=("a of `b`",)), now_us=NOW).detail == "not counted: a of `b`"
