"""What the checks at the door look at, and what they establish: from what was presented to a Permit.

A Permit can be had from `examine` alone; whoever forwards a call asks for one.
"""

from dataclasses import InitVar, dataclass, field

from licet.beacon import HeldBeacon
from licet.call import Arguments
from licet.catalog import Catalog, Method, MethodVersions
from licet.keys import KeySet
from licet.revocation import Revocations
from licet.v1.decision_pb2 import Decision
from licet.v1.statement_pb2 import Signed

_SEAL = object()


@dataclass(frozen=True, slots=True)
class Presented:
    """A call as it came: raw path, all permit and approval values, body, authenticated peer."""

    path: str
    permits: tuple[bytes, ...]
    approvals: tuple[bytes, ...]
    body: bytes
    peer: str


@dataclass(frozen=True, slots=True)
class DoorState:
    """What a door knows now.

    `generation` is that of `k_tool`. `obligations` are those the door itself does; the tool's side knows
    more (the catalog says which). `keys` and `revocations` must be those that the beacon names, else writes
    are refused.
    """

    environment: str
    audience: str
    catalog: Catalog
    keys: KeySet
    revocations: Revocations
    beacon: HeldBeacon | None
    k_tool: bytes = field(repr=False)
    generation: int = 1
    obligations: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Permit:
    """One call that may go on, once: everything the door's checks established. Made by `examine` only.

    `arguments.canonical` is what may be forwarded, `call_digest` is of exactly that. If `spends`,
    `spend_id` and `round` must be reserved first. `approvers` are those whose approvals counted.
    """

    decision: Decision
    signed: Signed
    method: Method
    arguments: Arguments
    call_digest: bytes
    approvals: tuple[bytes, ...]
    approvers: tuple[str, ...]
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("a permit is made by `examine` only")

    @property
    def spend_id(self) -> str:
        """The one effect this step may have."""
        return self.decision.spend_id

    @property
    def round(self) -> int:
        """Which try of the step."""
        return self.decision.round

    @property
    def spends(self) -> bool:
        """Whether it must be spent before it is forwarded: always for writes, by the catalog's word."""
        return self.method.spends or self.decision.spends

    @property
    def not_after_ms(self) -> int:
        """When it ends, Unix ms."""
        return self.decision.not_after_ms


@dataclass(slots=True)
class Case:
    """One call under examination. A check may read only what the checks before it have set."""

    presented: Presented
    door: DoorState
    now_ms: int
    monotonic_ms: int
    versions: MethodVersions = field(init=False)
    signed: Signed = field(init=False)
    decision: Decision = field(init=False)
    method: Method = field(init=False)
    arguments: Arguments = field(init=False)
    call_digest: bytes = field(init=False)
    approvers: tuple[str, ...] = ()

    def permit(self) -> Permit:
        """Return what was established; raises AttributeError if what must establish it did not run."""
        return Permit(
            self.decision,
            self.signed,
            self.method,
            self.arguments,
            self.call_digest,
            self.presented.approvals,
            self.approvers,
            _SEAL,
        )
