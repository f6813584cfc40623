"""A house under load whose parts are killed, and what must hold of its records afterwards.

Callers behave as `licet.client` does: the same step, with the same call id, is tried again after a failure,
with a new permit, at either replica. Parts are killed by SIGKILL at moments drawn from a seed and started
again. What is compared afterwards is read from the ledger, from JetStream and from ClickHouse themselves.
"""

import asyncio
import queue
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self

import grpc

from examples.refund.demo.house import REPLICAS, TASK, House
from examples.refund.demo.play import refund
from examples.refund.demo.wire import OK, REFUND, Asked, Step
from licet.embedded.nats_accounts import AUDIT_WRITER
from licet.embedded.nats_server import NatsCluster
from licet.embedded.process import Process
from licet.streams import connect, read_seq, stream_info, stream_spend
from licet.v1 import decision_pb2, spend_pb2, statement_pb2
from tests.worlds.delay import Delay

CALLS_PER_S = 20
WORKERS = 12
TRIES = 6
UP_S = (0.5, 2.0)
"""Between an answer of the part that was killed last and the next kill, at least and at most."""
DOWN_S = (0.1, 1.0)
"""Between a kill and the start again, at least and at most."""
EACH_WAY_MS = 5.0
"""How long a message is under way between two NATS servers."""
START_S = 60.0
"""How long a server that was killed may take to be ready again."""
SETTLE_S = 60.0
"""How long the records may take to agree once everything runs again."""


@dataclass(slots=True)
class Load:
    """What callers saw. `ended`: how each step ended, by call id; `spend_ids` of the steps that got OK."""

    ended: Counter[str] = field(default_factory=Counter)
    done: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, end: str, spend_id: str) -> None:
        with self.lock:
            self.ended[end] += 1
            if end == OK:
                self.done.add(spend_id)


@dataclass(slots=True)
class Records:
    """What is on record after a run, everywhere; spends as (spend id, round)."""

    ledger: set[str] = field(default_factory=set)
    ledger_rows: int = 0
    exec_rows: set[str] = field(default_factory=set)
    reserves_in_jetstream: list[tuple[str, int]] = field(default_factory=list)
    reserves_in_clickhouse: list[tuple[str, int]] = field(default_factory=list)
    outcomes_in_jetstream: list[tuple[str, int, str]] = field(default_factory=list)
    outcomes_in_clickhouse: list[tuple[str, int, str]] = field(default_factory=list)
    changes_in_clickhouse: list[str] = field(default_factory=list)
    events: int = 0
    distinct_events: int = 0


def violations(records: Records, load: Load) -> tuple[str, ...]:
    """Name every property that the records break; empty when all hold."""
    reserved = {spend_id for spend_id, _ in records.reserves_in_jetstream}
    checks: Mapping[str, bool] = {
        "ledger = EXEC rows": records.ledger == records.exec_rows,
        "two ledger rows for each effect": records.ledger_rows == 2 * len(records.ledger),
        "EXEC within reserves": records.exec_rows <= reserved,
        "reserves in JetStream = reserves in ClickHouse": sorted(records.reserves_in_jetstream)
        == sorted(records.reserves_in_clickhouse),
        "outcomes in JetStream = outcomes in ClickHouse": sorted(records.outcomes_in_jetstream)
        == sorted(records.outcomes_in_clickhouse),
        "reserves: count = distinct": len(records.reserves_in_clickhouse)
        == len(set(records.reserves_in_clickhouse)),
        "events: count = distinct": records.events == records.distinct_events,
        "EXECUTED within EXEC": {
            one for one, _, outcome in records.outcomes_in_jetstream if outcome == "EXECUTED"
        }
        <= records.exec_rows,
        "ledger changes in ClickHouse = ledger rows": sorted(set(records.changes_in_clickhouse))
        == sorted(records.ledger)
        and len(records.changes_in_clickhouse) == records.ledger_rows,
        "whoever was told OK has an effect": load.done <= records.exec_rows,
    }
    return tuple(name for name, holds in checks.items() if not holds)


class Tasks:
    """Tasks that end one after the other: no permit outlives its task, so no fence has to wait for long."""

    EVERY_S = 10
    LEFT_S = 5.0
    """A step is begun under a task that lasts at least so long."""

    def __init__(self, house: House, count: int = 90) -> None:
        now = time.time()
        self._ends = [now + self.EVERY_S * number for number in range(1, count + 1)]
        self.last_end = now
        """When the last task ends that was used, Unix seconds."""
        self._lock = threading.Lock()
        lines = []
        for number, end in enumerate(self._ends):
            written = datetime.fromtimestamp(end, UTC).isoformat(timespec="milliseconds")
            lines += [
                f"  chaos_{number}:",
                *(f"    {line}" for line in ("agent: refund-bot", "caller: agent/refund-bot", "tenant: t1")),
                '    principal: "ana@t1.example.com"',
                f'    not_after: "{written}"',
            ]
        file = house.policy / "tasks.yaml"
        file.write_text(file.read_text() + "\n".join(lines) + "\n")
        house.stack.processes["decider"].stop()
        house.stack.restart("decider")

    def now(self) -> str:
        """Return the task that is used now."""
        with self._lock:
            number = next(n for n, end in enumerate(self._ends) if end > time.time() + self.LEFT_S)
            self.last_end = max(self.last_end, self._ends[number])
        return f"chaos_{number}"


class LongTask:
    """The example's own task: permits live as long as they may."""

    PERMIT_S = 60.0

    def __init__(self) -> None:
        self.last_end = time.time()

    def now(self) -> str:
        """Return the task that is used now."""
        self.last_end = time.time() + self.PERMIT_S
        return TASK


class ReplicatedHouse(House):
    """Two sidecars of the tool on three NATS servers, every stream on all three, a wire of `each_way_ms`
    between any two of them.
    """

    def __init__(self, directory: Path, *, orders: int, each_way_ms: float = EACH_WAY_MS) -> None:
        super().__init__(directory, orders=orders, nats_servers=3)
        nats = self.stack.nats
        assert isinstance(nats, NatsCluster)
        self._nats = nats
        ports = [server.ports["route"] for server in nats.servers]
        self._delay = Delay(directory / "delay", ports, each_way_ms)

    def __enter__(self) -> Self:
        self._nats.reach_by(self._delay.start())
        try:
            return super().__enter__()
        except BaseException:
            self._delay.stop()
            raise

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._delay.stop()


def run_load(house: House, seconds: float, disturb: Callable[[float], None], tasks: Tasks | LongTask) -> Load:
    """Call at CALLS_PER_S until `disturb(end)` returns, which runs in this thread; `end` is monotonic.

    It returns at `end`, or later when it was not done.
    """
    load, steps, over = Load(), queue.Queue[str | None](), threading.Event()
    work = partial(_work, house, steps, load, tasks, over)
    workers = [threading.Thread(target=work) for _ in range(WORKERS)]
    pacer = threading.Thread(target=_pace, args=(house, steps, over))
    for thread in (pacer, *workers):
        thread.start()
    try:
        disturb(time.monotonic() + seconds)
    finally:
        over.set()
        pacer.join()
        for _ in workers:
            steps.put(None)
        for worker in workers:
            worker.join()
    return load


def _pace(house: House, steps: "queue.Queue[str | None]", over: threading.Event) -> None:
    due = time.monotonic()
    while not over.wait(max(0.0, due - time.monotonic())):
        steps.put(house.order())
        due += 1 / CALLS_PER_S


def _work(
    house: House, steps: "queue.Queue[str | None]", load: Load, tasks: Tasks | LongTask, over: threading.Event
) -> None:
    while (order := steps.get()) is not None:
        body, replica = refund(order), random.randrange(REPLICAS)
        step = house.wire.step(house.call_id(), tasks.now())
        spend_id, end = "", "undecided"
        for attempt in range(TRIES):
            asked = _decided(house, step, body)
            if asked is not None and asked.reason:
                end = asked.reason  # refunded already, so policy says no
                break
            if asked is not None:
                spend_id = asked.decision.spend_id
                reply = house.wire.present(step, REFUND, body, (asked.sent,), (replica + attempt) % REPLICAS)
                end = reply.reason
                if end in {OK, "SPENT"}:
                    break
            if over.wait(0.1 * 2**attempt):
                break  # what is still queued is asked for once
        step.recording.close()
        load.note(end, spend_id)


def _decided(house: House, step: Step, body: bytes) -> Asked | None:
    try:
        return house.wire.decide(step, REFUND, body)
    except grpc.RpcError:
        return None


@dataclass(frozen=True, slots=True)
class Victim:
    """A part that can be killed by SIGKILL and started again; starting does not wait until it answers."""

    kill: Callable[[], None]
    start: Callable[[], None]
    answers: Callable[[], bool]


def victims(house: House) -> dict[str, Victim]:
    """Return every part that decides, enforces, executes, stores or records, by its name."""
    found = {
        name: Victim(process.kill, process.start, partial(_answers, process))
        for name, process in house.stack.processes.items()
        if name.startswith(("sidecar-", "decider", "tool-", "writer"))
    }
    nats = house.stack.nats
    servers = nats.servers if isinstance(nats, NatsCluster) else (nats,)
    for name, server in zip(nats.pids, servers, strict=True):
        found[name] = Victim(server.kill, server.launch, server._answers)
    return found


def _answers(process: Process) -> bool:
    return process.alive and (process._ready is None or process._ready())


class Killer:
    """Kills one part after the other at moments drawn from a seed, starts it, and waits until it answers.

    Every part is killed once before any is killed again, and there are `at_least` kills however long they
    take. Beside that it does what a supervisor does: a part
    that ended by itself is started again.
    """

    def __init__(self, house: House, seed: int, *, at_least: int = 0) -> None:
        self._house = house
        self._victims = victims(house)
        self._at_least = at_least
        self._random = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.restarted: Counter[str] = Counter()

    @property
    def parts(self) -> set[str]:
        """The names of what is killed."""
        return set(self._victims)

    def __call__(self, end: float) -> None:
        """Kill until `end`, and on until every part was killed once and there were enough kills."""
        while not self._done(end):
            round_ = sorted(self._victims)
            self._random.shuffle(round_)
            for part in round_:
                if self._done(end):
                    break
                self._supervised(self._random.uniform(*UP_S))
                self._kill(part)

    def _done(self, end: float) -> bool:
        enough = set(self.killed) == self.parts and self.killed.total() >= self._at_least
        return enough and time.monotonic() >= end

    def _kill(self, part: str) -> None:
        victim = self._victims[part]
        self.killed[part] += 1
        victim.kill()
        time.sleep(self._random.uniform(*DOWN_S))
        victim.start()
        ends = time.monotonic() + START_S
        while not victim.answers() and time.monotonic() < ends:
            self._supervised(0.1)

    def _supervised(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            for name, process in self._house.stack.processes.items():
                if not process.alive:
                    self.restarted[name] += 1
                    process.start()
            time.sleep(min(0.2, left))


def settle(house: House, load: Load, within_s: float = SETTLE_S) -> Records:
    """Read the records until they agree, or until the deadline; the last reading is returned."""
    house.stack.nats.wait_ready(START_S)
    for name, process in house.stack.processes.items():
        assert process.alive, f"`{name}` does not run\n{process.log_tail()}"
    end = time.monotonic() + within_s
    while True:
        records = read_records(house)
        if not violations(records, load) or time.monotonic() > end:
            return records
        time.sleep(1.0)


def verified(house: House, within_s: float = 180.0) -> tuple[bool, str]:
    """Run `licet audit verify` until it could read everything and found it sound, or until the deadline.

    A server that still catches up may lose a reader; what is not sound stays so however often it is read.
    """
    end = time.monotonic() + within_s
    while True:
        sound, said = house.verify()
        if sound or time.monotonic() > end:
            return sound, said
        time.sleep(1.0)


def until_all_known(house: House, ends: float, within_s: float) -> tuple[Records, float]:
    """Read the records until every reserve has its outcome; the deadline counts from `ends` (Unix seconds).

    Returns the last reading, and how many seconds after `ends` it was made.
    """
    while True:
        records = read_records(house)
        late = time.time() - ends
        if not open_rounds(records) or late > within_s:
            return records, late
        time.sleep(0.5)


def open_rounds(records: Records) -> set[tuple[str, int]]:
    """Return the reserves that no outcome closed."""
    ended = {(spend_id, round_) for spend_id, round_, _ in records.outcomes_in_jetstream}
    return set(records.reserves_in_jetstream) - ended


def figures(records: Records, load: Load, killer: Killer, late_s: float) -> str:
    """Return what a run comes to, for people."""
    outcomes = Counter(outcome for _, _, outcome in records.outcomes_in_jetstream)
    lines = (
        f"killed {killer.killed.total()}: {dict(sorted(killer.killed.items()))}",
        f"ended by themselves {dict(killer.restarted)}",
        f"steps {load.ended.total()}: {dict(load.ended.most_common())}",
        f"reserves {len(records.reserves_in_jetstream)}, effects {len(records.exec_rows)}",
        f"outcomes {dict(outcomes)}, events {records.events}",
        f"all outcomes known {late_s:.1f} s after the end of the last permit",
    )
    return "\n".join(lines)


def read_records(house: House) -> Records:
    """Read ledger, JetStream and ClickHouse."""
    records = Records()
    with closing(sqlite3.connect(f"file:{house.ledger}?mode=ro", uri=True, timeout=5)) as ledger:
        rows = ledger.execute("SELECT spend_id FROM ledger").fetchall()
        records.ledger, records.ledger_rows = {str(row[0]) for row in rows}, len(rows)
        query = "SELECT spend_id FROM licet_spend WHERE state = 'EXEC' AND issuer = 'permit'"
        records.exec_rows = {str(row[0]) for row in ledger.execute(query)}
    asyncio.run(_read_jetstream(house, records))
    query = "SELECT spend_id, round, outcome FROM events WHERE kind = {kind:String}"
    spends = {
        kind: house.store.query(query, parameters={"kind": kind}).result_rows
        for kind in ("spend.reserved", "spend.outcome", "ledger.changed")
    }
    records.reserves_in_clickhouse = [(str(row[0]), int(row[1])) for row in spends["spend.reserved"]]
    records.outcomes_in_clickhouse = [
        (str(row[0]), int(row[1]), str(row[2])) for row in spends["spend.outcome"]
    ]
    records.changes_in_clickhouse = [str(row[0]) for row in spends["ledger.changed"]]
    counted = house.store.query("SELECT count(), uniqExact(event_id, source) FROM events").result_rows[0]
    records.events, records.distinct_events = int(counted[0]), int(counted[1])
    return records


async def _read_jetstream(house: House, records: Records) -> None:
    environment = house.stack.project.environment
    stream = stream_spend(environment)
    connection = await connect(house.stack.nats.settings(AUDIT_WRITER), "chaos")
    try:
        info = await stream_info(connection, stream)
        assert info is not None
        for seq in range(1, int(info["state"]["last_seq"]) + 1):
            message = await read_seq(connection, stream, seq)
            assert message is not None, f"the spend stream has no message {seq}"
            _note(message.data, records)
    finally:
        await connection.close()


def _note(data: bytes, records: Records) -> None:
    signed = statement_pb2.Signed.FromString(data)
    record = spend_pb2.SpendRecord.FromString(signed.payload)
    if record.HasField("reserve"):
        decision = decision_pb2.Decision.FromString(record.reserve.permit.payload)
        records.reserves_in_jetstream.append((decision.spend_id, decision.round))
    else:
        ended = record.outcome
        name = spend_pb2.Outcome.Name(ended.outcome).removeprefix("OUTCOME_")
        records.outcomes_in_jetstream.append((ended.spend_id, ended.round, name))
