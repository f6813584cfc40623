"""Budgets as values: which lines a call uses, and balances that are the sum of bookings whatever happens."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decider.budgets.booking import (
    MAX_CLAIMS,
    Balance,
    Book,
    Booking,
    Change,
    Crowded,
    Done,
    End,
    Exhausted,
    Stale,
    Withdraw,
    apply,
)
from decider.budgets.budget import (
    MAX_LIMIT,
    MAX_LINES,
    Account,
    Budget,
    Line,
    Period,
    Unit,
    Use,
    lines_of,
    span_of,
)
from decider.budgets.limit import most_of
from decider.budgets.records import (
    RecordRefused,
    balance_bytes,
    booking_bytes,
    budget_key,
    read_balance,
    read_booking,
)
from decider.own_record import seal
from licet.refusal import Reason, Refusal
from licet.streams import StoredMessage
from licet.v1.decision_pb2 import Constraint, ConstraintOp, Decision
from licet.v1.statement_pb2 import Scalar

NOON_MS = 1_790_000_000_000
WHO = {
    "tenant": "t1",
    "principal": "ana",
    "agent": "bot",
    "task": "task-1",
    "tool": "finance",
    "operation": "refund",
}
CALLS = Budget("calls", Unit.CALLS, {"": 10}, Period.DAY, ("tenant",))
MONEY = Budget("refunds", Unit.MONEY, {"USD": 10_000}, Period.DAY, ("tenant",), frozenset({"refund"}))


def use(money: tuple[int, str] | None = (5_000, "USD"), costs: Any = None, **who: str) -> Use:
    return Use("dev", 1, {**WHO, **who}, money, NOON_MS + 3_600_000, costs or {})


def line(limit: int = 10, amount: int = 1, name: str = "a", expected: int | None = None) -> Line:
    return Line(Account(name.ljust(32, "0"), name, NOON_MS + 1), f"budget-{name}", amount, limit, expected)


def book(step: str = "s", decision: str = "d", *lines: Line, round: int = 0, end: int = NOON_MS) -> Book:
    return Book(step, "finance", round, decision, end, lines or (line(),))


@dataclass
class Memory:
    """The stream as values: what a change reads and writes."""

    balances: dict[str, Balance] = field(default_factory=dict)
    bookings: dict[str, Booking] = field(default_factory=dict)

    def balance(self, account: Account) -> Balance:
        return self.balances.get(account.account_id, Balance(account))

    def booking(self, spend_id: str) -> Booking | None:
        return self.bookings.get(spend_id)

    def put(self, balances: Any, booking: Booking) -> None:
        self.balances.update({one.account.account_id: one for one in balances})
        self.bookings[booking.spend_id] = booking

    def used(self, name: str = "a") -> tuple[int, int]:
        found = self.balances.get(name.ljust(32, "0"))
        return (found.booked, found.settled) if found else (0, 0)


# --- lines


def test_a_call_uses_one_line_of_each_budget_that_is_about_it() -> None:
    lines = lines_of((CALLS, MONEY), use(), NOON_MS)
    assert not isinstance(lines, Refusal)
    assert [(one.rule_id, one.amount, one.limit) for one in lines] == [
        ("budget-calls", 1, 10),
        ("budget-refunds", 5_000, 10_000),
    ]
    other = lines_of((CALLS, MONEY), use(operation="read_order"), NOON_MS)
    assert not isinstance(other, Refusal)
    assert [one.rule_id for one in other] == ["budget-calls"]


def test_another_currency_is_no_way_around_a_money_budget() -> None:
    lines = lines_of((MONEY,), use((5_000, "JPY")), NOON_MS)
    assert not isinstance(lines, Refusal)
    assert [(one.amount, one.limit) for one in lines] == [(5_000, 0)]
    assert isinstance(apply(Book("s", "finance", 0, "d", 1, lines), Memory()), Exhausted)


@pytest.mark.parametrize("amount", [-1, -(1 << 63), 1 << 63])
def test_an_amount_below_zero_or_beyond_64_bits_books_nothing(amount: int) -> None:
    refused = lines_of((MONEY,), use((amount, "USD")), NOON_MS)
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.ARGUMENT_REFUSED


def test_who_shares_a_budget_shares_an_account_and_nobody_else() -> None:
    def account(per: tuple[str, ...], **who: str) -> str:
        lines = lines_of((replace(CALLS, per=per),), use(**who), NOON_MS)
        assert not isinstance(lines, Refusal)
        return lines[0].account.account_id

    assert account(("tenant",)) == account(("tenant",), task="task-2", agent="other")
    assert account(("tenant",)) != account(("tenant",), tenant="t2")
    assert account(("tenant", "agent")) != account(("tenant",))
    assert account(("tenant", "agent"), tenant="t1", agent="x") != account(("tenant", "agent"), agent="t1x")
    assert account(()) == account((), tenant="t2", agent="other")


def test_a_new_generation_and_a_new_period_begin_anew() -> None:
    ids = set()
    for generation, now_ms in ((1, NOON_MS), (2, NOON_MS), (1, NOON_MS + 86_400_000)):
        lines = lines_of((CALLS,), replace(use(), generation=generation), now_ms)
        assert not isinstance(lines, Refusal)
        ids.add(lines[0].account.account_id)
    assert len(ids) == 3


def test_months_begin_on_the_first() -> None:
    december = 1_797_500_000_000  # 2026-12-17
    assert span_of(Period.MONTH, december, 0) == (1_796_083_200_000, 1_798_761_600_000)
    assert span_of(Period.TASK, december, 77) == (0, 77)


def test_costs_are_counted_where_the_catalog_names_them() -> None:
    tokens = Budget("tokens", Unit.COST, {"": 1_000}, Period.DAY, (), cost="tokens")
    lines = lines_of((tokens,), use(costs={"tokens": 300}), NOON_MS)
    assert not isinstance(lines, Refusal)
    assert [one.amount for one in lines] == [300]
    assert lines_of((tokens,), use(), NOON_MS) == ()


def test_more_budgets_than_a_batch_can_carry_deny() -> None:
    many = tuple(replace(CALLS, name=f"b{number}") for number in range(MAX_LINES + 1))
    refused = lines_of(many, use(), NOON_MS)
    assert isinstance(refused, Refusal)
    assert len(tuple(lines_of(many[:-1], use(), NOON_MS))) == MAX_LINES  # type: ignore[arg-type]


def test_a_permit_up_to_a_ceiling_books_the_ceiling() -> None:
    """Asked for 50, permitted up to 100: what counts is what may be spent."""

    def bounded(op: ConstraintOp.ValueType, *values: int) -> Decision:
        scalars = [Scalar(integer=value) for value in values]
        return Decision(ceilings=[Constraint(path=["amount", "minor"], op=op, values=scalars)])

    assert most_of(bounded(ConstraintOp.CONSTRAINT_OP_LE, 10_000), "amount.minor", 5_000) == 10_000
    assert most_of(bounded(ConstraintOp.CONSTRAINT_OP_IN, 1, 7_000), "amount.minor", 5_000) == 7_000
    assert most_of(bounded(ConstraintOp.CONSTRAINT_OP_GE, 1), "amount.minor", 5_000) is None
    assert most_of(Decision(), "amount.minor", 5_000) == 5_000


# --- bookings


def test_the_limit_is_inclusive_and_one_more_is_refused() -> None:
    view = Memory()
    assert [type(apply(book(f"s{at}"), view)) for at in range(11)] == [Done] * 10 + [Exhausted]
    assert view.used() == (10, 0)


def test_all_budgets_are_booked_or_none() -> None:
    view = Memory()
    assert isinstance(apply(book("s", "d", line(name="a"), line(0, name="b")), view), Exhausted)
    assert view.used("a") == (0, 0)
    assert view.bookings == {}


def test_a_later_permit_of_the_step_moves_the_end_and_books_nothing_more() -> None:
    view = Memory()
    apply(book("s", "d1", end=100), view)
    assert apply(book("s", "d2", end=200), view) == Done()
    assert view.used() == (1, 0)
    assert view.bookings["s"].end_ms == 200


def test_a_step_asked_for_with_a_larger_amount_books_the_larger_of_the_two() -> None:
    """Both permits are out and either may be spent, so the larger one counts until one is."""
    view = Memory()
    apply(book("s", "d1", line(100, 50)), view)
    apply(book("s", "d2", line(100, 80)), view)
    assert view.used() == (80, 0)
    assert isinstance(apply(book("s", "d3", line(100, 101)), view), Exhausted)
    apply(End("s", 0, "d1"), view)
    assert view.used() == (0, 50)


def test_an_executed_step_is_settled_once_with_what_its_permit_used() -> None:
    view = Memory()
    apply(book("s", "d1"), view)
    for _ in range(2):
        assert apply(End("s", 0, "d1"), view) == Done()
    assert view.used() == (0, 1)


@pytest.mark.parametrize("ended", ["", "another-permit"])
def test_what_was_not_spent_is_given_back(ended: str) -> None:
    view = Memory()
    apply(book("s", "d1"), view)
    apply(End("s", 0, ended), view)
    assert view.used() == (0, 0)
    assert apply(book("s", "d2"), view) == Done()


def test_a_permit_made_while_somebody_looked_is_not_given_back() -> None:
    """Nobody had spent the first; by then the second was out, and can still be."""
    view = Memory()
    apply(book("s", "d1"), view)
    looked = End("s", 0, "", frozenset({"d1"}))
    apply(book("s", "d2"), view)
    apply(looked, view)
    assert view.used() == (1, 0)
    apply(End("s", 0, "", frozenset({"d1", "d2"})), view)
    assert view.used() == (0, 0)


def test_what_nobody_knows_the_end_of_counts_as_used() -> None:
    view = Memory()
    apply(book("s", "d1", line(100, 50)), view)
    apply(End("s", 0, None), view)
    assert view.used() == (0, 50)


def test_the_next_round_replaces_the_one_without_effect() -> None:
    view = Memory()
    apply(book("s", "d1", line(100, 80)), view)
    assert apply(book("s", "d2", line(100, 30), round=1), view) == Done()
    assert view.used() == (30, 0)
    apply(End("s", 0, "d1"), view)  # said late of the old round
    assert view.used() == (30, 0)
    assert apply(book("s", "d3", line(100, 70), round=0), view) == Done()  # its permit opens nothing
    assert view.used() == (30, 0)


def test_a_permit_that_does_not_leave_is_withdrawn_alone() -> None:
    view = Memory()
    apply(book("s", "d1", line(100, 50)), view)
    apply(book("s", "d2", line(100, 80)), view)
    apply(Withdraw("s", "d2"), view)
    assert view.used() == (50, 0)
    apply(Withdraw("s", "d1"), view)
    assert view.used() == (0, 0)


def test_totals_that_moved_since_the_rules_saw_them_are_stale() -> None:
    view = Memory()
    assert apply(book("s1", "d", line(MAX_LIMIT, 900, expected=0)), view) == Done()
    assert isinstance(apply(book("s2", "d", line(MAX_LIMIT, 900, expected=0)), view), Stale)
    assert apply(book("s2", "d", line(MAX_LIMIT, 900, expected=900)), view) == Done()
    assert apply(book("s1", "again", line(MAX_LIMIT, 900, expected=900)), view) == Done()  # less its own


def test_one_step_cannot_have_any_number_of_permits() -> None:
    view = Memory()
    results = [apply(book("s", f"d{at}"), view) for at in range(MAX_CLAIMS + 1)]
    assert results == [Done()] * MAX_CLAIMS + [Crowded()]


def test_totals_never_pass_64_bits() -> None:
    view = Memory()
    assert apply(book("s1", "d", line(MAX_LIMIT, MAX_LIMIT)), view) == Done()
    assert isinstance(apply(book("s2", "d", line(MAX_LIMIT, 1)), view), Exhausted)


STEPS = st.sampled_from(["s1", "s2", "s3"])
DECISIONS = st.sampled_from([f"d{number}" for number in range(6)])
LINES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 6), min_size=1).map(
    lambda asked: tuple(line(10, amount, name) for name, amount in asked.items())
)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Book, STEPS, st.just("finance"), st.integers(0, 2), DECISIONS, st.integers(1, 9), LINES),
    st.builds(
        End,
        STEPS,
        st.integers(0, 2),
        st.one_of(st.none(), st.just(""), DECISIONS),
        st.one_of(st.none(), st.frozensets(DECISIONS, max_size=2)),
    ),
    st.builds(Withdraw, STEPS, DECISIONS),
)


@given(st.lists(CHANGES, max_size=40))
def test_whatever_happens_balances_are_the_sum_of_bookings_and_within_their_limits(
    changes: list[Change],
) -> None:
    view = Memory()
    for change in changes:
        before = {name: (one.booked, one.settled) for name, one in view.balances.items()}
        if not isinstance(apply(change, view), Done):
            assert {name: (one.booked, one.settled) for name, one in view.balances.items()} == before
        for name, balance in view.balances.items():
            held = sum(booking.held.get(name, 0) for booking in view.bookings.values())
            assert balance.booked == held
            assert 0 <= balance.used <= 10


# --- records

KEY = budget_key(bytes(32))


def stored(subject: str, body: bytes, seq: int = 7) -> StoredMessage:
    return StoredMessage(seq, subject, body, {}, "")


def test_records_come_back_as_they_were_written() -> None:
    account = Account("a" * 32, "calls: of everybody", NOON_MS)
    balance, subject = Balance(account, 3, 4, 5), f"x.balance.{'a' * 32}"
    assert read_balance(KEY, stored(subject, seal(KEY, subject, balance_bytes(balance)))) == replace(
        balance, seq=7
    )
    view = Memory()
    apply(book("s", "d1", line(name="a"), line(name="b")), view)
    apply(book("s", "d2", line(name="b"), line(amount=0, name="c")), view)
    booking = view.bookings["s"]
    found = read_booking(KEY, stored("y", seal(KEY, "y", booking_bytes(booking, "0"))))
    assert (found.held, found.accounts, found.seq) == (booking.held, booking.accounts, 7)
    assert [claim.decision_id for claim in found.claims] == ["d1", "d2"]


@given(st.integers(0, 200), st.integers(0, 7))
def test_a_record_with_one_other_bit_is_no_record(at: int, bit: int) -> None:
    subject = f"x.balance.{'a' * 32}"
    body = bytearray(seal(KEY, subject, balance_bytes(Balance(Account("a" * 32, "t", NOON_MS), 3, 4, 5))))
    body[at % len(body)] ^= 1 << bit
    with pytest.raises(RecordRefused):
        read_balance(KEY, stored(subject, bytes(body)))


def test_a_record_moved_to_another_subject_or_put_back_is_refused() -> None:
    """Who can write to NATS has no key and can only copy: from another subject, or from before."""
    one, other = f"x.balance.{'a' * 32}", f"x.balance.{'b' * 32}"
    old = seal(KEY, one, balance_bytes(Balance(Account("a" * 32, "t", NOON_MS), 0, 0, 2)))
    with pytest.raises(RecordRefused):
        read_balance(KEY, stored(other, old))
    with pytest.raises(RecordRefused):
        read_balance(KEY, stored(one, old, seq=9), known_seq=5)
    with pytest.raises(RecordRefused):
        read_balance(KEY, stored(one, old, seq=3), known_seq=5)
    newer = seal(KEY, one, balance_bytes(Balance(Account("a" * 32, "t", NOON_MS), 0, 0, 5)))
    assert read_balance(KEY, stored(one, newer, seq=9), known_seq=5).seq == 9
    assert read_balance(KEY, stored(one, old, seq=5), known_seq=5).seq == 5
