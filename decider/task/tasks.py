"""Tasks: registered work. An agent can only name one of its own; who it is for, the registry says.

The registry of this slice is a file, read once at start. `caller` is a SPIFFE id, or the path below
`spiffe://<trust domain>/<environment>/`. A task ends at `not_after` (RFC 3339 with its offset), or `hours`
after it `started`, at most `MAX_HOURS`: the spends of a step at an unguarded tool are remembered for a day.
Without `started` they count from the first start of a decider with it (`decider.task.starts`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from decider.budgets.budget import Budget
from decider.budgets.source import load_budgets, read_budgets
from decider.identifiers import misleads
from decider.source import Section, read
from decider.task.contract import Contract
from decider.task.contract_source import read_contract
from licet.identity import parse_spiffe_id

MAX_TASKS: Final = 100_000
DEFAULT_HOURS: Final = 12
MAX_HOURS: Final = 23
"""A spend record lives 24 h; a task that outlives it could do a step twice at an unguarded tool."""

HOUR_MS: Final = 3_600_000
TASK_ID: Final = re.compile(r"[\x21-\x7e]{1,128}\Z")
DELEGATION_ID: Final = re.compile(r"[0-9a-f]{32}\Z")
NAME: Final = re.compile(r"[a-z0-9_-]{1,64}\Z")


@dataclass(frozen=True, slots=True)
class Task:
    """Who does what for whom. `not_after_ms`: the first moment at which it is over, Unix ms."""

    task_id: str
    caller: str
    agent: str
    principal: str
    tenant: str
    intent: str
    not_after_ms: int
    contract: Contract | None = None
    """What it may bring about; without one, only the rules say."""
    delegation: str = ""
    """Id of the last link of the delegation it rests on; empty for none."""
    budgets: tuple[Budget, ...] = ()
    """What its calls may use up together, beside the budgets of the bundle."""
    life_ms: int = 0
    """How long it lasts from its first start, where the file does not say when that was; else 0."""
    closed: bool = False
    """Whether the application that registered it has ended it."""


Tasks = Mapping[str, Task]


def read_tasks(path: Path, *, trust_domain: str, environment: str, now_ms: int) -> Tasks:
    """Return the tasks of a file by id. Raises `SourceError` with every fault."""
    top, faults = read(path)
    listed = top.section("tasks", required=True)
    tasks: dict[str, Task] = {}
    if listed is not None:
        if len(listed.names()) > MAX_TASKS:
            top.refuse("tasks", f"lists more than {MAX_TASKS} tasks")
        for task_id in listed.names():
            if not TASK_ID.match(task_id):
                listed.refuse(task_id, "a task id is 1 to 128 printable ASCII characters without spaces")
            section = listed.section(task_id)
            if section is not None:
                tasks[task_id] = _task(task_id, section, trust_domain, environment, now_ms)
                section.close()
    top.close()
    faults.raise_any()
    return MappingProxyType(tasks)


def _task(task_id: str, section: Section, trust_domain: str, environment: str, now_ms: int) -> Task:
    caller = section.text("caller")
    if "://" not in caller:
        caller = f"spiffe://{trust_domain}/{environment}/{caller}"
    if parse_spiffe_id(caller) is None:
        section.refuse("caller", f"`{caller}` is no SPIFFE id")
    agent = section.text("agent")
    if not NAME.match(agent):
        section.refuse("agent", f"`{agent}` must be 1 to 64 of a-z, 0-9, `_`, `-`")
    return Task(
        task_id=task_id,
        caller=caller,
        agent=agent,
        principal=_identifier(section, "principal"),
        tenant=_identifier(section, "tenant"),
        intent=section.text("intent", "", max_length=2000),
        not_after_ms=_end(section, now_ms),
        life_ms=0 if section.has("not_after") or section.has("started") else _hours(section) * HOUR_MS,
        contract=_contract(section),
        delegation=_delegation(section),
        budgets=_budgets(section),
    )


def _budgets(section: Section) -> tuple[Budget, ...]:
    messages = read_budgets(section.section("budgets"), of_a_task=True)
    try:
        return load_budgets(messages)
    except ValueError as error:
        section.refuse("budgets", str(error))
        return ()


def _delegation(section: Section) -> str:
    name = section.text("delegation", "")
    if name and not DELEGATION_ID.match(name):
        section.refuse("delegation", f"`{name}` must be 32 lower hex digits")
    return name


def _contract(section: Section) -> Contract | None:
    inner = section.section("contract")
    return None if inner is None else read_contract(inner)


def _identifier(section: Section, key: str) -> str:
    value = section.text(key, max_length=256)
    if not value or not value.isprintable() or value != value.strip():
        section.refuse(key, "must be printable and not begin or end with a space")
    misleading = misleads(value)
    if misleading:
        section.refuse(key, f"may be taken for another: {misleading}")
    return value


def _end(section: Section, now_ms: int) -> int:
    hours = _hours(section)
    if not section.has("not_after"):
        return _start(section, now_ms) + hours * HOUR_MS
    for other in ("hours", "started"):
        if section.has(other):
            section.refuse(other, "give `not_after`, or `hours` and when it `started`, not both")
    return _moment(section, "not_after")


def _hours(section: Section) -> int:
    return section.integer("hours", DEFAULT_HOURS, low=1, high=MAX_HOURS)


def _start(section: Section, now_ms: int) -> int:
    """Return when the task began; without `started` this is for who knows its first start to say."""
    if not section.has("started"):
        return now_ms
    started = _moment(section, "started")
    if started > now_ms + HOUR_MS:
        section.refuse("started", "is in the future")
    return started


def _moment(section: Section, key: str) -> int:
    text = section.text(key)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        section.refuse(key, f"`{text}` must be a time with its offset, such as `2030-01-31T12:00:00Z`")
        return 0
    return int(moment.timestamp() * 1000)
