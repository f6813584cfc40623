"""What a decider works with, and what one decision carries along."""

from collections.abc import Callable
from dataclasses import dataclass

from decider.approval.holds import Holds
from decider.decision.envelope import House
from decider.decision.limits import Limits
from decider.decision.reader import ToolReader
from decider.decision.sealer import Sealer
from decider.delegation.delegations import Registry
from decider.in_force.configuration import Configuration
from decider.notices.announcer import Announcer
from decider.quota import Quota
from decider.relations.relation import Relations
from decider.task.task_store import TaskStore
from decider.tokens.issuers import Users
from licet.journal import Journal
from licet.statement import SigningKey
from licet.streams import Connection
from licet.tracing import Recording, Span


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time and ids come from: wall clock and monotonic clock in ms, UUIDv7 as 32 lower hex digits."""

    wall_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]
    new_id: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a decider works with."""

    house: House
    own_id: str
    key: SigningKey
    master: bytes
    configuration: Configuration
    journal: Journal
    reader: ToolReader
    nc: Connection
    holds: Holds
    quota: Quota
    clock: Clock
    delegations: Registry
    limits: Limits
    tasks: TaskStore
    users: Users
    sealer: Sealer
    announcer: Announcer
    relations: Relations | None


@dataclass(frozen=True, slots=True)
class Track:
    """Where a decision leaves its spans."""

    recording: Recording
    span: Span
