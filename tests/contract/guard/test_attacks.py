"""Writers who go past the guard, on connections as their drivers open them: what the triggers refuse.

Each attack is made on a ledger that holds one lawful refund of two entries and one voided spend, and leaves
every table as it was. The lawful twin of all of them is `test_execute`: the same tables take a refund by the
guard.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from examples.refund.fin.v1.finance_pb2 import IssueRefundRequest, IssueRefundResponse
from licet.guard.guard import Done, Effect
from licet.guard.ledger import SpendRow, State
from licet.guard.step import Spend
from licet.refusal import Reason, Refusal
from tests.worlds.guarded_tool import LEDGER_ROW, GuardedTool
from tests.worlds.mint import now_ms, refund

VOIDED = "0" * 31 + "1"
UNKNOWN = "0" * 31 + "2"
TABLES = ("ledger", "licet_spend", "licet_result", "licet_outbox", "licet_outbox_head", "licet_ledger")


@pytest.fixture
def spent(tool: GuardedTool) -> str:
    """The spend id of a lawful refund, beside a voided spend."""
    with tool.store.ledger.transaction() as transaction:
        transaction.insert(SpendRow(VOIDED, 0, State.VOID))
    done = tool.refund(tool.call())
    assert isinstance(done, Done)
    return done.reply.refund_id


@contextmanager
def nothing_changes(tool: GuardedTool) -> Iterator[None]:
    def contents() -> list[list[tuple[object, ...]]]:
        return [sorted(map(tuple, tool.rows(f"SELECT * FROM {table}"))) for table in TABLES]

    before = contents()
    yield
    assert contents() == before


@pytest.mark.negative(39)
def test_a_second_row_for_an_entry_is_refused(tool: GuardedTool, spent: str) -> None:
    with nothing_changes(tool):
        assert tool.attack(LEDGER_ROW, "x", "customer", 5000, spent, 1) != "accepted"


@pytest.mark.negative(39)
def test_a_third_entry_is_refused(tool: GuardedTool, spent: str) -> None:
    with nothing_changes(tool):
        assert "needs its own entry" in tool.attack(LEDGER_ROW, "x", "customer", 5000, spent, 3)
        assert "needs its own entry" in tool.attack(LEDGER_ROW, "x", "customer", 5000, spent, 0)


@pytest.mark.negative(39)
@pytest.mark.parametrize("spend_id", [UNKNOWN, VOIDED, "", None], ids=["unknown", "void", "empty", "null"])
def test_a_row_without_an_executed_spend_is_refused(
    tool: GuardedTool, spent: str, spend_id: str | None
) -> None:
    with nothing_changes(tool):
        assert "needs its own entry" in tool.attack(LEDGER_ROW, "x", "customer", 5000, spend_id, 1)


WRITTEN_ONCE = (
    "UPDATE ledger SET amount_minor = amount_minor * 2",
    "UPDATE ledger SET spend_id = NULL",
    "DELETE FROM ledger",
    "UPDATE licet_spend SET entries = 3",
    "UPDATE licet_spend SET state = 'EXEC' WHERE state = 'VOID'",
    "UPDATE licet_spend SET call_digest = call_digest",
    "DELETE FROM licet_spend",
    "UPDATE licet_result SET result = result",
    "DELETE FROM licet_result",
    "UPDATE licet_outbox SET amount_minor = 0",
    "DELETE FROM licet_outbox",
    "UPDATE licet_outbox_head SET last = last + 5",
    "UPDATE licet_outbox_head SET last = last - 1",
    "UPDATE licet_outbox_head SET acked = 9",
    "DELETE FROM licet_outbox_head",
    "UPDATE licet_ledger SET ledger = 'orders'",
    "DELETE FROM licet_ledger",
)


@pytest.mark.negative(39)
def test_what_was_written_stays(tool: GuardedTool, spent: str) -> None:
    for statement in WRITTEN_ONCE:
        with nothing_changes(tool):
            assert tool.attack(statement) != "accepted", statement


@pytest.mark.negative(39)
@pytest.mark.parametrize(
    ("spend_id", "state"), [(VOIDED, "EXEC"), (VOIDED, "VOID")], ids=["flip of a VOID", "second VOID"]
)
def test_a_second_row_for_a_round_is_refused(
    tool: GuardedTool, spent: str, spend_id: str, state: str
) -> None:
    with nothing_changes(tool):
        assert attack(tool, spend_row(spend_id, 0, state)) != "accepted"


@pytest.mark.negative(39)
def test_a_second_effect_in_another_round_is_refused(tool: GuardedTool, spent: str) -> None:
    with nothing_changes(tool):
        assert attack(tool, spend_row(spent, 1, "EXEC")) != "accepted"


@pytest.mark.parametrize("spend_id", ["", "A" * 32, "0" * 31, "0" * 33, "g" * 32])
def test_a_spend_id_that_is_none_is_refused(tool: GuardedTool, spent: str, spend_id: str) -> None:
    with nothing_changes(tool):
        assert attack(tool, spend_row(spend_id, 0, "EXEC")) != "accepted"


def test_a_spend_row_under_the_name_of_a_permit_needs_a_digest(tool: GuardedTool, spent: str) -> None:
    with nothing_changes(tool):
        assert attack(tool, spend_row(UNKNOWN, 0, "EXEC", digest=b"")) != "accepted"


def test_an_outbox_row_without_its_own_entry_or_number_is_refused(tool: GuardedTool, spent: str) -> None:
    row = (
        "INSERT INTO licet_outbox"
        " (outbox_seq, spend_id, entry, change_id, resource, tenant, account, amount_minor, currency,"
        " committed_at_us, trace_id, span_id) VALUES (?, ?, ?, 'x', 'r', 't', 'a', 1, 'USD', 1, '', '')"
    )
    with nothing_changes(tool):
        for number, spend_id, entry in (
            (3, spent, 3),
            (3, UNKNOWN, 1),
            (3, spent, 1),
            (5, spent, 2),
            (1, spent, 1),
        ):
            assert tool.attack(row, number, spend_id, entry) != "accepted"


def test_a_result_for_what_was_not_executed_is_refused(tool: GuardedTool, spent: str) -> None:
    with nothing_changes(tool):
        for spend_id in (VOIDED, UNKNOWN, spent):
            statement = "INSERT INTO licet_result (spend_id, result) VALUES (?, ?)"
            assert tool.attack(statement, spend_id, b"forged") != "accepted"


def test_replacing_rows_is_refused_as_deleting_them_is(tool: GuardedTool, spent: str) -> None:
    """SQLite: INSERT OR REPLACE removes the old row and fires no DELETE trigger; PostgreSQL has no such
    statement.
    """
    with nothing_changes(tool):
        for statement, parameters in (
            (LEDGER_ROW, (f"{spent}/1", "customer", 9999, spent, 1)),  # by the primary key and by the entry
            (LEDGER_ROW, ("x", "customer", 9999, spent, 1)),  # by the entry alone
            spend_row(VOIDED, 0, "EXEC"),
            spend_row(spent, 1, "EXEC"),
            ("INSERT INTO licet_result (spend_id, result) VALUES (?, ?)", (spent, b"forged")),
            ("INSERT INTO licet_outbox_head (one, last, acked) VALUES (1, 0, 0)", ()),
            (
                "INSERT INTO licet_ledger VALUES (1, 'a', 'b', 'c')",
                (),
            ),
        ):
            forced = statement.replace("INSERT", "INSERT OR REPLACE", 1)
            assert tool.attack(forced, *parameters) != "accepted", forced
        assert tool.attack("UPDATE OR REPLACE ledger SET change_id = 'x'") != "accepted"


def test_a_temporary_table_of_the_same_name_deceives_no_trigger(tool: GuardedTool, spent: str) -> None:
    connection = tool.store.connect()
    connection.execute("CREATE TEMPORARY TABLE licet_spend AS SELECT * FROM licet_spend")
    connection.execute(f"UPDATE licet_spend SET spend_id = '{UNKNOWN}', entries = 9")
    with nothing_changes(tool), pytest.raises(tool.store.refusals, match="needs its own entry"):
        connection.execute(tool.store.spell(LEDGER_ROW), ("x", "customer", 5000, UNKNOWN, 1))
    connection.close()


def test_what_a_change_leaves_in_its_session_stands_in_for_none_of_the_guards_tables(
    tool: GuardedTool,
) -> None:
    """Connections are kept: a temporary table would be looked up first by every call after this one."""
    call, lawful = tool.call(), tool.change

    def leaving(request: IssueRefundRequest) -> Callable[[Spend], IssueRefundResponse]:
        def run(spend: Spend) -> IssueRefundResponse:
            for table in TABLES[1:]:
                spend.execute(f"CREATE TEMPORARY TABLE {table} AS SELECT * FROM {table} WHERE 1 = 0")
            return lawful(request)(spend)

        return run

    tool.change = leaving  # type: ignore[method-assign]
    assert isinstance(tool.refund(call), Done)
    tool.change = lawful  # type: ignore[method-assign]
    assert [len(tool.outbox()), len(tool.outbox(1))] == [2, 1]
    again, another = tool.refund(call), tool.refund(tool.call(refund("O2")))
    assert isinstance(again, Done)
    assert isinstance(another, Done)
    assert (again.stored, another.stored) == (True, False)
    assert [len(tool.spend_rows()), len(tool.ledger_rows())] == [2, 4]


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_search_path_that_a_change_leaves_leads_the_guard_nowhere(tool: GuardedTool) -> None:
    call, lawful = tool.call(), tool.change(refund())

    def leaving(spend: Spend) -> IssueRefundResponse:
        reply = lawful(spend)
        spend.execute("SET search_path TO pg_temp")
        return reply

    assert isinstance(tool.guard.execute(call, Effect(leaving, IssueRefundResponse, 2)), Done)
    again = tool.guard.execute(call, Effect(leaving, IssueRefundResponse, 2))
    assert isinstance(again, Done)
    assert again.stored


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_unique_index_of_later_lets_no_row_be_replaced(
    tool: GuardedTool, spent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration added it; whoever writes by INSERT OR REPLACE removes the rows that it collides with."""
    assert tool.attack("CREATE UNIQUE INDEX later ON ledger (account, amount_minor)") == "accepted"
    tool.store.ledger.protect("ledger", "spend_id", "entry")  # as at each start
    monkeypatch.setattr("tests.worlds.guarded_tool.LEDGER_ROW", LEDGER_ROW.replace("INSERT", "REPLACE", 1))
    with nothing_changes(tool), pytest.raises(sqlite3.IntegrityError, match="is there already"):
        tool.refund(tool.call(refund("O2")))
    assert isinstance(tool.refund(tool.call(refund("O2", minor=1))), Done)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_protecting_again_mends_a_trigger_of_an_earlier_version_and_changes_nothing_else(
    tool: GuardedTool, spent: str
) -> None:
    query = "SELECT name, sql FROM sqlite_master ORDER BY name"
    lawful = tool.rows(query)
    for trigger in ("SELECT 1", ""):
        assert tool.attack("DROP TRIGGER licet_ledger_insert") == "accepted"
        if trigger:
            made = f"CREATE TRIGGER licet_ledger_insert BEFORE INSERT ON ledger BEGIN {trigger}; END"
            assert tool.attack(made) == "accepted"
        with nothing_changes(tool):
            tool.store.ledger.protect("ledger", "spend_id", "entry")
        assert tool.rows(query) == lawful


@pytest.mark.parametrize("entry", [1.5, "1.25", "01", " 2", "2.0"])
def test_an_entry_between_two_entries_is_refused(tool: GuardedTool, spent: str, entry: float | str) -> None:
    """SQLite keeps 1.5 in a column of integers: there is room for any number of rows between two."""
    with nothing_changes(tool):
        assert tool.attack(LEDGER_ROW, "x", "customer", 5000, spent, entry) != "accepted"


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_function_of_a_role_that_owns_nothing_deceives_no_trigger(tool: GuardedTool, spent: str) -> None:
    """PostgreSQL prefers a function of the very row type to its own of any type, wherever it stands."""
    forged = f"""SELECT '{{"spend_id": "{spent}", "entry": 1}}'::jsonb"""
    planted = f"CREATE FUNCTION to_jsonb(ledger) RETURNS jsonb LANGUAGE sql AS $$ {forged} $$"
    assert tool.attack(planted) == "accepted"  # of whoever may create in the schema
    with nothing_changes(tool):
        assert "needs its own entry" in tool.attack(LEDGER_ROW, "x", "customer", 5000, UNKNOWN, 7)
    assert isinstance(tool.refund(tool.call(refund("O2"), call_id="another")), Done)


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_an_operator_of_a_role_that_owns_nothing_dates_no_row(tool: GuardedTool) -> None:
    """It would run with the rights of whoever writes next, and say when that was."""
    for statement in (
        "CREATE FUNCTION never(numeric, integer) RETURNS numeric LANGUAGE sql AS $$ SELECT 0::numeric $$",
        "CREATE OPERATOR * (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = never)",
    ):
        assert tool.attack(statement) == "accepted"
    assert isinstance(tool.refund(tool.call()), Done)
    assert all(change.committed_at_us and change.spend.decided_at_us for change in tool.outbox())


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_truncating_is_refused_even_by_a_session_that_plays_a_replica(tool: GuardedTool, spent: str) -> None:
    for table in TABLES:
        with nothing_changes(tool):
            assert tool.attack(f"TRUNCATE {table}") != "accepted"
            assert "licet" in tool.attack(f"SET session_replication_role = replica; TRUNCATE {table}")
            assert "licet" in tool.attack(f"SET session_replication_role = replica; DELETE FROM {table}")


def test_a_permit_that_expires_while_its_transaction_waits_for_a_lock_is_refused(tool: GuardedTool) -> None:
    """PostgreSQL's now() stands still from BEGIN, and a check before the wait proves nothing after it."""
    with locked_order(tool) as release:
        end_ms = now_ms() + 1_500
        call = tool.call(not_after_ms=end_ms)
        answers: list[object] = []
        waiting = threading.Thread(target=lambda: answers.append(tool.refund(call)))
        waiting.start()
        while now_ms() < end_ms + 100:
            time.sleep(0.05)
        assert waiting.is_alive(), "it was refused before it waited"
        release()
        waiting.join(60)
    [answer] = answers
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.EXPIRED
    assert (tool.ledger_rows(), tool.spend_rows(), tool.outbox()) == ([], [], ())
    # its twin: a permit that outlives the same wait
    call = tool.call(refund(), not_after_ms=now_ms() + 30_000)
    with locked_order(tool) as release:
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(tool.refund(call)))
        waiting.start()
        time.sleep(0.2)
        release()
        waiting.join(60)
    assert isinstance(answers[0], Done)


def test_a_bundle_that_changes_while_a_transaction_waits_for_a_lock_refuses_it(tool: GuardedTool) -> None:
    call = tool.call()
    with locked_order(tool) as release:
        answers: list[object] = []
        waiting = threading.Thread(target=lambda: answers.append(tool.refund(call)))
        waiting.start()
        time.sleep(0.2)
        assert not isinstance(tool.beacon(bundle_version=8, config_seq=4), Refusal)
        release()
        waiting.join(60)
    [answer] = answers
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.BUNDLE_SUPERSEDED
    assert tool.ledger_rows() == []


def test_a_bundle_that_changes_while_the_change_runs_refuses_it(tool: GuardedTool) -> None:
    """The tool may wait for whatever it likes between the first look and the commit, on any database."""
    call = tool.call()
    request = refund()
    change = tool.change(request)

    def slow(spend: Spend) -> IssueRefundResponse:
        reply = change(spend)
        assert not isinstance(tool.beacon(bundle_version=8, config_seq=4), Refusal)
        return reply

    answer = tool.guard.execute(call, Effect(slow, IssueRefundResponse, 2))
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.BUNDLE_SUPERSEDED
    assert (tool.ledger_rows(), tool.spend_rows(), tool.outbox()) == ([], [], ())
    # its twin: decided under the new bundle, and a beacon that says the same again
    again = tool.call(bundle_version=8, config_seq=4)
    assert isinstance(tool.guard.execute(again, Effect(slow, IssueRefundResponse, 2)), Done)


def test_a_beacon_that_grows_old_while_the_change_runs_refuses_it(
    tool: GuardedTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off from the world in the middle of a transaction: what is current is no longer known."""
    request, later = refund(), time.monotonic_ns() // 1_000_000 + 60_000
    change = tool.change(request)

    def slow(spend: Spend) -> IssueRefundResponse:
        reply = change(spend)
        monkeypatch.setattr("licet.guard.guard.elapsed_ms", lambda: later)
        return reply

    call = tool.call()
    answer = tool.guard.execute(call, Effect(slow, IssueRefundResponse, 2))
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.BEACON_STALE
    assert (tool.changes_run, tool.ledger_rows(), tool.spend_rows()) == (1, [], [])
    # its twin: the same call by a clock that did not run on
    monkeypatch.undo()
    assert not isinstance(tool.beacon(), Refusal)
    assert isinstance(tool.refund(call), Done)


@contextmanager
def locked_order(tool: GuardedTool) -> Iterator[Callable[[], object]]:
    """Holds what a refund of O1 needs: SQLite's one write lock, PostgreSQL's row."""
    connection = tool.store.connect()
    connection.execute("BEGIN")
    connection.execute("UPDATE orders SET tenant = tenant WHERE order_id = 'O1'")
    yield lambda: connection.execute("COMMIT")
    connection.close()


def spend_row(
    spend_id: str, round: int, state: str, digest: bytes = b"d" * 32
) -> tuple[str, tuple[object, ...]]:
    executed = state == "EXEC"
    statement = (
        "INSERT INTO licet_spend (spend_id, round, state, entries, call_digest, attempt, decision_id, issuer,"
        " decided_at_us) VALUES (?, ?, ?, ?, ?, '', '', 'permit', 1)"
    )
    return statement, (spend_id, round, state, 9 if executed else 0, digest if executed else b"")


def attack(tool: GuardedTool, made: tuple[str, tuple[object, ...]]) -> str:
    statement, parameters = made
    return tool.attack(statement, *parameters)
