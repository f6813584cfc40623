"""What budgets there are, and which lines of them a call uses. Pure: the time is an argument.

A budget limits calls, money or a cost that the catalog names, for each who shares it (`per`), in each period.
What one call uses is a line for each budget that is about it. Guarantees: a money budget that is about a call
covers every currency, one that it does not name with the limit 0; nothing negative is ever booked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final

from licet.refusal import Reason, Refusal

RULE_PREFIX: Final = "budget-"
CALLS_RULE: Final = "delegation-max-calls"
COST_RULE: Final = "delegation-max-cost"
DELEGATION_RULES: Final = frozenset({CALLS_RULE, COST_RULE})
"""The rule ids under which denials of a used-up delegation stand; a bundle may have notes for them."""
MAX_BUDGETS: Final = 100
"""Budgets of one bundle, and of one template."""
MAX_LINES: Final = 16
"""Budgets that one call may be about; a batch of the store is bounded."""
MAX_LIMIT: Final = (1 << 63) - 1
SHARERS: Final = ("tenant", "principal", "agent", "task", "tool", "operation")
"""Whom a budget can be for, in the order in which they name an account."""

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


class Unit(StrEnum):
    """What is counted."""

    CALLS = "calls"
    MONEY = "money"
    COST = "cost"


class Period(StrEnum):
    """After how long a budget begins anew, by UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit. `limits`: by currency for money, else under the empty text."""

    name: str
    unit: Unit
    limits: Mapping[str, int]
    period: Period
    per: tuple[str, ...] = ()
    operations: frozenset[str] = frozenset()
    cost: str = ""

    @property
    def rule_id(self) -> str:
        """The rule id under which its denials stand."""
        return f"{RULE_PREFIX}{self.name}"


@dataclass(frozen=True, slots=True)
class Use:
    """A call as budgets see it; `sharers` has every name of `SHARERS`."""

    environment: str
    generation: int
    sharers: Mapping[str, str]
    money: tuple[int, str] | None
    task_ends_ms: int
    costs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Account:
    """One budget of those who share it in one period: what a balance is of. `text` is for people."""

    account_id: str
    text: str
    ends_ms: int


@dataclass(frozen=True, slots=True)
class Line:
    """What a call would use of one account. `expected`: only if so much of it is used; None for any.

    `unit`: `calls`, a currency, or the name of a cost.
    """

    account: Account
    rule_id: str
    amount: int
    limit: int
    expected: int | None = None
    unit: str = Unit.CALLS


def lines_of(budgets: Iterable[Budget], use: Use, now_ms: int) -> tuple[Line, ...] | Refusal:
    """Return what a call uses of the budgets that are about it.

    ARGUMENT_REFUSED for an amount below 0 or beyond 64 bits; BUDGET_EXHAUSTED for more than `MAX_LINES`
    budgets.
    """
    lines = []
    for budget in budgets:
        if budget.operations and use.sharers["operation"] not in budget.operations:
            continue
        used = _used(budget, use)
        if used is None:
            continue
        amount, currency = used
        if not 0 <= amount <= MAX_LIMIT:
            return Refusal(Reason.ARGUMENT_REFUSED, f"an amount that budget `{budget.name}` cannot book")
        account = account_of(budget, use, currency, now_ms)
        unit = currency or budget.cost or Unit.CALLS
        lines.append(Line(account, budget.rule_id, amount, budget.limits.get(currency, 0), unit=unit))
    if len(lines) > MAX_LINES:
        return Refusal(Reason.BUDGET_EXHAUSTED, f"more than {MAX_LINES} budgets are about the call")
    return tuple(lines)


def _used(budget: Budget, use: Use) -> tuple[int, str] | None:
    if budget.unit is Unit.CALLS:
        return 1, ""
    if budget.unit is Unit.MONEY:
        return use.money
    cost = use.costs.get(budget.cost)
    return None if cost is None else (cost, "")


def account_of(budget: Budget, use: Use, currency: str, now_ms: int) -> Account:
    """Return the account of a budget that a call is about.

    The id is the first 16 bytes of the SHA-256 of `licet-budget-v1`, a zero byte and these parts, each with
    its length before it: environment, generation, name, unit, cost, period, its start, currency, and name and
    value of each who shares it. A new generation begins every account anew.
    """
    start_ms, ends_ms = span_of(budget.period, now_ms, use.task_ends_ms)
    shared = [(name, use.sharers[name]) for name in SHARERS if name in budget.per]
    parts = [use.environment, str(use.generation), budget.name, budget.unit, budget.cost]
    parts += [budget.period, str(start_ms), currency, *(part for pair in shared for part in pair)]
    who = ", ".join(f"{name} {value}" for name, value in shared) or "everybody"
    when = "" if budget.period is Period.TASK else f" from {_date(start_ms)}"
    text = f"{budget.name}: {currency or budget.cost or 'calls'} of {who}{when}"
    return Account(account_id("licet-budget-v1", parts), text[:300], ends_ms)


def account_id(domain: str, parts: Iterable[str]) -> str:
    """Return the first 16 bytes, in hex, of the SHA-256 of a domain, a zero byte and the parts.

    Each part has its length before it, four bytes, so that no two lists are spelled alike.
    """
    digest = sha256(domain.encode() + b"\0")
    for part in parts:
        raw = part.encode()
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.digest()[:16].hex()


def span_of(period: Period, now_ms: int, task_ends_ms: int) -> tuple[int, int]:
    """Return when the period that `now_ms` is in begins and ends, Unix ms."""
    if period is Period.TASK:
        return 0, task_ends_ms
    if period is Period.MONTH:
        first = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0)
        first = first.replace(microsecond=0)
        year, month = (first.year + 1, 1) if first.month == 12 else (first.year, first.month + 1)
        following = first.replace(year=year, month=month)
        return int(first.timestamp()) * 1000, int(following.timestamp()) * 1000
    length = HOUR_MS if period is Period.HOUR else DAY_MS
    start = now_ms // length * length
    return start, start + length


def _date(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")
