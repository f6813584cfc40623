"""One attempt of a case: what was tried, what was expected, what really happened, in four places.

The caller's reply, the tool process's own count, the ledger, and ClickHouse. An attempt is right when all
four say exactly what was expected: every event of the step is counted, so one too many is as wrong as none.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from examples.refund.demo.wire import Step

NOTHING: Final[Mapping[str, int]] = MappingProxyType({})

DECIDED: Final = "decision.allowed"
DENIED: Final = "decision.denied POLICY_DENIED"
PASSED: Final = "door.passed"
RESERVED: Final = "spend.reserved"
EXECUTED: Final = "spend.outcome EXECUTED"
NO_EFFECT: Final = "spend.outcome FAILED_NO_EFFECT"
CHANGED: Final = "ledger.changed"

EFFECT_MINOR: Final = -5000
"""What one refund of 50.00 does to the merchant's balance."""
EVIDENCE_OF_EFFECT: Final = MappingProxyType({DECIDED: 1, PASSED: 1, RESERVED: 1, EXECUTED: 1, CHANGED: 2})
"""The three evidences of one refund: one decision; the door, the reserve, its outcome; two ledger rows."""

SPANS_OF_DECISION: Final = frozenset({"licet.v1.DeciderService/Decide", "policy.evaluate"})
SPANS_OF_DOOR: Final = frozenset({"permit.verify"})
SPANS_OF_EFFECT: Final = SPANS_OF_DECISION | SPANS_OF_DOOR | {"permit.spend", "ledger.commit"}


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be seen. `events`: every event of the steps but findings, each with its reason or outcome."""

    replies: tuple[str, ...]
    events: Mapping[str, int]
    finding: str
    refund_calls: int = 0
    ledger_minor: int = 0
    spans: frozenset[str] = frozenset()


@dataclass(slots=True)
class Seen:
    """What was seen so far."""

    replies: tuple[str, ...] = ()
    refund_calls: int = 0
    ledger_minor: int = 0
    events: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    raised: int = 0
    spans: frozenset[str] = frozenset()
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True)
class Attempt:
    """One try, an attack or its lawful twin. `seconds`: how long it took."""

    label: str
    lawful: bool
    expected: Expected
    steps: list[Step] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)
    seconds: float = 0.0

    def differences(self) -> tuple[str, ...]:
        """Say everything that is not as expected, one sentence each; empty when all is."""
        expected, seen = self.expected, self.seen
        pairs = (
            ("replies", _counted(expected.replies), _counted(seen.replies)),
            ("calls in the tool process", expected.refund_calls, seen.refund_calls),
            ("ledger, minor units", expected.ledger_minor, seen.ledger_minor),
            ("events", dict(sorted(expected.events.items())), dict(sorted(seen.events.items()))),
            ("finding", expected.finding, "+".join(seen.findings)),
        )
        found = [f"{name}: expected {wanted}, saw {got}" for name, wanted, got in pairs if wanted != got]
        missing = sorted(expected.spans - seen.spans)
        if missing:
            found.append(f"trace: no span {', '.join(missing)}")
        return tuple(found)

    @property
    def right(self) -> bool:
        """Whether all is as expected."""
        return not self.differences()


@dataclass(slots=True)
class Case:
    """An attack with its lawful twin."""

    name: str
    title: str
    attempts: list[Attempt] = field(default_factory=list)
    broke: str = ""
    """Why it could not be played to its end."""

    @property
    def attacked(self) -> bool:
        """Whether any of it is an attack: what is lawful in it is then a twin."""
        return not all(attempt.lawful for attempt in self.attempts)

    @property
    def right(self) -> bool:
        """Whether it was played to its end and every attempt is as expected."""
        return not self.broke and bool(self.attempts) and all(attempt.right for attempt in self.attempts)


def _counted(replies: tuple[str, ...]) -> dict[str, int]:
    return dict(sorted(Counter(replies).items()))


def stopped(reason: str, events: Mapping[str, int], finding: str, *, spans: frozenset[str]) -> Expected:
    """Return what a call that was refused leaves: a reason, its events, and nothing in tool and ledger."""
    return Expected((reason,), events, finding, spans=spans)


def refused_at_door(reason: str) -> Expected:
    """Return what a call with a permit leaves that the door refuses."""
    events = {DECIDED: 1, f"door.refused {reason}": 1}
    return stopped(reason, events, "ALLOWED_NOT_EXECUTED", spans=SPANS_OF_DECISION | SPANS_OF_DOOR)


def effect(
    *extra: tuple[str, int], replies: tuple[str, ...] = ("OK",), minor: int = EFFECT_MINOR
) -> Expected:
    """Return what one refund leaves, with `extra` events beside those of its one effect."""
    events = Counter(EVIDENCE_OF_EFFECT)
    events.update(dict(extra))
    return Expected(replies, dict(events), "ALLOWED_EXECUTED", 1, minor, SPANS_OF_EFFECT)
