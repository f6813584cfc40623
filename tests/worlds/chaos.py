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

import grpc

from examples.refund.demo.house import REPLICAS, TASK, House
from examples.refund.demo.play import refund
from examples.refund.demo.wire import OK, REFUND, Asked, Step
from licet.embedded.nats_accounts import AUDIT_WRITER
from licet.streams import connect, read_seq, stream_info, stream_spend
from licet.v1 import decision_pb2, spend_pb2, statement_pb2

CALLS_PER_S = 20
WORKERS = 12
TRIES = 6
DOWN_S = (0.1, 1.0)
"""Between a kill and the start again, at least and at most."""
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


def run_load(house: House, seconds: float, disturb: Callable[[float], None]) -> Load:
    """Call at CALLS_PER_S for `seconds` while `disturb(end)` runs in this thread until `end` (monotonic)."""
    load, steps = Load(), queue.Queue[str | None]()
    workers = [threading.Thread(target=_work, args=(house, steps, load)) for _ in range(WORKERS)]
    end = time.monotonic() + seconds
    pacer = threading.Thread(target=_pace, args=(house, steps, end))
    for thread in (pacer, *workers):
        thread.start()
    disturb(end)
    pacer.join()
    for _ in workers:
        steps.put(None)
    for worker in workers:
        worker.join()
    return load


def _pace(house: House, steps: "queue.Queue[str | None]", end: float) -> None:
    due = time.monotonic()
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        steps.put(house.order())
        due += 1 / CALLS_PER_S


def _work(house: House, steps: "queue.Queue[str | None]", load: Load) -> None:
    while (order := steps.get()) is not None:
        body, replica = refund(order), random.randrange(REPLICAS)
        step = house.wire.step(house.call_id(), TASK)
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
            time.sleep(0.1 * 2**attempt)
        step.recording.close()
        load.note(end, spend_id)


def _decided(house: House, step: Step, body: bytes) -> Asked | None:
    try:
        return house.wire.decide(step, REFUND, body)
    except grpc.RpcError:
        return None


class Killer:
    """Kills parts at moments drawn from a seed, each as often as the others, and starts them again."""

    PARTS = ("sidecar-finance-0", "sidecar-finance-1", "decider", "nats", "writer")

    def __init__(self, house: House, seed: int, kills: int) -> None:
        self._house = house
        self._random = random.Random(seed)
        self.kills = kills
        self.killed: Counter[str] = Counter()

    def __call__(self, end: float) -> None:
        seconds = end - time.monotonic()
        pause = seconds / (self.kills + 1)
        parts = [self.PARTS[number % len(self.PARTS)] for number in range(self.kills)]
        self._random.shuffle(parts)
        for part in parts:
            time.sleep(max(0.0, pause * self._random.uniform(0.5, 1.0) - DOWN_S[0]))
            self._kill(part)
        time.sleep(max(0.0, end - time.monotonic()))

    def _kill(self, part: str) -> None:
        down = self._random.uniform(*DOWN_S)
        self.killed[part] += 1
        if part == "nats":
            self._house.stack.nats.kill()
            time.sleep(down)
            self._house.stack.nats.start()
            return
        process = self._house.stack.processes[part]
        process.kill()
        time.sleep(down)
        process.start()


def settle(house: House, load: Load, within_s: float = SETTLE_S) -> Records:
    """Read the records until they agree, or until the deadline; the last reading is returned."""
    for name, process in house.stack.processes.items():
        assert process.alive, f"`{name}` does not run\n{process.log_tail()}"
    end = time.monotonic() + within_s
    while True:
        records = read_records(house)
        if not violations(records, load) or time.monotonic() > end:
            return records
        time.sleep(1.0)


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
