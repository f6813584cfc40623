"""What a ledger must keep whatever database it is on: transactions, the outbox, the move of an old ledger."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import pytest

from licet.guard.guard import Done
from licet.guard.ledger import BEFORE_ISSUER, Entry, SpendRow, State, before_spend_id
from tests.worlds.guarded_tool import LEDGER_ROW, GuardedTool, QuickMint, Store
from tests.worlds.mint import now_ms, refund


def test_an_insert_is_told_apart_from_one_that_met_another_row(tool: GuardedTool) -> None:
    spend, digest = "5" * 32, b"d" * 32
    with tool.store.ledger.transaction() as transaction:
        assert transaction.insert(SpendRow(spend, 0, State.VOID))
        assert not transaction.insert(SpendRow(spend, 0, State.EXEC, call_digest=digest))
        assert transaction.insert(SpendRow(spend, 1, State.EXEC, 0, digest, "try", "decision"))
        assert not transaction.insert(SpendRow(spend, 2, State.EXEC, call_digest=digest))
        assert transaction.insert(SpendRow(spend, 2, State.VOID))
        row = transaction.exec_row(spend)
        assert row is not None
        assert (row.round, row.attempt, row.decision_id, row.issuer) == (1, "try", "decision", "permit")
        assert abs(row.decided_at_us // 1000 - now_ms()) < 5_000
        void = transaction.row(spend, 0)
        assert void is not None
        assert (void.state, void.call_digest) == (State.VOID, b"")
        assert transaction.row(spend, 3) is None
        assert transaction.result(spend) is None


def test_an_exception_rolls_everything_back(tool: GuardedTool) -> None:
    with suppress(ZeroDivisionError), tool.store.ledger.transaction() as transaction:
        assert transaction.insert(SpendRow("5" * 32, 0, State.VOID))
        raise ZeroDivisionError
    assert tool.spend_rows() == []


def test_the_clock_moves_within_a_transaction(tool: GuardedTool) -> None:
    """PostgreSQL's now() would not: a transaction that waited past an expiry would pass."""
    with tool.store.ledger.transaction() as transaction:
        first = transaction.now_us()
        threading.Event().wait(0.05)
        assert 40_000 < transaction.now_us() - first < 5_000_000


def test_the_clock_is_never_early(tool: GuardedTool) -> None:
    """SQLite's day numbers are binary fractions: cut off, half of all reads were 1 ms early."""
    with tool.store.ledger.transaction() as transaction:
        for _ in range(300):
            before = now_ms()
            assert before <= transaction.now_us() // 1000


def test_the_outbox_numbers_parallel_commits_without_a_gap(tool: GuardedTool) -> None:
    """Each of 40 calls on two orders either commits or is refused; numbers follow commits."""

    def one(number: int) -> object:
        order_id, ends = ("O1", "O2")[number % 2], time.monotonic() + 60
        while True:  # the order's version moves under us: decide again
            done = tool.refund(tool.call(refund(order_id, minor=number + 1), call_id=f"step-{number}"))
            if isinstance(done, Done) or time.monotonic() > ends:
                return done

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(one, range(40)))
    assert [one for one in done if not isinstance(one, Done)] == []
    changes = tool.outbox()
    assert [change.outbox_seq for change in changes] == list(range(1, 81))
    pairs = list(zip(changes[::2], changes[1::2], strict=True))
    assert all(first.spend.spend_id == second.spend.spend_id for first, second in pairs)
    assert [change.committed_at_us for change in changes] == sorted(
        change.committed_at_us for change in changes
    )


def test_one_step_tried_at_once_from_many_sides_has_one_effect(tool: GuardedTool) -> None:
    call = tool.call()
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda _: tool.refund(call), range(12)))
    assert sorted(one.stored for one in done if isinstance(one, Done)) == [False] + [True] * 11
    assert len(tool.ledger_rows()) == 2


def test_the_cursor_of_the_outbox_only_goes_forward(tool: GuardedTool) -> None:
    for _ in range(3):
        assert isinstance(tool.refund(tool.call()), Done)

    def numbers(acked: int, limit: int = 100) -> list[int]:
        return [change.outbox_seq for change in tool.outbox(acked, limit)]

    assert numbers(0, 2) == [1, 2]
    assert numbers(0, 2) == [1, 2]  # not acked: served again
    assert numbers(4) == [5, 6]
    assert numbers(2) == [5, 6]  # an older ack changes nothing
    assert numbers(1 << 40) == [5, 6]  # a number that was never given out
    assert numbers(6) == []
    assert isinstance(tool.refund(tool.call()), Done)
    assert numbers(0) == [7, 8]


@pytest.fixture
def old(store: Store) -> Iterator[Store]:
    """A tool whose ledger has rows and no columns for a spend."""
    connection = store.connect()
    connection.execute("CREATE TABLE ledger (change_id text PRIMARY KEY, account text, amount_minor integer)")
    for number in range(3):
        connection.execute(
            store.spell("INSERT INTO ledger VALUES (?, 'customer', ?)"), (f"old-{number}", number)
        )
    yield store
    connection.close()


def test_rows_from_before_become_entries_of_a_spend_of_their_own(old: Store) -> None:
    old.ledger.install()
    old.ledger.protect("ledger", "spend_id", "entry")
    connection = old.connect()
    rows = connection.execute(
        "SELECT change_id, amount_minor, spend_id, entry FROM ledger ORDER BY 1"
    ).fetchall()
    assert [(change_id, minor) for change_id, minor, _, _ in rows] == [
        ("old-0", 0),
        ("old-1", 1),
        ("old-2", 2),
    ]
    assert {spend_id for _, _, spend_id, _ in rows} == {before_spend_id("ledger")}
    assert sorted(entry for _, _, _, entry in rows) == [1, 2, 3]
    spend = connection.execute("SELECT state, entries, issuer FROM licet_spend").fetchall()
    assert spend == [("EXEC", 3, BEFORE_ISSUER)]
    for statement in ("UPDATE ledger SET amount_minor = 9", "DELETE FROM ledger"):
        with pytest.raises(old.refusals, match="append-only"):
            connection.execute(statement)
    with pytest.raises(old.refusals):
        connection.execute(old.spell(LEDGER_ROW), ("new", "customer", 1, before_spend_id("ledger"), 4))
    connection.close()
    assert old.ledger.outbox(0, 10) == ()


def test_a_column_that_is_filled_already_is_not_written_over(old: Store) -> None:
    old.ledger.install()
    with pytest.raises(ValueError, match="`account` of `ledger` is filled already"):
        old.ledger.protect("ledger", "account", "entry")
    old.ledger.protect("ledger", "spend_id", "entry")


def test_installing_and_protecting_again_changes_nothing(tool: GuardedTool) -> None:
    assert isinstance(tool.refund(tool.call()), Done)
    before = (tool.ledger_rows(), tool.spend_rows(), tool.outbox())
    tool.store.ledger.install()
    tool.store.ledger.protect("ledger", "spend_id", "entry")
    assert (tool.ledger_rows(), tool.spend_rows(), tool.outbox()) == before
    assert isinstance(tool.refund(tool.call()), Done)


def test_a_database_has_one_ledger(tool: GuardedTool) -> None:
    with pytest.raises(ValueError, match="`ledger` is the ledger"):
        tool.store.ledger.protect("orders", "spend_id", "entry")


@pytest.mark.parametrize("name", ["missing", "a view"])
def test_what_is_no_table_cannot_be_the_ledger(store: Store, name: str) -> None:
    connection = store.connect()
    connection.execute('CREATE VIEW "a view" AS SELECT 1 AS one')
    connection.close()
    store.ledger.install()
    with pytest.raises(ValueError, match=name):
        store.ledger.protect(name, "spend_id", "entry")


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE ledger (id text PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE ledger (id text); CREATE UNIQUE INDEX u ON ledger (lower(id))",
        "CREATE TABLE ledger (id text, RowId integer)",
    ],
    ids=["without rowid", "unique expression", "a column called rowid"],
)
def test_a_ledger_in_which_replaced_rows_could_go_unseen_is_refused(store: Store, statement: str) -> None:
    connection = store.connect()
    connection.executescript(statement)
    connection.close()
    store.ledger.install()
    with pytest.raises(ValueError, match="`ledger`"):
        store.ledger.protect("ledger", "spend_id", "entry")


@pytest.mark.parametrize(
    ("columns", "lawful"),
    [
        ("spend_id text, entry text", False),
        ("spend_id text, entry double precision", False),
        ("spend_id integer, entry integer", False),
        ("spend_id text, entry integer", True),
        ("spend_id varchar(32), entry bigint", True),
    ],
)
def test_columns_in_which_one_entry_could_be_spelled_twice_are_refused(
    store: Store, columns: str, lawful: bool
) -> None:
    connection = store.connect()
    connection.execute(f"CREATE TABLE ledger (id text PRIMARY KEY, {columns})")
    connection.close()
    store.ledger.install()
    with nullcontext() if lawful else pytest.raises(ValueError, match="is no column of"):
        store.ledger.protect("ledger", "spend_id", "entry")


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_ledger_with_parts_is_refused(store: Store) -> None:
    connection = store.connect()
    connection.execute("CREATE TABLE ledger (id text); CREATE TABLE part () INHERITS (ledger)")
    connection.close()
    store.ledger.install()
    for name in ("ledger", "part"):
        with pytest.raises(ValueError, match="inheritance"):
            store.ledger.protect(name, "spend_id", "entry")


def test_a_ledger_with_awkward_names_is_protected_all_the_same(mint: QuickMint, store: Store) -> None:
    connection = store.connect()
    connection.execute("""CREATE TABLE "the 'ledger'" ("Spend" text, "en""try" integer, amount integer)""")
    store.ledger.install()
    store.ledger.protect("the 'ledger'", "Spend", 'en"try')
    spend = "5" * 32
    with store.ledger.transaction() as transaction:
        transaction.insert(SpendRow(spend, 0, State.EXEC, 1, b"d" * 32))
        transaction.execute(store.spell("""INSERT INTO "the 'ledger'" VALUES (?, 1, 5)"""), (spend,))
        assert transaction.ledger_entries(spend) == (1,)
        transaction.append(spend, [Entry(1, "c", "r:1", "t1", "a", 5, "USD")], "", "")
    with pytest.raises(store.refusals):
        connection.execute(store.spell("""INSERT INTO "the 'ledger'" VALUES (?, 2, 5)"""), (spend,))
    connection.close()
