"""PostgreSQL goes away while a call runs: what is known is said, what is not known is not."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from examples.refund.fin.v1.finance_pb2 import IssueRefundRequest, IssueRefundResponse
from licet.guard import Guard, Spend
from licet.guard.guard import Done
from licet.guard.ledger import CommitUnknown, LedgerUnavailable
from licet.guard.postgres import PostgresLedger
from tests.worlds.guarded_tool import GuardedTool

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)


def breaking(tool: GuardedTool, statement: str) -> Callable[[IssueRefundRequest], Callable[[Spend], Any]]:
    lawful = tool.change

    def change(request: IssueRefundRequest) -> Callable[[Spend], IssueRefundResponse]:
        def run(spend: Spend) -> IssueRefundResponse:
            reply = lawful(request)(spend)
            spend.execute(statement)
            return reply

        return run

    return change


def test_a_connection_lost_in_the_middle_leaves_nothing_and_the_next_call_gets_a_new_one(
    tool: GuardedTool,
) -> None:
    call, lawful = tool.call(), tool.change
    tool.change = breaking(tool, "SELECT pg_terminate_backend(pg_backend_pid())")  # type: ignore[method-assign]
    with pytest.raises(LedgerUnavailable):
        tool.refund(call)
    tool.change = lawful  # type: ignore[method-assign]
    assert (tool.ledger_rows(), tool.spend_rows()) == ([], [])
    assert isinstance(tool.refund(call), Done)


def test_a_connection_lost_at_the_commit_is_not_known(tool: GuardedTool) -> None:
    assert (
        tool.attack(
            "CREATE FUNCTION hang_up() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
        )
        == "accepted"
    )
    assert (
        tool.attack(
            "CREATE CONSTRAINT TRIGGER hang_up AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION hang_up()"
        )
        == "accepted"
    )
    with pytest.raises(CommitUnknown):
        tool.refund(tool.call())
    assert tool.ledger_rows() == []  # here it was not committed; nobody could know


def test_a_change_that_fails_at_the_commit_left_nothing(tool: GuardedTool) -> None:
    assert (
        tool.attack("ALTER TABLE ledger ADD CONSTRAINT later UNIQUE (account) DEFERRABLE INITIALLY DEFERRED")
        == "accepted"
    )
    assert isinstance(tool.refund(tool.call()), Done)
    with pytest.raises(LedgerUnavailable) as unavailable:
        tool.refund(tool.call())
    assert str(unavailable.value) == "UniqueViolation 23505"  # and not the row, which would be logged
    assert len(tool.ledger_rows()) == 2
    assert len(tool.spend_rows()) == 1


def test_a_deadlock_is_unavailable_and_leaves_nothing(tool: GuardedTool) -> None:
    tool.change = breaking(tool, "DO $$ BEGIN RAISE EXCEPTION SQLSTATE '40P01'; END $$")  # type: ignore[method-assign]
    with pytest.raises(LedgerUnavailable):
        tool.refund(tool.call())
    assert tool.spend_rows() == []


def test_a_database_that_is_not_there_is_unavailable(tool: GuardedTool) -> None:

    absent = PostgresLedger(lambda: psycopg.connect("host=/nonexistent dbname=none connect_timeout=1"))
    guard, tool.guard = tool.guard, Guard(absent, tool.anchor())
    tool.beacon()
    with pytest.raises(LedgerUnavailable):
        tool.refund(tool.call())
    with pytest.raises(LedgerUnavailable):
        absent.outbox(0, 1)
    tool.guard = guard
    assert isinstance(tool.refund(tool.call()), Done)


@pytest.mark.parametrize("dsn", ["host=/nowhere password=se cret", "postgresql://u:p@cret@/x?port=cret"])
def test_a_password_in_a_dsn_that_cannot_be_read_is_not_told(tool: GuardedTool, dsn: str) -> None:
    ledger = PostgresLedger(lambda: psycopg.connect(dsn))
    with pytest.raises(LedgerUnavailable) as unavailable:
        ledger.outbox(0, 1)
    assert "cret" in str(unavailable.value.__cause__)
    assert "cret" not in str(unavailable.value)
