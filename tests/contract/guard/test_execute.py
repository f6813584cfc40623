"""What a guard does with a call that reached it, on both databases."""

from collections.abc import Callable

import pytest

from examples.refund.fin.v1.finance_pb2 import IssueRefundRequest, IssueRefundResponse
from licet.guard import Guard, Spend
from licet.guard.guard import Done
from licet.guard.step import Refused
from licet.refusal import Reason, Refusal
from licet.statement import PayloadType
from licet.v1.decision_pb2 import Obligation, Precondition
from licet.v1.statement_pb2 import Scalar
from tests.worlds.guarded_tool import GuardedTool, preconditions
from tests.worlds.mint import now_ms, refund


def reason(result: object) -> Reason:
    assert isinstance(result, Refusal), result
    return result.reason


def test_a_permit_moves_the_money_once_and_says_so_in_the_outbox(tool: GuardedTool) -> None:
    call = tool.call()
    done = tool.refund(call)
    assert isinstance(done, Done)
    assert not done.stored
    spend_id = done.reply.refund_id
    assert tool.ledger_rows() == [(spend_id, 1, "merchant", -5000), (spend_id, 2, "customer", 5000)]
    first, second = tool.outbox()
    assert (first.outbox_seq, first.entry.amount_minor, first.entry.currency) == (1, -5000, "USD")
    assert (second.outbox_seq, second.entry.resource, second.entry.tenant) == (2, "order:O1", "t1")
    assert (first.spend.issuer, first.trace_id, first.spend.attempt) == ("permit", "1" * 32, "a" * 32)
    assert abs(first.committed_at_us // 1000 - now_ms()) < 5_000
    assert len(first.spend.call_digest) == 32


def test_a_repeat_gets_the_stored_reply_and_the_change_does_not_run_again(tool: GuardedTool) -> None:
    call = tool.call()
    first = tool.refund(call)
    again = tool.refund(call)
    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert again.stored
    assert again.reply == first.reply
    assert tool.changes_run == 1
    assert len(tool.ledger_rows()) == 2


def test_a_precondition_without_a_value_is_met_by_nothing(tool: GuardedTool) -> None:
    """No permit that the door reads has one; whoever makes a Spend another way gets no yes from it either."""

    def met(precondition: Precondition, **facts: int) -> bool:
        with tool.store.ledger.transaction() as transaction:
            spend = Spend(
                transaction, spend_id="0" * 32, tenant="t1", resource="o", preconditions=(precondition,)
            )
            try:
                spend.check(tenant="t1", facts=facts)
            except Refused:
                return False
            return True

    assert not met(Precondition(check="a"), a=1)
    assert not met(Precondition(check="a"))
    assert not met(Precondition(check="a", expect=Scalar(integer=1)))
    assert met(Precondition(check="a", expect=Scalar(integer=1)), a=1)


def test_whether_a_call_was_executed_is_told_of_one_permit_alone(tool: GuardedTool) -> None:
    """Of two permits nobody can say which one the caller means: what is refused had no effect."""
    call, request = tool.call(), refund()
    [permit] = call.presented.permits
    assert not tool.guard.executed(call)
    assert isinstance(tool.refund(call), Done)
    assert tool.guard.executed(call)
    for permits in ((), (permit, permit), (b"\xff",)):
        assert not tool.guard.executed(tool.call_with(request, *permits))


@pytest.mark.negative(25)
def test_a_new_permit_for_an_executed_step_gets_the_stored_reply_and_changes_nothing(
    tool: GuardedTool,
) -> None:
    """The spend store lost the spend; the same step came again, as another round of another permit."""
    first = tool.refund(tool.call(call_id="step-25"))
    again = tool.refund(tool.call(call_id="step-25", round=1, preconditions=[]))
    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert again.stored
    assert again.reply == first.reply
    assert len(tool.ledger_rows()) == 2
    assert len(tool.spend_rows()) == 1


@pytest.mark.negative(25)
def test_other_arguments_under_an_executed_step_are_spent(tool: GuardedTool) -> None:
    assert isinstance(tool.refund(tool.call(call_id="step")), Done)
    assert reason(tool.refund(tool.call(refund(minor=4_000), call_id="step"))) is Reason.SPENT
    assert len(tool.ledger_rows()) == 2
    # its twin: the same arguments in a step of their own
    assert isinstance(tool.refund(tool.call(refund(minor=4_000), call_id="another")), Done)


@pytest.mark.negative(13)
def test_another_tenants_order_is_refused_whatever_the_preconditions_say(tool: GuardedTool) -> None:
    others = tool.call(refund("O4"), tenant="t1", preconditions=preconditions(**{"order.version": 1}))
    assert reason(tool.refund(others)) is Reason.PRECONDITION_FAILED
    assert tool.ledger_rows() == []
    # its twin: the tenant whose order it is
    assert isinstance(tool.refund(tool.call(refund("O4"), tenant="t2")), Done)


def test_an_order_that_changed_since_the_decision_is_refused(tool: GuardedTool) -> None:
    late = tool.call(refund(minor=1))
    assert isinstance(tool.refund(tool.call(refund(minor=2))), Done)
    assert reason(tool.refund(late)) is Reason.PRECONDITION_FAILED
    assert len(tool.ledger_rows()) == 2
    assert isinstance(tool.refund(tool.call(refund(minor=1))), Done)


@pytest.mark.parametrize(
    "checks",
    [{"order.colour": "red"}, {"order.version": "1"}, {"order.version": True}, {"order.status": 1}],
    ids=["not known to the tool", "text for a number", "truth for a number", "number for a text"],
)
def test_a_precondition_that_is_not_met_in_name_and_type_is_refused(
    tool: GuardedTool, checks: dict[str, object]
) -> None:
    call = tool.call(preconditions=preconditions(**checks))
    assert reason(tool.refund(call)) is Reason.PRECONDITION_FAILED
    assert tool.ledger_rows() == []
    assert tool.spend_rows() == []


def test_what_the_door_should_have_refused_is_refused_again(tool: GuardedTool) -> None:
    request = refund()
    permit = tool.mint.sign(tool.decision(request))
    denial = tool.mint.sign(tool.decision(request), slot=PayloadType.DECISION)
    cases = {
        Reason.NO_PERMIT: tool.call_with(request),
        Reason.PERMIT_AMBIGUOUS: tool.call_with(request, permit, permit),
        Reason.DIGEST_MISMATCH: tool.call_with(refund(minor=5_100), permit),
        Reason.RESOURCE_MISMATCH: tool.call_with(refund("O2"), permit),
        Reason.SIGNATURE_INVALID: tool.call_with(request, denial),
        Reason.KEY_ROLE: tool.call_with(request, tool.mint.sign(tool.decision(request), key="beacon")),
        Reason.AUDIENCE_MISMATCH: tool.call(audience="spiffe://licet.local/dev/tool/other"),
        Reason.EXPIRED: tool.call(issued_at_ms=now_ms() - 2_000, not_after_ms=now_ms() - 1),
        Reason.LIFE_TOO_LONG: tool.call(not_after_ms=now_ms() + 600_000),
        Reason.BUNDLE_SUPERSEDED: tool.call(bundle_version=6),
        Reason.GENERATION_SUPERSEDED: tool.call(generation=0),
        Reason.BEACON_BEHIND: tool.call(config_seq=99),
        Reason.PERMIT_MALFORMED: tool.call(spends=False),
    }
    assert {name: reason(tool.refund(call)) for name, call in cases.items()} == {name: name for name in cases}
    assert tool.changes_run == 0
    assert tool.spend_rows() == []
    assert isinstance(tool.refund(tool.call_with(request, permit)), Done)


def test_nothing_is_executed_before_the_first_beacon_or_under_an_old_one(tool: GuardedTool) -> None:
    fresh = tool.guard
    tool.guard = Guard(tool.store.ledger, tool.anchor())
    assert reason(tool.refund(tool.call())) is Reason.BEACON_STALE
    tool.beacon(issued_at_ms=now_ms() - 5_500)
    assert reason(tool.refund(tool.call())) is Reason.BEACON_STALE
    assert tool.ledger_rows() == []
    tool.guard = fresh
    assert isinstance(tool.refund(tool.call()), Done)


def test_a_change_that_fails_leaves_nothing_and_may_be_tried_again(tool: GuardedTool) -> None:
    call = tool.call()
    lawful = tool.change

    def failing(request: IssueRefundRequest) -> Callable[[Spend], IssueRefundResponse]:
        def run(spend: Spend) -> IssueRefundResponse:
            lawful(request)(spend)
            raise ZeroDivisionError

        return run

    tool.change = failing  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        tool.refund(call)
    assert (tool.ledger_rows(), tool.spend_rows(), tool.outbox()) == ([], [], ())
    tool.change = lawful  # type: ignore[method-assign]
    assert isinstance(tool.refund(call), Done)
    assert [change.outbox_seq for change in tool.outbox()] == [1, 2]  # no gap where the failed one was


@pytest.mark.parametrize("entries", [1, 3])
def test_a_change_that_writes_other_than_the_promised_entries_is_rolled_back(
    tool: GuardedTool, entries: int
) -> None:
    with pytest.raises((RuntimeError, *tool.store.refusals)):
        tool.refund(tool.call(), entries=entries)
    assert (tool.ledger_rows(), tool.spend_rows(), tool.outbox()) == ([], [], ())


def test_a_back_office_write_needs_no_permit_happens_once_and_names_its_issuer(tool: GuardedTool) -> None:
    def settle(spend: Spend) -> None:
        spend.check(tenant="t1", facts={})
        entry = spend.entry(account="fees", amount_minor=-7, currency="USD")
        statement = tool.store.spell(
            "INSERT INTO ledger (change_id, account, amount_minor, spend_id, entry) VALUES (?, ?, ?, ?, ?)"
        )
        spend.execute(statement, (f"fee/{spend.spend_id}", "fees", -7, spend.spend_id, entry))

    def write(reference: str) -> bool:
        return tool.guard.back_office(
            "settlement", reference, settle, tenant="t1", resource="account:fees", entries=1
        )

    assert [write("2026-11-29"), write("2026-11-29"), write("2026-11-30")] == [True, False, True]
    assert [change.spend.issuer for change in tool.outbox()] == ["settlement", "settlement"]
    assert len(tool.ledger_rows()) == 2


@pytest.mark.parametrize("issuer", ["permit", "before-licet", "", "Settlement", "a.b"])
def test_a_back_office_name_that_is_reserved_or_none_is_refused(tool: GuardedTool, issuer: str) -> None:
    with pytest.raises(ValueError, match=r"reserved|no name"):
        tool.guard.back_office(issuer, "r", lambda _: None, tenant="t1", resource="r:1", entries=0)


def test_what_the_door_does_to_a_reply_is_no_reason_to_refuse_the_call(tool: GuardedTool) -> None:
    """The step was used up at the door, and the guard refused it: no guarded method had a masked reply."""
    masked = Obligation(id="mask_reply", paths=["refund_id"])
    assert isinstance(tool.refund(tool.call(obligations=[masked])), Done)
    unknown = tool.refund(tool.call(obligations=[Obligation(id="mask_everything")]))
    assert isinstance(unknown, Refusal)
    assert unknown.reason is Reason.OBLIGATION_UNKNOWN
