"""The chain of one run of one source, checked event by event. Pure.

Guarantees, for a run whose events come in ascending order of their number: every event that was changed, left
out, put in or doubled with other bytes is named, as far as a checkpoint signed by the source's own key, or an
anchor kept elsewhere, covers it. Does not prove: that the source told the truth; that nothing was cut behind
the last checkpoint and anchor; anything against whoever holds the source's checkpoint key and all copies, but
for what an anchor says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from licet.event import ZERO_HASH, EventKind, event_hash, read_checkpoint
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.strict import strict_parse
from licet.v1.event_pb2 import Event

SILENCE_US: Final = 30_000_000
"""A run signs a checkpoint at least every 10 s; after 30 s without one it does not run any more."""
CHECKPOINT_EVERY: Final = 256
LATE_US: Final = 86_400_000_000
"""An event may be stored so long after its own time: as long as readers of evidence believe it."""
AHEAD_US: Final = 300_000_000
"""An event's own time may be so far ahead of its storing: clocks differ."""


class ProblemKind(StrEnum):
    """What is wrong: a closed list."""

    GAP = "gap"
    EDIT = "edit"
    FORK = "fork"
    CUT_TAIL = "cut tail"
    REWRITTEN = "rewritten"
    OPEN_ENDED = "open-ended stream"
    UNKNOWN_KEY = "unknown key"
    WRONG_KEY = "wrong key"
    REVOKED_KEY = "signed after revocation"
    BAD_SIGNATURE = "bad signature"
    UNSIGNED = "no checkpoint where one is due"
    COLUMN = "column differs from event"
    DOUBLED = "row doubled"
    SPENT_WITHOUT_DECISION = "permit spent without decision"
    REPLACED = "record in another's place"
    EXECUTED_WITHOUT_SPEND = "executed without spend"
    CALL = "call differs from its events"
    VIEW = "view differs from its events"
    TIME = "event's time differs from its storing"
    PAYLOAD = "payload differs from what its event names"
    ORIGIN = "row differs from JetStream"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of the verifier: what, where, which event, and what was seen."""

    kind: ProblemKind
    where: str
    event_id: str
    detail: str

    def __str__(self) -> str:
        event = f" event {self.event_id}" if self.event_id else ""
        return f"{self.kind}: {self.where}{event}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Link:
    """One event of a run as it is kept: its number by its column, its exact bytes, and JetStream's time."""

    seq: int
    data: bytes
    time_us: int


@dataclass(frozen=True, slots=True)
class Anchor:
    """A checkpoint kept elsewhere: event `seq` of the run had the hash `tip`."""

    source: str
    stream: str
    seq: int
    tip: bytes


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom to believe: the keys, and from when on a key counts no more (Unix µs, by key id)."""

    keys: KeySet
    revoked_us: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """The state of one run while its events pass by.

    `whole`: all of it is there, from event 1 on. Else it comes in stretches, each of which must end with the
    checkpoint that covers it; what lies between them is not there to be judged.
    """

    source: str
    stream: str
    trust: Trust
    anchors: Mapping[int, bytes] = field(default_factory=dict)
    whole: bool = True
    late_us: int = LATE_US
    seq: int = 0
    tip: bytes = ZERO_HASH
    covered: int = 0
    last_us: int = 0
    closed: bool = False
    previous_stream: str = ""
    _data: bytes = b""
    _event_id: str = ""
    _first: int = 0
    _seen_anchors: int = 0

    @property
    def where(self) -> str:
        """The run, for people."""
        return f"{self.source} run {self.stream[:8]}"

    @property
    def unsigned(self) -> int:
        """How many events at the end of what is there no checkpoint covers, nor is one."""
        return self.seq - max(self.covered + 1 if self.covered else 0, self._first - 1)

    def take(self, link: Link) -> Iterator[Problem]:
        """Check the next event; a number that was there before is a repetition, or a fork."""
        event = strict_parse(Event, link.data)
        if isinstance(event, Refusal):
            yield self._problem(ProblemKind.EDIT, "", f"event {link.seq} cannot be read: {event.detail}")
            return
        if (event.source, event.stream, event.seq) != (self.source, self.stream, link.seq):
            detail = f"kept as number {link.seq}, says {event.seq} of `{event.source}`"
            yield self._problem(ProblemKind.EDIT, event.event_id, detail)
            return
        if self.seq and link.seq == self.seq:
            if link.data != self._data:
                detail = f"two events have number {link.seq}: {self._event_id} and {event.event_id}"
                yield self._problem(ProblemKind.FORK, event.event_id, detail)
            return
        yield from self._link(event, link)
        yield from self._timed(event, link)
        if event.HasField("checkpoint"):
            yield from self._checkpoint(event, link)
        self._advance(event, link)
        yield from self._anchored(event)

    def _link(self, event: Event, link: Link) -> Iterator[Problem]:
        expected = self.seq + 1
        if not self.whole and (not self.seq or link.seq != expected):
            yield from self._stretch_end()
            self._first = link.seq
            return
        if link.seq != expected:
            missing = f"{expected}" if link.seq == expected + 1 else f"{expected} to {link.seq - 1}"
            yield self._problem(ProblemKind.GAP, event.event_id, f"number {missing} is missing before it")
        elif event.prev_hash != self.tip:
            before = f"{self._event_id or 'the beginning'} (number {self.seq})"
            yield self._problem(ProblemKind.EDIT, self._event_id, f"{before} is not what its successor saw")

    def _timed(self, event: Event, link: Link) -> Iterator[Problem]:
        """The source says when, JetStream when it had it: nothing else shows what was made up afterwards."""
        late = link.time_us - event.time_us
        if late > self.late_us:
            detail = f"stored {late // 1_000_000} s after the time it says: backdated, or long in a spool"
            yield self._problem(ProblemKind.TIME, event.event_id, detail)
        elif late < -AHEAD_US:
            detail = f"says a time {-late // 1_000_000} s after it was stored"
            yield self._problem(ProblemKind.TIME, event.event_id, detail)

    def _checkpoint(self, event: Event, link: Link) -> Iterator[Problem]:
        now_ms = link.time_us // 1000
        found = read_checkpoint(event.checkpoint, self.trust.keys, now_ms=now_ms)
        if isinstance(found, Refusal):
            kind = _KINDS.get(found.reason, ProblemKind.BAD_SIGNATURE)
            yield self._problem(kind, event.event_id, found.detail)
            return
        key_id = event.checkpoint.key_id
        if link.time_us >= self.trust.revoked_us.get(key_id, link.time_us + 1):
            yield self._problem(ProblemKind.REVOKED_KEY, event.event_id, f"key `{key_id}`")
            return
        if (found.stream, found.seq) != (self.stream, event.seq - 1) or found.tip != event.prev_hash:
            detail = "the checkpoint is of another run, number or chain"
            yield self._problem(ProblemKind.REWRITTEN, event.event_id, detail)
            return
        self.covered = found.seq

    def _advance(self, event: Event, link: Link) -> None:
        self.seq, self.tip = link.seq, event_hash(event.prev_hash, link.data)
        self.last_us = max(self.last_us, link.time_us)
        self.closed = event.kind == EventKind.PROCESS_STOPPED
        if link.seq == 1:
            self.previous_stream = event.previous_stream
        self._data, self._event_id = link.data, event.event_id

    def _anchored(self, event: Event) -> Iterator[Problem]:
        tip = self.anchors.get(self.seq)
        if tip is None:
            return
        self._seen_anchors += 1
        if tip != self.tip:
            detail = f"an anchor has another hash for number {self.seq}"
            yield self._problem(ProblemKind.REWRITTEN, event.event_id, detail)

    def end(self, *, now_us: int, succeeded: bool) -> Iterator[Problem]:
        """Check how the run ends; `succeeded`: a later run names it as the one before.

        Of a run that was killed and has a successor, up to 256 events stand under no checkpoint: `unsigned`.
        """
        behind = [seq for seq in self.anchors if seq > self.seq]
        if not self.whole and not succeeded:
            yield from self._stretch_end()
            return
        if behind and (self.whole or self.unsigned):
            detail = f"ends at number {self.seq}, an anchor has {max(behind)}"
            yield self._problem(ProblemKind.CUT_TAIL, self._event_id, detail)
        if self.unsigned > CHECKPOINT_EVERY:
            detail = f"{self.unsigned} events after the last checkpoint"
            yield self._problem(ProblemKind.UNSIGNED, self._event_id, detail)
        silent = now_us - self.last_us > SILENCE_US
        if not self.closed and silent and not succeeded and not behind:
            detail = f"no goodbye after number {self.seq}, and no later run names it: cut off, or killed"
            yield self._problem(ProblemKind.OPEN_ENDED, self._event_id, detail)

    def _stretch_end(self) -> Iterator[Problem]:
        if self.seq and self.unsigned:
            hint = (
                "a run that goes on signs one within 10 s, and one that was killed is named by its next run"
            )
            detail = f"no valid checkpoint covers number {self.seq}: {hint}"
            yield self._problem(ProblemKind.UNSIGNED, self._event_id, detail)

    def _problem(self, kind: ProblemKind, event_id: str, detail: str) -> Problem:
        return Problem(kind, self.where, event_id, detail)


_KINDS: Final = {
    Reason.KEY_UNKNOWN: ProblemKind.UNKNOWN_KEY,
    Reason.KEY_ROLE: ProblemKind.WRONG_KEY,
    Reason.KEY_SCOPE: ProblemKind.WRONG_KEY,
    Reason.PERMIT_MALFORMED: ProblemKind.WRONG_KEY,
}
