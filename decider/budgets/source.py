"""Budgets as people write them and as a bundle carries them: YAML to message, message to value. Pure.

    budgets:
      tenant-refunds-a-day: {per: [tenant], period: day, money: {USD: 500000}, operations: [refund]}
      agent-calls-an-hour: {per: [agent], period: hour, calls: 2000}
      task-tokens: {per: [task], period: task, cost: {tokens: 100000}}

Exactly one of `calls`, `money` and `cost`. A message that does not make a budget raises ValueError: a bundle
with a limit that is not understood must not decide.
"""

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from decider.budgets.budget import MAX_BUDGETS, MAX_LIMIT, SHARERS, Budget, Period, Unit
from decider.source import Section
from licet.v1 import budget_pb2

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,55}\Z")
CURRENCY: Final = re.compile(r"[A-Z]{3}\Z")
COST: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")

_UNITS: Final = {unit: budget_pb2.BudgetUnit.Value(f"BUDGET_UNIT_{unit.name}") for unit in Unit}
_PERIODS: Final = {period: budget_pb2.BudgetPeriod.Value(f"BUDGET_PERIOD_{period.name}") for period in Period}
_UNIT_OF: Final = {number: unit for unit, number in _UNITS.items()}
_PERIOD_OF: Final = {number: period for period, number in _PERIODS.items()}


def read_budgets(listed: Section | None, *, of_a_task: bool = False) -> list[budget_pb2.Budget]:
    """Return the budgets of a section, faults noted in it. Those of a task are for the task and its life."""
    if listed is None:
        return []
    if len(listed.names()) > MAX_BUDGETS:
        listed.faults.add(listed.line, listed.name, f"more than {MAX_BUDGETS} budgets")
    budgets = []
    for name in listed.names():
        inner = listed.section(name)
        if inner is None:
            continue
        if not NAME.match(name):
            listed.refuse(name, "a name is 1 to 56 of a-z, 0-9, `-`, `_`")
        budgets.append(_budget(name, inner, of_a_task))
        inner.close()
    return budgets


def _budget(name: str, inner: Section, of_a_task: bool) -> budget_pb2.Budget:
    message = budget_pb2.Budget(name=name, operations=sorted(set(inner.texts("operations"))))
    if of_a_task:
        message.per.append("task")
        message.period = _PERIODS[Period.TASK]
    else:
        message.per.extend(_sharers(inner))
        message.period = _period(inner, message)
    given = [unit for unit in Unit if inner.has(unit.value)]
    if len(given) != 1:
        inner.faults.add(inner.line, inner.name, "must have exactly one of `calls`, `money` and `cost`")
        return message
    message.unit = _UNITS[given[0]]
    if given[0] is Unit.CALLS:
        message.limits.add(limit=inner.integer("calls", low=0, high=MAX_LIMIT))
    else:
        _limits(given[0], inner, message)
    return message


def _sharers(inner: Section) -> list[str]:
    named = inner.texts("per")
    for name in named:
        if name not in SHARERS:
            inner.refuse("per", f"`{name}` must be one of {', '.join(SHARERS)}")
    return sorted(set(named))


def _period(inner: Section, message: budget_pb2.Budget) -> budget_pb2.BudgetPeriod.ValueType:
    text = inner.text("period")
    if text not in {period.value for period in Period}:
        inner.refuse("period", f"`{text}` must be one of {', '.join(period.value for period in Period)}")
        return _PERIODS[Period.DAY]
    if text == Period.TASK and "task" not in message.per:
        inner.refuse("period", "`task` needs `task` in `per`")
    return _PERIODS[Period(text)]


def _limits(unit: Unit, inner: Section, message: budget_pb2.Budget) -> None:
    section = inner.section(unit.value)
    names = section.names() if section is not None else ()
    pattern, what = (CURRENCY, "three capital letters") if unit is Unit.MONEY else (COST, "a lower-case name")
    if section is not None and (not names or (unit is Unit.COST and len(names) != 1)):
        inner.refuse(unit.value, "must name a limit, and of a cost exactly one")
    for name in names if section is not None else ():
        if section is None:
            break
        if not pattern.match(name):
            section.refuse(name, f"must be {what}")
        limit = section.integer(name, low=0, high=MAX_LIMIT)
        message.limits.add(currency=name if unit is Unit.MONEY else "", limit=limit)
        message.cost = name if unit is Unit.COST else ""
    if section is not None:
        section.close()


def load_budgets(messages: Iterable[budget_pb2.Budget]) -> tuple[Budget, ...]:
    """Return the budgets that messages spell. Raises ValueError."""
    budgets = tuple(map(_loaded, messages))
    if len({budget.name for budget in budgets}) != len(budgets) or len(budgets) > MAX_BUDGETS:
        raise ValueError("a budget is given twice, or there are too many")
    return budgets


def _loaded(message: budget_pb2.Budget) -> Budget:
    unit, period = _UNIT_OF.get(message.unit), _PERIOD_OF.get(message.period)
    limits = {one.currency: one.limit for one in message.limits}
    if unit is None or period is None or not NAME.match(message.name):
        raise ValueError(f"budget `{message.name}` has a unit or a period that is not known here")
    if not set(message.per) <= set(SHARERS) or (period is Period.TASK and "task" not in message.per):
        raise ValueError(f"budget `{message.name}` is for somebody who is not known here")
    if not limits or len(limits) != len(message.limits) or min(limits.values()) < 0:
        raise ValueError(f"budget `{message.name}` has no limit, or two of a currency")
    if (unit is Unit.MONEY) == ("" in limits) or (unit is Unit.COST) != bool(message.cost):
        raise ValueError(f"budget `{message.name}` does not say what it limits")
    return Budget(
        name=message.name,
        unit=unit,
        limits=MappingProxyType(limits),
        period=period,
        per=tuple(message.per),
        operations=frozenset(message.operations),
        cost=message.cost,
    )


def budget_message(budget: Budget) -> budget_pb2.Budget:
    """Return a budget as a message."""
    return budget_pb2.Budget(
        name=budget.name,
        unit=_UNITS[budget.unit],
        cost=budget.cost,
        limits=[
            budget_pb2.BudgetLimit(currency=currency, limit=limit)
            for currency, limit in sorted(budget.limits.items())
        ],
        period=_PERIODS[budget.period],
        per=budget.per,
        operations=sorted(budget.operations),
    )
