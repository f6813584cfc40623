"""Templates of tasks: what kinds of work may be registered, signed with the rules. Pure.

templates:
  answer-refund-request:
    agents: [refund-bot]
    hours: 4
    contract: {allow: [read_order, refund], approver: finance-lead}
    budgets: {refunds: {money: {USD: 10000}, operations: [refund]}, calls: {calls: 40}}
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from decider.budgets.budget import Budget
from decider.budgets.source import load_budgets, read_budgets
from decider.source import Section
from decider.task.contract import Contract
from decider.task.contract_source import contract_message, load_contract, read_contract
from licet.v1 import task_pb2

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
MAX_TEMPLATES: Final = 200
MAX_HOURS: Final = 23
"""As long as the spends of a task are surely remembered."""
HOUR_S: Final = 3_600


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of task."""

    name: str
    agents: frozenset[str]
    contract: Contract
    budgets: tuple[Budget, ...]
    max_life_s: int


Templates = Mapping[str, Template]


def read_templates(listed: Section | None) -> Iterator[task_pb2.TaskTemplate]:
    """Yield the templates of a section, faults noted in it."""
    for name in listed.names() if listed is not None else ():
        inner = listed.section(name) if listed is not None else None
        if inner is None or listed is None:
            continue
        agents = inner.texts("agents")
        if not NAME.match(name) or not agents or not all(map(NAME.match, agents)):
            listed.refuse(name, "needs a name and `agents`, each 1 to 64 of a-z, 0-9, `-`, `_`")
        contract = inner.section("contract", required=True)
        yield task_pb2.TaskTemplate(
            name=name,
            agents=sorted(set(agents)),
            contract=contract_message(read_contract(contract)) if contract is not None else None,
            budgets=read_budgets(inner.section("budgets"), of_a_task=True),
            max_life_s=inner.integer("hours", 12, low=1, high=MAX_HOURS) * HOUR_S,
        )
        inner.close()


def load_templates(messages: Iterable[task_pb2.TaskTemplate]) -> Templates:
    """Return the templates that messages spell, by name. Raises ValueError."""
    found: dict[str, Template] = {}
    for message in messages:
        if message.name in found or not NAME.match(message.name) or not message.agents:
            raise ValueError(f"template `{message.name}` is given twice, or is none")
        if not 1 <= message.max_life_s <= MAX_HOURS * HOUR_S:
            raise ValueError(f"template `{message.name}` lasts too long")
        found[message.name] = Template(
            name=message.name,
            agents=frozenset(message.agents),
            contract=load_contract(message.contract),
            budgets=load_budgets(message.budgets),
            max_life_s=message.max_life_s,
        )
    if len(found) > MAX_TEMPLATES:
        raise ValueError(f"more than {MAX_TEMPLATES} templates")
    return MappingProxyType(found)
