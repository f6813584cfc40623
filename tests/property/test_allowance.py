"""For any tree of delegations and any calls: what is used under a link never exceeds what the link says."""

import itertools
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from decider.budgets.booking import Book, Done, End, Withdraw, apply
from decider.budgets.budget import CALLS_RULE, COST_RULE, Use
from decider.delegation.allowance import lines_of_links
from licet.delegation import Delegation
from licet.refusal import Reason, Refusal
from tests.unit.core.test_delegation import NOW, first
from tests.unit.decider.test_budgets import WHO, Memory

CURRENCIES = ("USD", "EUR")
Chain = tuple[Delegation, ...]
Money = tuple[int, str] | None


def use(money: Money, generation: int = 1) -> Use:
    return Use("prod", generation, WHO, money, NOW + 1_000)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Chain]:
    """Chains by the id of their last link; several may hang on one link."""
    root = first(max_calls=draw(st.integers(1, 6)), max_cost={"USD": draw(st.integers(0, 9)), "EUR": 5})
    chains = {root.delegation_id: (root,)}
    for number in range(draw(st.integers(0, 5))):
        above = chains[draw(st.sampled_from(sorted(chains)))]
        if len(above) == 4:
            continue
        parent = above[-1]
        child = replace(
            parent,
            delegation_id=f"{number:032x}",
            parent_id=parent.delegation_id,
            max_calls=draw(st.integers(0, parent.max_calls)),
            max_cost={name: draw(st.integers(0, most)) for name, most in parent.max_cost.items()},
        )
        chains[child.delegation_id] = (*above, child)
    return chains


STEPS = st.tuples(
    st.integers(0, 20),
    st.one_of(st.none(), st.tuples(st.integers(0, 5), st.sampled_from(CURRENCIES))),
    st.sampled_from(["book", "book", "executed", "no effect", "withdraw"]),
    st.integers(0, 5),
)


class Tally:
    """Calls and money by link, counted the plain way, beside the book."""

    def __init__(self) -> None:
        self.view = Memory()
        self.calls: Counter[str] = Counter()
        self.spent: Counter[tuple[str, str]] = Counter()
        self.open: dict[str, tuple[Chain, Money]] = {}

    def fits(self, chain: Chain, money: Money) -> bool:
        amount, currency = money or (0, "")
        return all(
            self.calls[link.delegation_id] < link.max_calls
            and (not amount or self.spent[link.delegation_id, currency] + amount <= link.max_cost[currency])
            for link in chain
        )

    def add(self, chain: Chain, money: Money, sign: int) -> None:
        for link in chain:
            self.calls[link.delegation_id] += sign
            if money is not None:
                self.spent[link.delegation_id, money[1]] += sign * money[0]

    def book(self, spend_id: str, chain: Chain, money: Money) -> None:
        lines = lines_of_links(chain, use(money))
        assert not isinstance(lines, Refusal)
        fits = self.fits(chain, money)
        done = apply(Book(spend_id, "finance", 0, spend_id, NOW, lines), self.view)
        assert isinstance(done, Done) == fits
        if fits:
            self.open[spend_id] = chain, money
            self.add(chain, money, 1)

    def end(self, spend_id: str, what: str) -> None:
        chain, money = self.open.pop(spend_id)
        if what == "withdraw":
            apply(Withdraw(spend_id, spend_id), self.view)
        else:
            apply(End(spend_id, 0, spend_id if what == "executed" else ""), self.view)
        if what != "executed":
            self.add(chain, money, -1)


@settings(max_examples=150, deadline=None)
@given(trees(), st.lists(STEPS, max_size=30))
def test_what_is_used_under_a_link_stays_within_it_and_within_every_link_above(
    chains: dict[str, Chain], steps: list[tuple[int, Money, str, int]]
) -> None:
    tally, asked = Tally(), set[str]()
    for number, money, what, which in steps:
        spend_id = f"{number:032x}"
        if what == "book" and spend_id not in asked:
            asked.add(spend_id)
            tally.book(spend_id, chains[sorted(chains)[which % len(chains)]], money)
        elif what != "book" and spend_id in tally.open:
            tally.end(spend_id, what)
    for chain in chains.values():
        for above, below in itertools.pairwise(chain):
            assert tally.calls[below.delegation_id] <= tally.calls[above.delegation_id] <= above.max_calls
        lines = lines_of_links(chain, use((1, "USD")))
        assert not isinstance(lines, Refusal)
        for link, of_calls, of_money in zip(chain, lines[::2], lines[1::2], strict=True):
            assert (of_calls.rule_id, of_money.rule_id) == (CALLS_RULE, COST_RULE)
            assert tally.view.balance(of_calls.account).used == tally.calls[link.delegation_id]
            assert tally.view.balance(of_money.account).used == tally.spent[link.delegation_id, "USD"]


def test_amount_that_cannot_be_booked_is_refused_and_its_twin_is_not() -> None:
    for amount in (-1, 1 << 63):
        lines = lines_of_links([first()], use((amount, "USD")))
        assert isinstance(lines, Refusal)
        assert lines.reason is Reason.ARGUMENT_REFUSED
    assert not isinstance(lines_of_links([first()], use((1, "USD"))), Refusal)


def test_accounts_are_a_links_own_of_this_environment_and_generation() -> None:
    made = [
        lines_of_links([link], one)
        for link in (first(), replace(first(), delegation_id="c" * 32))
        for one in (use((1, "USD")), use((1, "EUR")), use((1, "USD"), 2))
    ]
    ids = {line.account.account_id for lines in made if not isinstance(lines, Refusal) for line in lines}
    # for each link: calls in two generations, and USD in two and EUR in one
    assert len(ids) == 2 * (2 + 3)
    assert lines_of_links([], use(None)) == ()
