"""The verifier: is the audit what its sources wrote? Over the store, or over an exported file.

What is checked, in this order:
 1 each JetStream stream: no sequence missing, none twice
 2 each run of each source: numbers, chain, checkpoints by keys valid at their time, end, and the time of each
   event against that of its storing (audit.proof.chain)
 3 spend log and ledger: numbers of the origin gapless
 4 each row: columns as the kept bytes give them (audit.store.row), signatures of spend records again
 5 each reserve: a decision of the decider stands behind its permit
 6 anchors: every checkpoint that was exported is still there
 7 spend log and ledger: no subject and no record in two places
 8 each pass at a door and ledger change under a spending permit: its reserve is there
 9 `calls`: each row is what its events make of it
10 with NATS: each row has the bytes and the subject that JetStream still holds

2 to 4 and 6 are here, the others in audit.proof.witness, audit.proof.calls and audit.proof.origin.

Not proved: a ledger's rows that JetStream no longer holds, for nobody signs them;
what nobody signed yet (the last seconds); a rewriting by whoever holds a source's checkpoint key
and the store, unless an anchor from outside is given; completeness before the first row that is kept.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from audit.proof.chain import LATE_US, Anchor, Link, Problem, ProblemKind, Run, Trust
from audit.store.record import LEDGER_STREAM, SPEND_STREAM, VALID, signing_keys
from audit.store.row import COLUMNS, QUARANTINED, REPEATED, read_columns
from audit.store.stored import House, Stored
from licet.event import EventKind

PROGRESS_EVERY: Final = 50_000
MAX_PROBLEMS: Final = 1_000
"""The verifier stops naming after so many; the count goes on."""
REVOKED_GRACE_US: Final = 65_000_000
"""How long after its key's revocation a spend record may be stored: a permit's life and a beacon's age."""
_EPHEMERAL: Final = frozenset({"prev_hash_raw", "batch"})
CHECKED: Final = (*(name for name in COLUMNS if name not in _EPHEMERAL), "prev_hash")
ORDER: Final = "source, stream, seq, js_stream, js_seq"
"""Rows come in this order: run by run, number by number."""

Row = Mapping[str, Any]


class UnreadError(Exception):
    """Rows that are there did not come: nothing may be said of the whole."""


@dataclass(slots=True)
class Report:
    """What the verifier found. `runs` counts what was checked; `notes` are no problems.

    `unsigned`: so many events of killed runs stand under no checkpoint; nothing proves them.
    """

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: int = 0
    runs: int = 0
    found: int = 0
    unsigned: int = 0

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.found

    def add(self, problems: Iterable[Problem]) -> None:
        """Take problems in, the first MAX_PROBLEMS by name."""
        for problem in problems:
            self.found += 1
            if len(self.problems) < MAX_PROBLEMS:
                self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is to be verified, and against what.

    `whole`: rows go back to the beginning of every run. `late_us`: how long events may wait in a spool.
    """

    house: House
    trust: Trust
    now_us: int
    anchors: tuple[Anchor, ...] = ()
    whole: bool = True
    late_us: int = LATE_US


def revocations(rows: Iterable[Row]) -> dict[str, int]:
    """Return from when on each key counts no more (Unix µs), as deciders recorded it: the earliest counts."""
    found: dict[str, int] = {}
    for row in rows:
        if row["kind"] == EventKind.KEY_REVOKED and str(row["source"]).endswith("/decider") and row["key_id"]:
            key_id, at = str(row["key_id"]), int(row["js_time_us"])
            found[key_id] = min(at, found.get(key_id, at))
    return found


def with_revocations(scope: Scope, rows: Iterable[Row]) -> Scope:
    """Return `scope` that knows besides its own the revocations on record; of two, the earlier counts."""
    known = dict(scope.trust.revoked_us)
    for key_id, at in revocations(rows).items():
        known[key_id] = min(at, known.get(key_id, at))
    return replace(scope, trust=Trust(scope.trust.keys, known))


def verify_rows(
    rows: Iterable[Row], scope: Scope, progress: Callable[[int], None] = lambda _: None
) -> Report:
    """Check rows in ORDER: runs, numbers of the logs, columns, signatures (2, 3, 4, 6)."""
    report = Report()
    anchors: dict[tuple[str, str], dict[int, bytes]] = {}
    for anchor in scope.anchors:
        anchors.setdefault((anchor.source, anchor.stream), {})[anchor.seq] = anchor.tip
    runs: list[Run] = []
    current: Run | _Log | None = None
    for row in rows:
        report.rows += 1
        if report.rows % PROGRESS_EVERY == 0:
            progress(report.rows)
        report.add(check_columns(row, scope))
        if row["kind"] in {QUARANTINED, REPEATED} and not row["stream"]:
            continue
        key = (str(row["source"]), str(row["stream"]))
        if current is None or (current.source, current.stream) != key:
            current = _begin(key, scope, anchors.pop(key, {}))
            if isinstance(current, Run):
                runs.append(current)
        if row["kind"] == REPEATED and current.seq != int(row["seq"]):
            detail = "the row says that the event is there already, but it is not"
            where = f"{row['js_stream']} {row['js_seq']}"
            report.add([Problem(ProblemKind.COLUMN, where, str(row["event_id"]), detail)])
        report.add(current.take(Link(int(row["seq"]), bytes(row["event"]), int(row["js_time_us"]))))
    report.runs = len(runs)
    _ends(runs, anchors, scope, report)
    return report


def _begin(key: tuple[str, str], scope: Scope, anchors: dict[int, bytes]) -> "Run | _Log":
    source, stream = key
    if stream in {SPEND_STREAM, LEDGER_STREAM}:
        return _Log(source, stream)
    return Run(source, stream, scope.trust, anchors, whole=scope.whole, late_us=scope.late_us)


def _ends(
    runs: Sequence[Run], left: Mapping[tuple[str, str], Mapping[int, bytes]], scope: Scope, report: Report
) -> None:
    named = {
        (run.source, run.previous_stream)
        for run in runs
        if run.previous_stream and (scope.whole or run.covered)  # a file's word of a kill must be signed
    }
    for run in runs:
        report.add(run.end(now_us=scope.now_us, succeeded=(run.source, run.stream) in named))
        if not run.closed and (run.source, run.stream) in named and (scope.whole or run.unsigned):
            report.notes.append(_killed(run))
            report.unsigned += run.unsigned
    if not scope.whole:
        return  # a file need not have every run
    for (source, stream), seqs in left.items():
        where = f"{source} run {stream[:8]}"
        detail = f"nothing is left of it, an anchor has {max(seqs)}"
        report.add([Problem(ProblemKind.CUT_TAIL, where, "", detail)])


def _killed(run: Run) -> str:
    said = f"{run.where} was killed after number {run.seq}; the next run says so"
    if not run.unsigned:
        return said
    first = run.seq - run.unsigned + 1
    return f"{said}; numbers {first} to {run.seq} stand under no checkpoint: nothing proves them"


@dataclass(slots=True)
class _Log:
    """Rows of a ledger, gapless per tool. The spend log is one over all tools: `log_gaps` checks it."""

    source: str
    stream: str
    seq: int = 0

    def take(self, link: Link) -> Iterator[Problem]:
        """Check the next number."""
        if self.stream == LEDGER_STREAM and self.seq and link.seq > self.seq + 1:
            detail = f"outbox numbers {self.seq + 1} to {link.seq - 1} are missing"
            yield Problem(ProblemKind.GAP, f"ledger of {self.source}", "", detail)
        self.seq = max(self.seq, link.seq)


def check_columns(row: Row, scope: Scope) -> Iterator[Problem]:
    """Compare a row's columns with what its kept bytes give (4)."""
    message = Stored(
        stream=str(row["js_stream"]),
        subject=str(row["js_subject"]),
        seq=int(row["js_seq"]),
        time_us=int(row["js_time_us"]),
        data=bytes(row["event"]),
        origin_seq=int(row["seq"]),
    )
    expected = read_columns(message, scope.house, repeated=row["kind"] == REPEATED)
    where = f"{message.stream} {message.seq}"
    for name in CHECKED:
        # What the writer could not verify with the keys it had then is judged by the keys of now, below.
        if name == "signature" and row["signature"] != VALID:
            continue
        if name in row and _differs(row[name], expected[name]):
            seen = f"column {name} is {_short(row[name])}, the event says {_short(expected[name])}"
            yield Problem(ProblemKind.COLUMN, where, str(row["event_id"]), seen)
    if row["kind"] == EventKind.LEDGER_CHANGED and message.subject.rpartition(".")[2] != str(row["seq"]):
        detail = f"outbox row {row['seq']} under subject `{message.subject}`"
        yield Problem(ProblemKind.REPLACED, where, str(row["event_id"]), detail)
    signature = str(expected["signature"])
    if signature not in {"", VALID}:
        yield Problem(_signature_kind(signature), where, str(row["event_id"]), signature)
    elif signature == VALID:
        for key_id in signing_keys(message.data):
            if message.time_us >= scope.trust.revoked_us.get(key_id, message.time_us) + REVOKED_GRACE_US:
                yield Problem(ProblemKind.REVOKED_KEY, where, str(row["event_id"]), f"key `{key_id}`")


def _signature_kind(signature: str) -> ProblemKind:
    return ProblemKind.UNKNOWN_KEY if signature.endswith("KEY_UNKNOWN") else ProblemKind.BAD_SIGNATURE


def _differs(seen: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return list(seen) != expected
    if isinstance(expected, bytes):
        return bytes(seen) != expected
    return bool(seen != expected)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def log_gaps(name: str, numbers: Iterable[tuple[int, int]]) -> Iterator[Problem]:
    """Name gaps and doubles of ascending (number, how often) pairs (1, 3)."""
    last = 0
    for number, times in numbers:
        if last and number > last + 1:
            missing = str(last + 1) if number == last + 2 else f"{last + 1} to {number - 1}"
            yield Problem(ProblemKind.GAP, name, "", f"sequence {missing} is missing")
        if times > 1:
            yield Problem(ProblemKind.DOUBLED, name, "", f"sequence {number} is there {times} times")
        last = number
