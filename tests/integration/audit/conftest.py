"""One ClickHouse front a session, one empty database a test; one nats-server a test that needs it."""

import asyncio
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from clickhouse_connect.driver.exceptions import Error as ClickHouseError

from audit.store.client import StoreAddress
from audit.store.migrate import Layout, migrate
from licet.embedded.nats_server import NatsServer
from licet.event import EventKind
from licet.streams import EMBEDDED_SIZES, Publisher, apply_streams, connect, subject_audit
from licet.v1.event_pb2 import Event

LICET = (str(Path(sys.executable).with_name("licet")),)
ENVIRONMENT = "dev"
DECIDER = "spiffe://licet.local/dev/decider"
RUN = "ab" * 16


class Front:
    """The front as its own process, on one port over restarts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.password_file = directory / "password"
        self._port_file = directory / "port"
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def signed_url(self, sql: str) -> str:
        password = self.password_file.read_text().strip()
        return f"{self.url}/?user=licet&password={password}&query={quote(sql)}"

    def start(self) -> None:
        self._port_file.unlink(missing_ok=True)
        command = (*LICET, "audit", "front", "--path", str(self.directory / "data"))
        options = ("--listen", f"127.0.0.1:{self.port}", "--password-file", str(self.password_file))
        with (self.directory / "front.log").open("ab") as log:
            self.process = subprocess.Popen(
                (*command, *options, "--port-file", str(self._port_file)), stderr=log
            )
        deadline = time.monotonic() + 90
        while not self._port_file.exists():
            assert self.process.poll() is None, (self.directory / "front.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.port = int(self._port_file.read_text())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)

    def address(self, database: str = "default") -> StoreAddress:
        return StoreAddress(self.url, "licet", self.password_file, database)


@pytest.fixture(scope="session")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    server = Front(tmp_path_factory.mktemp("front"))
    server.start()
    yield server
    server.stop()


@dataclass
class Store:
    """One migrated database of the session's front."""

    address: StoreAddress
    client: Any = field(repr=False)

    def rows(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.client.query(sql, parameters=parameters).result_rows]

    def value(self, sql: str, **parameters: Any) -> Any:
        return self.rows(sql, **parameters)[0][0]


_databases = iter(range(1_000_000))


def make_store(front: Front) -> Store:
    name = f"test_{os.getpid()}_{next(_databases)}"
    admin = front.address().client()
    admin.command(f"CREATE DATABASE {name}")
    admin.close()
    address = front.address(name)
    client = address.client()
    for _ in migrate(client, Layout(retention_days=9_000)):
        pass
    return Store(address, client)


class Stores:
    """Migrated databases that tests leave to one another: to empty one costs a fortieth of making it.

    One whose tables, views or migrations are no longer as they were made goes nowhere. Emptied is when it is
    taken, which washes out what a killed writer still had under way.
    """

    _SCHEMA = (
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() ORDER BY name"
    )
    _MIGRATIONS = "SELECT number, checksum FROM migrations ORDER BY number, checksum"
    _TABLES = "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'"

    def __init__(self, front: Front) -> None:
        self._front = front
        self._left: deque[Store] = deque()
        self._made: dict[str, object] = {}

    def take(self) -> Store:
        if not self._left:
            made = make_store(self._front)
            self._made[made.address.database] = self._shape(made)
            return made
        left = self._left.popleft()
        for (table,) in left.rows(self._TABLES):
            left.client.command(f"SYSTEM START MERGES {table}")
            if table != "migrations":
                left.client.command(f"TRUNCATE TABLE {table} SYNC")
        return left

    def leave(self, store: Store) -> None:
        if self._shape(store) == self._made[store.address.database]:
            # a client of its own for the next: tests close theirs, or change its settings
            store.client.close()
            self._left.append(Store(store.address, store.address.client()))
            return
        store.client.command(f"DROP DATABASE {store.address.database} SYNC")
        store.client.close()

    def close(self) -> None:
        for store in self._left:
            store.client.close()

    def _shape(self, store: Store) -> object:
        try:
            return store.rows(self._SCHEMA), store.rows(self._MIGRATIONS)
        except ClickHouseError:
            return None


@pytest.fixture(scope="session")
def stores(front: Front) -> Iterator[Stores]:
    made = Stores(front)
    yield made
    made.close()


@pytest.fixture
def store(stores: Stores) -> Iterator[Store]:
    taken = stores.take()
    yield taken
    stores.leave(taken)


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "nats", environment=ENVIRONMENT, tools=["finance"])
    server.start()

    async def setup() -> None:
        nc = await connect(server.settings("setup"), "setup")
        await apply_streams(nc, ENVIRONMENT, sizes=EMBEDDED_SIZES)
        await nc.close()

    asyncio.run(setup())
    yield server
    server.stop()


def make_event(number: int, **changed: Any) -> bytes:
    """An event of the decider that the writer takes; `number` makes its ids."""
    fields: dict[str, Any] = {
        "version": 1,
        "event_id": f"{number:032x}",
        "source": DECIDER,
        "stream": RUN,
        "seq": number,
        "prev_hash": bytes(32),
        "time_us": 1_790_000_000_000_000 + number,
        "kind": EventKind.DECISION_DENIED,
        "decision": "deny",
        "reason": "DENIED",
        "environment": ENVIRONMENT,
        "tenant": "t1",
        "decision_id": f"{number + (1 << 64):032x}",
        "spend_id": f"{number + (1 << 65):032x}",
        "resource": f"order:O{number}",
        "tool": "finance",
        "rule_ids": ["refund-not-allowed"],
    }
    return Event(**{**fields, **changed}).SerializeToString(deterministic=True)


@pytest.fixture(scope="session")
def event() -> Callable[..., bytes]:
    return make_event


class House:
    """A nats-server, a store, and the writer process over both."""

    def __init__(self, nats: NatsServer, store: Store, directory: Path) -> None:
        self.nats = nats
        self.store = store
        self.directory = directory
        self.writers: list[subprocess.Popen[bytes]] = []

    def environment(self, user: str = "audit-writer", instance: str = "one") -> dict[str, str]:
        return {
            **os.environ,
            "LICET_ENVIRONMENT": ENVIRONMENT,
            "LICET_NATS_URL": self.nats.url,
            "LICET_NATS_USER": user,
            "LICET_NATS_PASSWORD_FILE": str(self.nats.password_file(user)),
            "LICET_CLICKHOUSE_URL": self.store.address.url,
            "LICET_CLICKHOUSE_PASSWORD_FILE": str(self.store.address.password_file),
            "LICET_CLICKHOUSE_DATABASE": self.store.address.database,
            "LICET_SPOOL_DIR": str(self.directory / instance),
        }

    def start_writer(self, *, instance: str = "one", **changed: str) -> subprocess.Popen[bytes]:
        with (self.directory / "writer.log").open("ab") as log:
            process = subprocess.Popen(
                (*LICET, "audit", "write"), env={**self.environment(instance=instance), **changed}, stderr=log
            )
        self.writers.append(process)
        return process

    def log(self) -> str:
        return (self.directory / "writer.log").read_text()

    def stop(self) -> None:
        for process in self.writers:
            if process.poll() is None:
                process.terminate()
        for process in self.writers:
            process.wait(20)

    async def publish(self, bodies: list[bytes], subject: str = "", user: str = "decider") -> None:
        """Publish in order; one subject: the decider's events."""
        subject = subject or subject_audit(ENVIRONMENT, "decider", "main")
        nc = await connect(self.nats.settings(user), "test")
        publisher = await Publisher.open(nc)
        for start in range(0, len(bodies), 2000):
            part = bodies[start : start + 2000]
            await asyncio.gather(*(publisher.publish(subject, body, timeout=20) for body in part))
        await publisher.close()
        await nc.close()

    async def until(self, condition: Callable[[], bool], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not await asyncio.to_thread(self._holds, condition):
            assert time.monotonic() < deadline, self.log()[-3000:]
            await asyncio.sleep(0.05)

    @staticmethod
    def _holds(condition: Callable[[], bool]) -> bool:
        try:
            return condition()
        except ClickHouseError:
            return False  # the store is away just now

    def stored(self, last: int, stream: str = "LICET_AUDIT_dev") -> Callable[[], bool]:
        return lambda: bool(
            self.store.value("SELECT max(js_seq) FROM events WHERE js_stream = {s:String}", s=stream) >= last
        )

    def assert_exact(self, last: int, stream: str = "LICET_AUDIT_dev") -> None:
        """Count, distinct and last sequence are one number: nothing lost, nothing doubled."""
        counts = self.store.rows(
            "SELECT count(), uniqExact(js_seq), min(js_seq), max(js_seq) FROM events"
            " WHERE js_stream = {s:String}",
            s=stream,
        )
        assert counts == [(last, last, 1, last)]


@pytest_asyncio.fixture
async def house(nats: NatsServer, store: Store, tmp_path: Path) -> AsyncIterator[House]:
    made = House(nats, store, tmp_path)
    yield made
    await asyncio.to_thread(made.stop)


@pytest.fixture
def own_front(tmp_path: Path) -> Iterator[Front]:
    """A front of the test's own, which it may kill."""
    (tmp_path / "front").mkdir()
    server = Front(tmp_path / "front")
    server.start()
    yield server
    server.stop()


@pytest_asyncio.fixture
async def own_house(nats: NatsServer, own_front: Front, tmp_path: Path) -> AsyncIterator[tuple[House, Front]]:
    store = make_store(own_front)
    made = House(nats, store, tmp_path)
    yield made, own_front
    await asyncio.to_thread(made.stop)
    store.client.close()
