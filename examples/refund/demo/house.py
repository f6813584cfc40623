"""The house that the cases run in: the embedded stack with two sidecars, its ledger, and how to disturb it.

Everything is read where it really is: the balance in the tool's database, the calls in the tool process's
own count, the evidence in ClickHouse. Nothing is told by the part that is being judged.
"""

import asyncio
import itertools
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import grpc

from decider.in_force.activate import Activation, activate
from decider.policy.bundle import read_bundle_source
from examples.refund.demo.stand import Stand
from examples.refund.demo.wire import GET_ORDER, OK, REFUND
from examples.refund.fin.v1.finance_pb2 import Amount, GetOrderRequest, IssueRefundRequest
from licet.embedded.nats_accounts import SETUP
from licet.embedded.process import stop_together
from licet.embedded.project import ToolCommand, read_project
from licet.embedded.stack import Stack
from licet.keyfile import read_signing_key
from licet.statement import PayloadType

PROJECT: Final = Path(__file__).resolve().parent.parent
TOOL: Final = "finance"
TENANT: Final = "t1"
AGENT: Final = "refund-bot"
TASK: Final = "task_789"
SHORT_TASK: Final = "task_short"
REPLICAS: Final = 2
ORDERS: Final = 400


class House(Stand):
    """A running stack and what the cases need of it.

    Args:
        directory: a new directory for everything.
        orders: how many orders there are that no case touched.
        nats_servers: how many keep JetStream together.
        progress: is told each step in a few words.
    """

    def __init__(
        self,
        directory: Path,
        *,
        orders: int = ORDERS,
        nats_servers: int = 1,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.directory = directory.resolve()
        self.policy = self.directory / "policy"
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copytree(PROJECT / "policy", self.policy)
        project = read_project(PROJECT)
        tools = tuple(_with_orders(tool, orders) for tool in project.tools)
        project = replace(project, policy=self.policy, tools=tools)
        data = self.directory / "data"
        stack = Stack(data, project, replicas=REPLICAS, nats_servers=nats_servers, progress=progress)
        super().__init__(stack, AGENT)
        self._numbers = itertools.count(1)

    # --- names nobody used yet ---

    def order(self) -> str:
        """Return an order of 50.00 USD that may be refunded and that no case touched."""
        return f"B{next(self._numbers):04}"

    # --- what is really there ---

    @property
    def ledger(self) -> Path:
        """The tool's database."""
        return self.stack.layout.tool(TOOL) / "ledger.db"

    def balance_minor(self) -> int:
        """Return the merchant's balance as the ledger has it, minor units; each refund lowers it."""
        return balance_minor(self.ledger)

    def refund_calls(self) -> int:
        """Return how many refund calls entered a handler of the tool process, by its own count."""
        return refund_calls(self.stack.layout.tool_calls(TOOL))

    @contextmanager
    def locked_ledger(self) -> Iterator[None]:
        """Hold the ledger's write lock: whatever wants to change it waits, inside its transaction."""
        with closing(sqlite3.connect(self.ledger, isolation_level=None, timeout=5)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                connection.execute("ROLLBACK")

    # --- disturbances ---

    def next_bundle(self) -> tuple[int, Activation]:
        """Sign the same rules under the next version; return it with what puts them in force."""
        file = self.policy / "bundle.yaml"
        text = file.read_text()
        version = int(re.search(r"^version: (\d+)", text, re.MULTILINE)[1]) + 1  # type: ignore[index] # it is there
        file.write_text(re.sub(r"^version: \d+", f"version: {version}", text, flags=re.MULTILINE))
        keys, environment = self.stack.layout.keys, self.stack.project.environment
        payload = read_bundle_source(self.policy, environment=environment)
        signed = read_signing_key(keys / "bundle.key").sign(PayloadType.BUNDLE, payload)
        return version, Activation(signed, keys / "keyset.signed", keys / "root.pub", environment)

    def put_in_force(self, activation: Activation) -> None:
        """Put a bundle in force, as `licet policy activate` does."""
        asyncio.run(activate(activation, self.stack.nats.settings(SETUP)))

    def wait_for_bundle(self, version: int) -> None:
        """Wait until the decider decides under `version` and every sidecar has heard of it.

        A sidecar lets a permit of a newer bundle wait for its beacon: one that passes proves the beacon.
        """
        body = GetOrderRequest(order_id="O1").SerializeToString()
        for replica in range(REPLICAS):
            self.until(partial(self._reads_under, version, body, replica), f"bundle {version}")

    def _reads_under(self, version: int, body: bytes, replica: int) -> bool:
        step = self.wire.step(self.call_id(), TASK)
        asked = self.wire.decide(step, GET_ORDER, body)
        if asked.decision.bundle_version != version:
            return False
        return self.wire.present(step, GET_ORDER, body, (asked.sent,), replica).reason == OK

    def short_task(self, seconds: float) -> float:
        """Start the decider again with one more task, which ends in `seconds` and cuts its permits short.

        Returns its end, Unix seconds.
        """
        ends = time.time() + seconds
        end = datetime.fromtimestamp(ends, UTC).isoformat(timespec="milliseconds")
        file = self.policy / "tasks.yaml"
        text = file.read_text().split(f"  {SHORT_TASK}:")[0]
        entry = {
            "agent": AGENT,
            "caller": f"agent/{AGENT}",
            "principal": "ana@t1.example.com",
            "tenant": TENANT,
            "not_after": f'"{end}"',
        }
        lines = [f"  {SHORT_TASK}:", *(f"    {key}: {value}" for key, value in entry.items())]
        file.write_text(text + "\n".join(lines) + "\n")
        self.stack.processes["decider"].stop()
        self.stack.restart("decider")
        return ends

    def empty_sidecars(self) -> None:
        """Stop every sidecar, wipe its disk, start it again."""
        names = [name for name in self.stack.processes if name.startswith("sidecar-")]
        stop_together([self.stack.processes[name] for name in names])
        for name in names:
            shutil.rmtree(self.stack.layout.spool(name))
        self.stack.restart(*names)

    # --- waiting ---

    def wait_for_store(self) -> None:
        """Wait until the decider decides and every sidecar spends again."""
        body = IssueRefundRequest(
            order_id=self.order(), amount=Amount(minor=100, currency="USD")
        ).SerializeToString()
        for replica in range(REPLICAS):
            self.until(partial(self._spends, body, replica), f"sidecar {replica} spends again")

    def _spends(self, body: bytes, replica: int) -> bool:
        step = self.wire.step(self.call_id(), TASK)
        try:
            asked = self.wire.decide(step, REFUND, body)
        except grpc.RpcError:
            return False  # no decision yet
        return self.wire.present(step, REFUND, body, (asked.sent,), replica).reason == OK


def _with_orders(tool: ToolCommand, orders: int) -> ToolCommand:
    return replace(tool, seed=(*tool.seed, "--bulk", str(orders)))


def balance_minor(ledger: Path) -> int:
    """Return the merchant's balance in a ledger file, minor units."""
    query = "SELECT coalesce(sum(amount_minor), 0) FROM ledger WHERE account = ?"
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True, timeout=5)) as connection:
        return int(connection.execute(query, (f"merchant:{TENANT}",)).fetchone()[0])


def refund_calls(calls: Path) -> int:
    """Return how many lines of a tool's own count are refunds."""
    method = REFUND.rpartition("/")[2]
    return calls.read_text().count(f'"method": "{method}"') if calls.exists() else 0
