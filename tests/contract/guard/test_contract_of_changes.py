"""A tool's own code that breaks its contract with the guard leaves nothing behind, and is told why."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from examples.refund.fin.v1.finance_pb2 import IssueRefundResponse
from licet.guard import Guard, Spend, SqliteLedger
from licet.guard.guard import Done, Effect
from licet.guard.ledger import MAX_ENTRIES, CommitUnknown, LedgerUnavailable
from licet.refusal import Reason, Refusal
from tests.worlds.guarded_tool import GuardedTool
from tests.worlds.mint import GET_ORDER, refund

Run = Callable[[Spend], IssueRefundResponse]

OR_ROLLBACK = "INSERT OR ROLLBACK INTO orders (order_id) VALUES ('O1')"


def run(tool: GuardedTool, change: Run, *, entries: int = 2) -> Done[IssueRefundResponse] | Refusal:
    return tool.guard.execute(tool.call(), Effect(change, IssueRefundResponse, entries))


def untouched(tool: GuardedTool) -> bool:
    return (tool.ledger_rows(), tool.spend_rows(), tool.outbox()) == ([], [], ())


def test_entries_before_the_check_are_refused(tool: GuardedTool) -> None:
    def hasty(spend: Spend) -> IssueRefundResponse:
        spend.entry(account="merchant", amount_minor=-1, currency="USD")
        raise AssertionError

    with pytest.raises(RuntimeError, match="call `check` before"):
        run(tool, hasty)
    assert untouched(tool)


def test_a_change_that_never_checks_is_rolled_back(tool: GuardedTool) -> None:
    with pytest.raises(RuntimeError, match="call `check` before"):
        run(tool, lambda _: IssueRefundResponse(), entries=0)
    assert untouched(tool)


def test_entries_that_were_announced_and_not_written_are_refused(tool: GuardedTool) -> None:
    def announcing(spend: Spend) -> IssueRefundResponse:
        spend.check(tenant="t1", facts={"order.version": 1, "order.tenant": "t1", "order.status": "paid"})
        for _ in range(2):
            spend.entry(account="merchant", amount_minor=-1, currency="USD")
        return IssueRefundResponse()

    with pytest.raises(RuntimeError, match="does not hold the entries"):
        run(tool, announcing)
    assert untouched(tool)


def test_a_reply_that_cannot_be_kept_is_refused(tool: GuardedTool) -> None:
    lawful = tool.change(refund())

    def talkative(spend: Spend) -> IssueRefundResponse:
        lawful(spend)
        return IssueRefundResponse(refund_id="x" * (1 << 20))

    with pytest.raises(RuntimeError, match="cannot be kept"):
        run(tool, talkative)
    assert untouched(tool)


@pytest.mark.parametrize("entries", [-1, MAX_ENTRIES + 1])
def test_a_promise_of_too_many_entries_is_refused(tool: GuardedTool, entries: int) -> None:
    answer = run(tool, tool.change(refund()), entries=entries)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.INTERNAL
    assert untouched(tool)


def test_a_read_is_not_executed_as_an_effect(tool: GuardedTool) -> None:
    request = refund()
    permit = tool.mint.permit(GET_ORDER, b"\x0a\x02O1")
    call = tool.call_with(request, permit)
    shown = type(call.presented)(GET_ORDER, (permit,), (), b"\x0a\x02O1", "")
    answer = tool.guard.execute(
        type(call)(shown, call.attempt), Effect(tool.change(request), IssueRefundResponse, 2)
    )
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.INTERNAL
    assert untouched(tool)


def test_a_ledger_that_nobody_protected_takes_no_effect(tool: GuardedTool) -> None:
    """The tables are there, but no table's rows would need a spend."""
    connection = tool.store.connect()
    dropped = {"licet_ledger_once", "licet_ledger_once_delete"} & {name for (name,) in triggers(tool)}
    for name in dropped:
        table = " ON licet_ledger" if tool.store.for_update else ""
        connection.execute(f"DROP TRIGGER {name}{table}")
    connection.execute("DELETE FROM licet_ledger")
    connection.close()
    with pytest.raises(LookupError, match="call `protect` once"):
        tool.refund(tool.call())
    assert untouched(tool)


def triggers(tool: GuardedTool) -> list[tuple[str]]:
    if tool.store.for_update:
        return [("licet_ledger_once",)]
    return list(tool.rows("SELECT name FROM sqlite_master WHERE type = 'trigger'"))


def test_nothing_is_changed_once_the_transaction_has_ended(tool: GuardedTool) -> None:
    """Without it each further statement would be a transaction of its own, and stay."""

    def ending(spend: Spend) -> IssueRefundResponse:
        spend.check(tenant="t1", facts={"order.version": 1, "order.tenant": "t1", "order.status": "paid"})
        with suppress(*tool.store.refusals):
            # SQLite ends the whole transaction for one row of a table that says so, or says it itself
            spend.execute("ROLLBACK" if tool.store.for_update else OR_ROLLBACK)
        spend.execute("UPDATE orders SET status = 'refunded'")
        raise AssertionError("that was not in the transaction any more")

    with pytest.raises(CommitUnknown):
        run(tool, ending)
    assert untouched(tool)
    assert tool.rows("SELECT DISTINCT status FROM orders") == [("paid",)]
    assert isinstance(tool.refund(tool.call()), Done)


def test_of_what_failed_after_a_commit_of_the_tools_own_nothing_is_claimed(tool: GuardedTool) -> None:
    """To say `none` of it would have the step tried again."""

    def failing(spend: Spend) -> IssueRefundResponse:
        tool.change(refund())(spend)
        spend.execute("COMMIT")
        raise ZeroDivisionError

    with pytest.raises(CommitUnknown):
        run(tool, failing)


def test_a_commit_of_the_tools_own_is_found_and_nothing_is_claimed(tool: GuardedTool) -> None:
    lawful = tool.change(refund())

    def committing(spend: Spend) -> IssueRefundResponse:
        reply = lawful(spend)
        spend.execute("COMMIT")
        return reply

    with pytest.raises(CommitUnknown):
        run(tool, committing)


CHAINED = ("COMMIT AND CHAIN", "COMMIT; BEGIN", "COMMIT; BEGIN; SELECT 1 / 0")


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("statement", CHAINED)
@pytest.mark.parametrize("then", ["raises", "is refused", "goes on"])
def test_a_transaction_of_the_tools_own_in_place_of_ours_is_found(
    tool: GuardedTool, statement: str, then: str
) -> None:
    """PostgreSQL begins the next one in the same breath: the connection looks as if nothing had been."""
    lawful = tool.change(refund())

    def chaining(spend: Spend) -> IssueRefundResponse:
        reply = lawful(spend)
        spend.execute(statement)
        if then == "raises":
            raise ZeroDivisionError
        if then == "is refused":
            spend.check(tenant="another", facts={})
        return reply

    with pytest.raises(CommitUnknown):
        run(tool, chaining)
    assert len(tool.ledger_rows()) == 2  # what was committed stays, and nobody says that it is not there


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("statement", ["SAVEPOINT a", "SAVEPOINT a; ROLLBACK TO a"])
def test_savepoints_are_the_tools_own(tool: GuardedTool, statement: str) -> None:
    lawful = tool.change(refund())

    def saving(spend: Spend) -> IssueRefundResponse:
        spend.execute(statement)
        return lawful(spend)

    assert isinstance(run(tool, saving), Done)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_reader_that_blocks_the_commit_makes_the_ledger_unavailable(
    tool: GuardedTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In SQLite's rollback journal, its default, a commit waits for readers."""
    monkeypatch.setattr(tool.store.ledger, "_lock_wait_s", 0.1)
    call = tool.call()
    tool.store.ledger.close()
    reader = tool.store.connect()
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM orders").fetchone()
    with pytest.raises(LedgerUnavailable):
        tool.refund(call)
    reader.execute("ROLLBACK")
    reader.close()
    assert untouched(tool)
    assert isinstance(tool.refund(call), Done)


def test_a_ledger_waits_for_its_lock_as_long_as_it_is_told(tmp_path: Path) -> None:
    for ledger, wait_ms in (
        (SqliteLedger(tmp_path / "a"), 5_000),
        (SqliteLedger(tmp_path / "a", lock_wait_s=15), 15_000),
    ):
        with ledger.transaction() as transaction:
            assert transaction.execute("PRAGMA busy_timeout").fetchone() == (wait_ms,)
        ledger.close()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_database_that_cannot_be_opened_is_unavailable(tool: GuardedTool) -> None:
    absent = SqliteLedger("/nonexistent/ledger.db")
    guard = Guard(absent, tool.anchor())
    guard.take_beacon(tool.beacon_request())
    with pytest.raises(LedgerUnavailable):
        guard.execute(tool.call(), Effect(tool.change(refund()), IssueRefundResponse, 2))
    with pytest.raises(LedgerUnavailable):
        absent.outbox(0, 1)
    with pytest.raises(LedgerUnavailable):
        absent.install()
