"""Budgets, session totals and what delegations have left as a limit of decisions (`decider.decision.limits`).

`look` reads, for rules that ask for it, what this task's calls of this operation come to so far. `book` takes
what the permit may use of every budget that is about the call, and only if those totals are still what the
rules saw: of two calls of a session at once, the second is decided again.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from decider.budgets.book import BudgetBook
from decider.budgets.booking import MAX_CLAIMS, Book, Crowded, Done, Exhausted, Stale, Withdraw
from decider.budgets.budget import (
    DELEGATION_RULES,
    MAX_LIMIT,
    Account,
    Budget,
    Line,
    Period,
    Unit,
    Use,
    account_of,
    lines_of,
)
from decider.budgets.settle import Settler
from decider.decision.envelope import Envelope
from decider.decision.limits import NOTHING_SEEN, Outdated, Seen, Stop, Wish
from decider.delegation.allowance import lines_of_links
from decider.policy.rule_call import resource_type
from licet.catalog import Method
from licet.log import log
from licet.refusal import Reason, Refusal
from licet.streams import StreamsError
from licet.v1.decision_pb2 import ConstraintOp, Decision

SESSION_CALLS: Final = "session_calls"
SESSION_AMOUNT: Final = "session_amount_minor"
SESSION: Final = (SESSION_CALLS, SESSION_AMOUNT)
"""What rules may know of a session: a task's calls of one operation, and their money in one currency."""

PERMITS_RULE: Final = "loop-permits"
MAX_DECLARED: Final = 10_000
BOUNDING: Final = frozenset(
    {ConstraintOp.CONSTRAINT_OP_EQ, ConstraintOp.CONSTRAINT_OP_IN, ConstraintOp.CONSTRAINT_OP_LE}
)
"""What bounds a number from above."""

logger = logging.getLogger(__name__)

_SHARED: Final = ("task", "operation")
_CALLS: Final = Budget("session", Unit.CALLS, {"": MAX_LIMIT}, Period.TASK, _SHARED)
_AMOUNT: Final = Budget("session", Unit.MONEY, {}, Period.TASK, _SHARED)


def use_of(envelope: Envelope, environment: str, generation: int) -> Use | Refusal:
    """Return a call as budgets see it; ARGUMENT_REFUSED where an argument that says its cost is missing."""
    task = envelope.task
    costs = envelope.method.costs_of(envelope.arguments)
    if costs is None:
        return Refusal(Reason.ARGUMENT_REFUSED, "an argument that says what the call costs is missing")
    return Use(
        environment=environment,
        generation=generation,
        sharers={
            "tenant": task.tenant,
            "principal": task.principal,
            "agent": task.agent,
            "task": task.task_id,
            "tool": envelope.catalog.tool,
            "operation": envelope.method.operation,
        },
        money=envelope.money,
        task_ends_ms=task.not_after_ms,
        costs=costs,
    )


def most_of(decision: Decision, path: str, asked: int) -> int | None:
    """Return the most that a permit lets a call have at `path`; None where nothing bounds it.

    A permit of exact arguments has what was asked. One that is bound by ceilings may be spent up to them.
    """
    if not decision.ceilings:
        return asked
    tops = [
        max(value.integer if value.HasField("integer") else value.unsigned for value in one.values)
        for one in decision.ceilings
        if tuple(one.path) == tuple(path.split(".")) and one.op in BOUNDING and one.values
    ]
    return min(tops, default=None)


def use_under(decision: Decision, method: Method, use: Use) -> Use | Refusal:
    """Return the most that a call under this permit may use; ARGUMENT_REFUSED where nothing bounds it."""
    money, costs = use.money, dict(use.costs)
    paths = {name: path for name, path in method.costs.items() if not path.isdecimal()}
    for name, path in paths.items():
        most = most_of(decision, path, costs[name])
        if most is None:
            return Refusal(Reason.ARGUMENT_REFUSED, f"no ceiling bounds `{path}`, which says what it costs")
        costs[name] = most
    if money is not None and method.money is not None:
        most = most_of(decision, method.money.amount, money[0])
        if most is None:
            return Refusal(Reason.ARGUMENT_REFUSED, "no ceiling bounds the amount")
        money = most, money[1]
    return replace(use, money=money, costs=costs)


Counted = Callable[[Line, bool], None]
"""Told of a line, and whether it was booked."""


def _uncounted(_line: Line, _booked: bool) -> None:
    """Where nobody counts."""


class BudgetLimit:
    """The budgets of bundle and task, and the totals of sessions.

    Args:
        book: Where they are booked.
        settler: Who ends bookings.
        counted: Told of each line that was booked (True) or did not fit.
    """

    def __init__(self, book: BudgetBook, settler: Settler, counted: Counted = _uncounted) -> None:
        self._book, self._settler, self._counted = book, settler, counted
        self._declared: dict[tuple[int, str, str], bool] = {}

    async def look(self, wish: Wish) -> Seen:
        """Return the totals of the session, where the rules ask for them."""
        if not self._asked(wish):
            return NOTHING_SEEN
        use = _use(wish)
        if isinstance(use, Refusal):
            return Seen(stop=Stop(use, ()))
        accounts = _session(use)
        balances = await self._book.balances(tuple(accounts.values()))
        booking = await self._book.booking(wish.envelope.spend_id)
        own = booking.held if booking is not None else {}  # a permit of this very step counts for nothing
        context = dict.fromkeys(SESSION, 0)
        for name, balance in zip(accounts, balances, strict=True):
            context[name] = balance.used - own.get(accounts[name].account_id, 0)
        return Seen(context=context)

    def _asked(self, wish: Wish) -> bool:
        """Tell whether the schema declares the totals for this operation: who does not ask pays nothing."""
        method, in_force = wish.envelope.method, wish.in_force
        kind = resource_type(method, wish.envelope.resource)
        key = in_force.config_seq, method.operation, kind
        found = self._declared.get(key)
        if found is None:
            if len(self._declared) >= MAX_DECLARED:
                self._declared.clear()
            asked = in_force.bundle.rules.declared("context", method.operation, kind, SESSION)
            found = self._declared[key] = bool(asked)
        return found

    async def book(self, wish: Wish, decision: Decision) -> "Booked | Stop | Outdated | None":
        """Book what the permit would use of every budget that is about the call, and of every link."""
        use = _use(wish)
        use = use if isinstance(use, Refusal) else use_under(decision, wish.envelope.method, use)
        if isinstance(use, Refusal):
            return Stop(use, ())
        budgets = () if wish.links_only else (*wish.in_force.bundle.budgets, *wish.envelope.task.budgets)
        lines = lines_of(budgets, use, wish.now_ms)
        if isinstance(lines, Refusal):
            return Stop(lines, ())
        links = lines_of_links(wish.envelope.links, use)
        if isinstance(links, Refusal):
            return Stop(links, ())
        session = () if wish.links_only else _session_lines(use, wish.seen)
        if isinstance(session, Refusal):
            return Stop(session, ())
        if not lines and not links and not session:
            return None
        envelope = wish.envelope
        change = Book(
            spend_id=envelope.spend_id,
            tool=envelope.catalog.tool,
            round=wish.round,
            decision_id=decision.decision_id,
            end_ms=decision.not_after_ms,
            lines=(*lines, *links, *session),
        )
        result = await self._book.change(change)
        if isinstance(result, Done):
            decision.spends = True  # a permit that is spent tells how it ended
            self._settler.watch(change.spend_id, wish.now_ms)
            self._count((*lines, *links), booked=True)
            return Booked(self._book, change)
        if isinstance(result, Stale):
            return Outdated()
        return await self._refused(result, wish)

    def denied(self, wish: Wish) -> None:
        """Nothing is booked for a call that is not permitted."""

    async def _refused(self, result: Exhausted | Crowded, wish: Wish) -> Stop:
        if await self._settler.reserved(wish.envelope.spend_id, wish.envelope.catalog.tool, wish.round):
            # a retry after a lost reply: the step is used up, whatever is left of the budget
            return Stop(Refusal(Reason.SPENT, "the step is reserved already"), ())
        if isinstance(result, Crowded):
            detail = f"the step has {MAX_CLAIMS} permits that may still be used"
            return Stop(Refusal(Reason.LOOP_BROKEN, detail), (PERMITS_RULE,))
        line = result.line
        self._count((line,), booked=False)
        asked = f"{result.used} of {line.limit} are used, {line.amount} more were asked for"
        reason = Reason.DELEGATION_EXCEEDED if line.rule_id in DELEGATION_RULES else Reason.BUDGET_EXHAUSTED
        return Stop(Refusal(reason, f"{line.account.text}: {asked}"), (line.rule_id,))

    def _count(self, lines: Iterable[Line], *, booked: bool) -> None:
        for line in lines:
            self._counted(line, booked)


def _use(wish: Wish) -> Use | Refusal:
    in_force = wish.in_force
    return use_of(wish.envelope, in_force.config.environment, in_force.generation)


def _session(use: Use) -> dict[str, Account]:
    """Return the accounts of a session by the name that rules know their total by."""
    accounts = {SESSION_CALLS: account_of(_CALLS, use, "", 0)}
    if use.money is not None:
        accounts[SESSION_AMOUNT] = account_of(_AMOUNT, use, use.money[1], 0)
    return accounts


def _session_lines(use: Use, seen: Seen) -> tuple[Line, ...] | Refusal:
    """Return the lines that keep the totals, each only if it is still what the rules saw."""
    if SESSION_CALLS not in seen.context:
        return ()
    amounts = {SESSION_CALLS: 1, SESSION_AMOUNT: use.money[0] if use.money is not None else 0}
    lines = []
    for name, account in _session(use).items():
        total = seen.context[name]
        if not isinstance(total, int) or not 0 <= amounts[name] <= MAX_LIMIT:
            return Refusal(Reason.ARGUMENT_REFUSED, "an amount that a session cannot add up")
        lines.append(Line(account, _CALLS.rule_id, amounts[name], MAX_LIMIT, total))
    return tuple(lines)


class Booked:
    """What was booked for one permit."""

    def __init__(self, book: BudgetBook, change: Book) -> None:
        self._book, self._change = book, change

    async def release(self) -> None:
        """Take it back; where that fails, it ends like a permit that nobody spent."""
        try:
            await self._book.change(Withdraw(self._change.spend_id, self._change.decision_id))
        except StreamsError as error:
            log(logger, logging.WARNING, "budgets.not_withdrawn", detail=str(error)[:300])
