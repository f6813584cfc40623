"""Balances and bookings as values, and how each change moves them. Pure.

A booking holds, for each account, the most that any one permit of its step would use: of all permits of a
step at most one is spent. Guarantees, for every sequence of changes: `booked` of a balance is the sum of what
open bookings hold of it, `settled` the sum of what settled permits used, and no change that `book` let
through takes a balance above the line's limit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from decider.budgets.budget import MAX_LIMIT, Account, Line

MAX_CLAIMS: Final = 8
"""Permits of one step and round that may be out at once."""


@dataclass(frozen=True, slots=True)
class Balance:
    """What is used of an account. `seq` is of its record in JetStream, 0 before the first."""

    account: Account
    booked: int = 0
    settled: int = 0
    seq: int = 0

    @property
    def used(self) -> int:
        """Everything that is not to be had any more."""
        return self.booked + self.settled


@dataclass(frozen=True, slots=True)
class Claim:
    """What one permit would use, by account id."""

    decision_id: str
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Booking:
    """What one step has booked; without claims it is over. `end_ms`: when its last permit ends."""

    spend_id: str
    tool: str
    round: int
    end_ms: int
    claims: tuple[Claim, ...] = ()
    accounts: Mapping[str, Account] | None = None
    seq: int = 0

    @property
    def held(self) -> dict[str, int]:
        """The most that one of its permits would use of each account."""
        found: dict[str, int] = {}
        for claim in self.claims:
            for account_id, amount in claim.amounts.items():
                found[account_id] = max(found.get(account_id, 0), amount)
        return found


@dataclass(frozen=True, slots=True)
class Book:
    """A permit is about to leave."""

    spend_id: str
    tool: str
    round: int
    decision_id: str
    end_ms: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class End:
    """A round of a step is over. `settled`: the permit that was spent; empty: none was; None: not known.

    `only`: the permits it is about, where one more would be another matter; None for any.
    """

    spend_id: str
    round: int
    settled: str | None
    only: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A permit does not leave after all."""

    spend_id: str
    decision_id: str


Change = Book | End | Withdraw


@dataclass(frozen=True, slots=True)
class Done:
    """The change is made, or there was nothing to change."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A line does not fit: so much is used of its account."""

    line: Line
    used: int


@dataclass(frozen=True, slots=True)
class Stale:
    """More or less is used of an account than the decision rests on."""

    line: Line
    used: int


@dataclass(frozen=True, slots=True)
class Crowded:
    """The step has as many permits out as it may."""


Result = Done | Exhausted | Stale | Crowded


class View(Protocol):
    """What changes read and write; nothing is written by a change that is refused."""

    def balance(self, account: Account) -> Balance:
        """Return the balance of an account; an empty one where there is none."""

    def booking(self, spend_id: str) -> Booking | None:
        """Return what a step has booked, if anything."""

    def put(self, balances: Iterable[Balance], booking: Booking) -> None:
        """Write."""


def apply(change: Change, view: View) -> Result:
    """Make one change."""
    match change:
        case Book():
            return _book(change, view)
        case End():
            return _end(change, view)
        case Withdraw():
            return _withdraw(change, view)


def _book(change: Book, view: View) -> Result:
    old = view.booking(change.spend_id)
    claims = old.claims if old is not None else ()
    if old is not None and claims and change.round < old.round:
        return Done()  # that round is over: its permit opens nothing
    if old is not None and change.round > old.round:
        claims = ()  # the round before had no effect
    if any(claim.decision_id == change.decision_id for claim in claims):
        return Done()  # a batch whose ack was lost
    if len(claims) >= MAX_CLAIMS:
        return Crowded()
    amounts: dict[str, int] = {}
    for line in change.lines:
        amounts[line.account.account_id] = amounts.get(line.account.account_id, 0) + line.amount
    everyone = {**_accounts(old), **{line.account.account_id: line.account for line in change.lines}}
    asked = (*claims, Claim(change.decision_id, amounts))
    new = Booking(
        spend_id=change.spend_id,
        tool=change.tool,
        round=change.round,
        end_ms=max(change.end_ms, old.end_ms if old is not None and claims else 0),
        claims=asked,
        accounts={name: everyone[name] for claim in asked for name in claim.amounts},
        seq=old.seq if old is not None else 0,
    )
    return _move(old, new, change.lines, view)


def _move(old: Booking | None, new: Booking, lines: tuple[Line, ...], view: View) -> Result:
    before = old.held if old is not None else {}
    after = new.held
    by_id = {line.account.account_id: line for line in lines}
    moved = []
    for account_id, account in {**_accounts(old), **_accounts(new)}.items():
        balance = view.balance(account)
        own, more = before.get(account_id, 0), after.get(account_id, 0) - before.get(account_id, 0)
        line = by_id.get(account_id)
        if line is not None:
            refused = _fits(line, balance, more, own)
            if refused is not None:
                return refused
        if more:
            moved.append(replace(balance, booked=balance.booked + more))
    view.put(moved, new)
    return Done()


def _fits(line: Line, balance: Balance, more: int, own: int) -> Result | None:
    if line.expected is not None and balance.used - own != line.expected:
        return Stale(line, balance.used - own)
    if more > 0 and balance.used + more > min(line.limit, MAX_LIMIT):
        return Exhausted(line, balance.used)
    return None


def _end(change: End, view: View) -> Result:
    old = view.booking(change.spend_id)
    if old is None or not old.claims or old.round != change.round:
        return Done()
    if change.only is not None and {claim.decision_id for claim in old.claims} != change.only:
        return Done()  # a permit was made since somebody looked: the step may still be spent
    used: Mapping[str, int] = {}
    if change.settled is None:
        used = old.held
    elif change.settled:
        used = next((claim.amounts for claim in old.claims if claim.decision_id == change.settled), {})
    moved = []
    for account_id, held in old.held.items():
        balance = view.balance(_accounts(old)[account_id])
        settled = used.get(account_id, 0)
        if held or settled:
            moved.append(replace(balance, booked=balance.booked - held, settled=balance.settled + settled))
    view.put(moved, replace(old, claims=()))
    return Done()


def _withdraw(change: Withdraw, view: View) -> Result:
    old = view.booking(change.spend_id)
    if old is None or all(claim.decision_id != change.decision_id for claim in old.claims):
        return Done()
    new = replace(old, claims=tuple(one for one in old.claims if one.decision_id != change.decision_id))
    return _move(old, new, (), view)


def _accounts(booking: Booking | None) -> Mapping[str, Account]:
    return booking.accounts or {} if booking is not None else {}
