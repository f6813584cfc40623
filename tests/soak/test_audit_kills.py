"""The writer killed 200 times and ClickHouse 50 times while events keep coming: each is stored once.

Audit, spend log and ledger at a steady rate, with journals and signatures; nats-server is stopped and killed,
batches come again, merges stand still for a while. Then, in every stream, count = distinct = last sequence,
in tables and views, without FINAL or LIMIT BY, and `licet audit verify` says sound.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from clickhouse_connect.driver.exceptions import Error as ClickHouseError

from audit.proof.keyring import Keyring
from audit.store.row import COLUMNS, insert_settings
from audit.store.sheet import encode
from audit.store.stored import House as Owner
from audit.store.stored import Stored
from audit.writing.writer import streams
from licet.embedded.nats_server import NatsServer
from licet.streams import EMBEDDED_SIZES, apply_streams, connect, stream_info
from tests.integration.audit.conftest import Front, House, make_store
from tests.worlds.audit_load import ENVIRONMENT, TOOL, AuditLoad

WRITER_KILLS = int(os.environ.get("LICET_SOAK_WRITER_KILLS", "200"))
FRONT_KILLS = WRITER_KILLS // 4
NATS_RESTARTS = max(WRITER_KILLS // 20, 1)
STEPS_A_SECOND = int(os.environ.get("LICET_SOAK_STEPS", "40"))
AGAIN = """
SELECT js_subject, js_seq, js_time_us, seq, event FROM events
WHERE js_stream = {stream:String} AND batch = (
    SELECT max(batch) FROM events WHERE js_stream = {stream:String} AND js_seq = (
        SELECT max(js_seq) FROM events WHERE js_stream = {stream:String}))
ORDER BY js_seq
"""


class Chaos:
    """Kills and restarts the parts of one audit while `load` runs."""

    def __init__(self, house: House, front: Front, load: AuditLoad, seed: int) -> None:
        self.house, self.front, self.load = house, front, load
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.over, self.killed = asyncio.Event(), asyncio.Condition()
        self.merging = True
        keys = Keyring(load.keys_dir / "keyset.signed", load.keys_dir / "root.pub", ENVIRONMENT)
        self.owner = Owner(ENVIRONMENT, "licet.local", keys.current())

    def start_writer(self, **changed: str) -> "subprocess.Popen[bytes]":
        return self.house.start_writer(LICET_KEYS_DIR=str(self.load.keys_dir), **changed)

    async def kill_writers(self) -> None:
        for _ in range(WRITER_KILLS):
            log = self.house.directory / "writer.log"
            mark = log.stat().st_size if log.exists() else 0
            writer = self.start_writer(LICET_BATCH_ROWS="500")
            if self.chance.random() < 0.75:  # the others die while they start
                await self._until_it_follows(log, mark)
            await asyncio.sleep(self.chance.uniform(0, 1.5))
            writer.kill()
            await asyncio.to_thread(writer.wait)
            self.house.writers.remove(writer)
            async with self.killed:
                self.done["writer killed"] += 1
                self.killed.notify_all()

    @staticmethod
    async def _until_it_follows(log: Path, mark: int) -> None:
        """Wait until the new writer follows a stream; not for ever, the store may be away."""
        for _ in range(100):
            with log.open("rb") as file:
                file.seek(mark)
                if b"writer.follows" in file.read():
                    return
            await asyncio.sleep(0.1)

    async def kill_fronts(self) -> None:
        for number in range(FRONT_KILLS):
            await self._after_writers(number * WRITER_KILLS // FRONT_KILLS)
            await asyncio.sleep(self.chance.uniform(0, 4))
            await asyncio.to_thread(self.front.kill)
            await asyncio.sleep(self.chance.uniform(0, 1))
            await asyncio.to_thread(self.front.start)
            self.done["front killed"] += 1
            self.merging = not FRONT_KILLS // 3 <= number < FRONT_KILLS * 2 // 3

    async def restart_nats(self) -> None:
        for number in range(NATS_RESTARTS):
            await self._after_writers(number * WRITER_KILLS // NATS_RESTARTS)
            await asyncio.sleep(self.chance.uniform(0, 8))
            end = self.house.nats.kill if number % 2 else self.house.nats.stop
            await asyncio.to_thread(end)
            await asyncio.sleep(self.chance.uniform(0, 2))
            await asyncio.to_thread(self.house.nats.start, 60)
            self.done["nats restarted"] += 1

    async def _after_writers(self, kills: int) -> None:
        """Wait until so many writers were killed: their kills lie between the others', on any machine."""
        async with self.killed:
            await self.killed.wait_for(lambda: self.done["writer killed"] >= kills)

    async def disturb(self) -> None:
        """Insert the newest batch of a stream again, and keep merges still while they are to be."""
        while not self.over.is_set():
            await asyncio.sleep(self.chance.uniform(0.5, 3))
            stream = self.chance.choice(streams(ENVIRONMENT))
            try:
                await asyncio.to_thread(self._disturb, stream)
            except ClickHouseError:
                self.done["disturbed nobody: the store was away"] += 1

    def _disturb(self, stream: str) -> None:
        if not self.merging:
            self.house.store.client.command("SYSTEM STOP MERGES events")
            self.done["merges stopped"] += 1
        answer = self.house.store.client.query(
            AGAIN, parameters={"stream": stream}, column_formats={"event": "bytes"}
        )
        batch = [
            Stored(stream, str(subject), int(seq), int(at), bytes(body), origin_seq=int(origin))
            for subject, seq, at, origin, body in answer.result_rows
        ]
        if not batch:
            return
        rows, token = encode(batch, self.owner), f"{stream}:{batch[0].seq}"
        settings = dict(insert_settings(token))
        self.house.store.client.raw_insert("events", COLUMNS, rows, fmt="Protobuf", settings=settings)
        self.done["batch inserted again"] += 1


@pytest_asyncio.fixture
async def chaos(tmp_path: Path) -> AsyncIterator[Chaos]:
    nats = NatsServer(tmp_path / "nats", environment=ENVIRONMENT, tools=[TOOL])
    nats.start()
    setup = await connect(nats.settings("setup"), "setup")
    await apply_streams(setup, ENVIRONMENT, sizes=EMBEDDED_SIZES)
    await setup.close()
    (tmp_path / "front").mkdir()
    front = Front(tmp_path / "front")
    await asyncio.to_thread(front.start)
    store = make_store(front)
    house = House(nats, store, tmp_path)
    load = await AuditLoad.open(nats, tmp_path / "load")
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    yield Chaos(house, front, load, seed)
    await asyncio.to_thread(house.stop)
    store.client.close()
    front.stop()
    nats.stop()


async def last_sequences(nats: NatsServer) -> dict[str, int]:
    nc = await connect(nats.settings("audit-writer"), "test")
    found = {}
    for stream in streams(ENVIRONMENT):
        info = await stream_info(nc, stream)
        assert info is not None
        found[stream] = int(info["state"]["last_seq"])
    await nc.close()
    return found


def assert_exact(house: House, load: AuditLoad, last: dict[str, int]) -> None:
    """No FINAL, no LIMIT BY: what any reader counts."""
    store, total = house.store, sum(last.values())
    for stream, sequence in last.items():
        house.assert_exact(sequence, stream)
    offsets = store.rows(
        "SELECT js_stream, first, last, rows, missing FROM stream_offsets ORDER BY js_stream"
    )
    assert offsets == [(stream, 1, last[stream], last[stream], 0) for stream in sorted(last)]
    assert store.value("SELECT count() FROM quarantine") == 0
    assert store.value("SELECT sum(events) FROM hours") == total
    assert store.rows("SELECT count(), uniqExact(decision_id), sum(decision = 'deny') FROM calls") == [
        (load.steps, load.steps, load.steps - load.executed)
    ]
    whole = "reserved = 1 AND outcome = 'EXECUTED' AND length(changes) = 1 AND length(door) = 1"
    assert store.value(f"SELECT countIf({whole}) FROM calls") == load.executed
    kinds = dict(store.rows("SELECT kind, uniqExact(event_id) FROM events GROUP BY kind"))
    counts = dict(store.rows("SELECT kind, count() FROM events GROUP BY kind"))
    for kind in ("decision.allowed", "spend.reserved", "spend.outcome", "ledger.changed", "door.passed"):
        assert (counts[kind], kinds[kind]) == (load.executed, load.executed), kind


async def verified(house: House, load: AuditLoad) -> Any:
    told = {**house.environment(), "LICET_KEYS_DIR": str(load.keys_dir)}
    command = (sys.executable, "-m", "licet", "audit", "verify", "--json")
    done = await asyncio.to_thread(
        subprocess.run, command, env=told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return json.loads(done.stdout)


@pytest.mark.soak
@pytest.mark.asyncio
@pytest.mark.timeout(5400)
async def test_writer_and_store_killed_under_load_lose_nothing_and_double_nothing(chaos: Chaos) -> None:
    house, load, began = chaos.house, chaos.load, time.monotonic()
    loading = asyncio.create_task(load.run(chaos.over, STEPS_A_SECOND))
    disturbing = asyncio.create_task(chaos.disturb())
    await asyncio.gather(chaos.kill_writers(), chaos.kill_fronts(), chaos.restart_nats())
    chaos.over.set()
    await asyncio.gather(loading, disturbing)
    assert await load.close(), "a journal could not publish all that it had"
    killed_s = time.monotonic() - began
    chaos.start_writer()
    last = await last_sequences(house.nats)
    for stream, sequence in last.items():
        await house.until(house.stored(sequence, stream), 600)
    await house.until(lambda: house.store.value("SELECT count() FROM calls") == load.steps, 300)
    house.store.client.command("SYSTEM STOP MERGES events")
    assert_exact(house, load, last)
    house.store.client.command("SYSTEM START MERGES events")
    house.store.client.command("OPTIMIZE TABLE events")
    assert_exact(house, load, last)
    report = await verified(house, load)
    compared = sum(int(note.split()[1]) for note in report["notes"] if "compared with JetStream" in note)
    assert (report["sound"], report["rows"], compared) == (True, sum(last.values()), sum(last.values()))
    assert (chaos.done["writer killed"], chaos.done["front killed"]) == (WRITER_KILLS, FRONT_KILLS)
    assert chaos.done["batch inserted again"] > 0
    figures = {**chaos.done, "steps": load.steps, "rows": last, "seconds of kills": round(killed_s)}
    print(json.dumps(figures))  # noqa: T201 - the run's record
