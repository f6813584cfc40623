"""Real parts around the door: nats-server, the example's tool process, sidecars; a decider's word from a
Mint.
"""

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from examples.refund.orders import bulk_orders, open_book, seed
from licet.embedded.nats_accounts import DECIDER, SETUP, sidecar_user
from licet.embedded.nats_server import NatsServer
from licet.metadata import DEV_IDENTITY, PERMIT
from licet.statement import artifact_sha256, canonical
from licet.streams import (
    EMBEDDED_SIZES,
    Connection,
    StoreUnavailable,
    apply_streams,
    connect,
    read_seq,
    stream_audit,
    stream_info,
    stream_spend,
    subject_beacon,
)
from licet.v1 import decider_pb2, decider_pb2_grpc
from licet.v1.event_pb2 import Event
from licet.v1.spend_pb2 import SpendRecord
from licet.v1.statement_pb2 import Signed
from sidecar.process import Sidecar
from sidecar.settings import SidecarSettings
from sidecar.tool.guard_link import NO_GUARD
from tests.worlds.mint import AGENT, ENVIRONMENT, REFUND, TOOL, Mint, now_ms, refund, scalar

ROOT = Path(__file__).parents[2]
ORDERS = 600
AMOUNT = 5_000


def well(sidecar: Sidecar) -> bool:
    """Whether a door is ready, but for the guard that a plain tool has not."""
    return not any(reason for reason in sidecar.reasons().values() if reason != NO_GUARD)


class Word(decider_pb2_grpc.DeciderServiceServicer):
    """What a decider says: beacons and artifacts. `frozen` stops the beacon, `silent` stops answers too."""

    def __init__(self, mint: Mint) -> None:
        self.mint = mint
        self.beacon: dict[str, Any] = {}
        self.artifacts: dict[bytes, Signed] = {}
        self.put(mint.keyset_signed)
        self.silent = False
        self.decide: Any = None

    def put(self, signed: Signed) -> bytes:
        digest = artifact_sha256(signed)
        self.artifacts[digest] = signed
        return digest

    async def GetBeacon(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.silent:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "silent")
        return decider_pb2.GetBeaconResponse(beacon=self.mint.beacon(**self.beacon))

    async def GetArtifact(self, request: Any, context: Any) -> Any:  # noqa: N802
        found = self.artifacts.get(request.sha256)
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such artifact")
        return decider_pb2.GetArtifactResponse(artifact=canonical(found))

    async def Decide(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await self.decide(request, context)


class Rig:
    """One environment with one tool; sidecars run in this process, on real transports."""

    def __init__(self, directory: Path, tool: str = "examples.refund.service") -> None:
        self.directory = directory
        self._tool_module = tool
        self.mint = Mint(directory)
        self.nats = NatsServer(directory / "nats", environment=ENVIRONMENT, tools=(TOOL, "other"))
        self.word = Word(self.mint)
        self.socket = directory / "tool.sock"
        self.ledger = directory / "ledger.db"
        self.calls_file = directory / "calls.log"
        self.sidecars: list[Sidecar] = []
        self.served: list[asyncio.subprocess.Process] = []
        self.publishing = True
        self._stopping = False
        self._orders: Iterator[str] = iter(order.order_id for order in bulk_orders(ORDERS))
        self._audit_from = 0
        self._audit: list[Event] = []
        self._channels: dict[int, aio.Channel] = {}
        self._runs = 0
        self.made = 0
        """Calls made so far; each must have left one door event."""

    async def start(self, sidecars: int = 1) -> None:
        await asyncio.to_thread(self.nats.start)
        setup = await connect(self.nats.settings(SETUP), "setup")
        await apply_streams(setup, ENVIRONMENT, sizes=EMBEDDED_SIZES)
        self.setup: Connection = setup
        book = open_book(self.ledger)
        seed(book, bulk_orders(ORDERS))
        book.close()
        self.start_tool()
        await self._start_word()
        for _ in range(sidecars):
            await self.add_sidecar()

    async def stop(self) -> None:
        """Stop everything, one after the other; what a test left broken must not keep a process alive."""
        for served in self.served:
            if served.returncode is None:
                served.kill()
                await served.wait()
        self._stopping = True
        self._beacons.cancel()
        await asyncio.gather(self._beacons, return_exceptions=True)
        endings = [sidecar.stop() for sidecar in self.sidecars]
        endings += [channel.close() for channel in self._channels.values()]
        endings += [self._word_server.stop(0), self.setup.close(), self.hub.close()]
        for ending in endings:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(ending, 30)
        self.stop_tool()
        await asyncio.to_thread(self.nats.stop)

    def start_tool(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LICET_ENVIRONMENT": ENVIRONMENT,
            "LICET_TOOL": TOOL,
            "LICET_TOOL_SOCKET": str(self.socket),
            "LICET_TOOL_CALLS_FILE": str(self.calls_file),
            "LICET_CATALOG": str(self.mint.catalog_file),
            "LICET_TOOL_KEY_FILE": str(self.mint.keys_dir / f"tool-{TOOL}.key"),
            "LICET_ROOT_KEY_FILE": str(self.mint.keys_dir / "root.pub"),
            "REFUND_LEDGER": str(self.ledger),
        }
        with (self.directory / "tool.log").open("ab") as log:
            self.tool = subprocess.Popen(
                [sys.executable, "-m", self._tool_module], env=environment, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while not self.socket.exists():
            assert self.tool.poll() is None, (self.directory / "tool.log").read_text()
            assert time.monotonic() < deadline, "the tool did not start"
            time.sleep(0.02)

    def stop_tool(self) -> None:
        self.tool.terminate()
        self.tool.wait(10)
        self.socket.unlink(missing_ok=True)

    def kill_tool(self) -> None:
        """End the tool by SIGKILL, in the middle of whatever it does."""
        self.tool.kill()
        self.tool.wait()
        self.socket.unlink(missing_ok=True)

    async def _start_word(self) -> None:
        self._word_server = aio.server()
        decider_pb2_grpc.add_DeciderServiceServicer_to_server(self.word, self._word_server)
        self.decider_port = self._word_server.add_insecure_port("127.0.0.1:0")
        await self._word_server.start()
        self.hub = await connect(self.nats.settings(DECIDER), "decider")
        self._beacons = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        while not self._stopping:  # nats-py eats a cancellation that comes while it flushes
            if self.publishing:
                with contextlib.suppress(Exception):
                    await self.publish_beacon()
            await asyncio.sleep(0.5)

    async def publish_beacon(self, signed: Signed | None = None) -> None:
        signed = signed or self.mint.beacon(**self.word.beacon)
        await self.hub.publish(subject_beacon(ENVIRONMENT), canonical(signed))
        await self.hub.flush()

    def settings(self, **changes: Any) -> SidecarSettings:
        keys = self.mint.keys_dir
        self._runs += 1
        return SidecarSettings(
            **{
                "environment": ENVIRONMENT,
                "tool": TOOL,
                "instance": f"i{self._runs}",
                "dev_identity": True,
                "tool_socket": self.socket,
                "catalog": self.mint.catalog_file,
                "root_key_file": keys / "root.pub",
                "tool_key_file": keys / f"tool-{TOOL}.key",
                "spend_key_file": keys / f"spend-{TOOL}.key",
                "checkpoint_key_file": keys / f"checkpoint-sidecar-{TOOL}.key",
                "decider": f"127.0.0.1:{self.decider_port}",
                "nats_url": self.nats.url,
                "nats_user": sidecar_user(TOOL),
                "nats_password_file": self.nats.password_file(sidecar_user(TOOL)),
                "spool_dir": self.directory / f"spool-{self._runs}",
                "quota_per_second": 10_000.0,
                "quota_burst": 10_000,
                **changes,
            }
        )

    async def add_sidecar(self, **changes: Any) -> Sidecar:
        sidecar = Sidecar(self.settings(**changes))
        await sidecar.start()
        await self.until(lambda: well(sidecar), lambda: str(sidecar.reasons()))
        self.sidecars.append(sidecar)
        return sidecar

    async def until(self, true: Any, why: Any = lambda: "", within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while not true():
            assert time.monotonic() < deadline, why()
            await asyncio.sleep(0.02)

    # --- calls

    def order(self) -> str:
        """An order nobody has touched."""
        return next(self._orders)

    def permit(self, body: Any, **changes: Any) -> bytes:
        """A permit as the decider would mint it: with the preconditions the catalog asks for."""
        checks = [
            {"check": "order.version", "expect": scalar(1)},
            {"check": "order.status", "expect": scalar("paid")},
            {"check": "order.tenant", "expect": scalar("t1")},
        ]
        return self.mint.permit(REFUND, body.SerializeToString(), **{"preconditions": checks, **changes})

    def channel(self, port: int) -> aio.Channel:
        if port not in self._channels:
            self._channels[port] = aio.insecure_channel(f"127.0.0.1:{port}")
        return self._channels[port]

    async def call(
        self,
        *permits: bytes,
        body: bytes,
        path: str = REFUND,
        sidecar: Sidecar | None = None,
        identity: str = AGENT,
        metadata: tuple[tuple[str, Any], ...] = (),
        timeout: float | None = 30,
    ) -> str:
        """Call once; return `passed`, or the reason, or the status name of an error without one."""
        pairs = ((DEV_IDENTITY, identity), *((PERMIT, permit) for permit in permits), *metadata)
        port = (sidecar or self.sidecars[0]).port
        self.made += 1
        try:
            await self.channel(port).unary_unary(path)(body, metadata=pairs, timeout=timeout)
        except aio.AioRpcError as error:
            return answer_of(error)
        return "passed"

    # --- evidence

    def calls(self) -> int:
        """Calls that entered a handler of the tool, by its own count."""
        return len(self.calls_file.read_bytes().splitlines()) if self.calls_file.exists() else 0

    def refunded(self, order_id: str) -> int:
        """What the ledger says was paid back for an order, minor units."""
        with contextlib.closing(sqlite3.connect(self.ledger, timeout=60)) as book:
            row = book.execute("SELECT refunded_minor FROM orders WHERE order_id = ?", (order_id,)).fetchone()
        return int(row[0])

    async def mark(self) -> None:
        """Forget the door events so far; those on their way are waited for."""
        journals = [one._journal for one in self.sidecars if not one._journal._closed]
        await self.until(lambda: not any(journal.depth for journal in journals), within_s=60)
        self._audit_from = await self._last(stream_audit(ENVIRONMENT))

    def forget(self) -> None:
        """Forget every event, also those of a stream that is gone."""
        self._audit_from = 0
        self._audit.clear()

    async def door_events(self, count: int = 1, within_s: float = 60.0) -> list[Event]:
        """Return the door events since `mark`, from the stream; waits until there are `count`."""
        deadline = time.monotonic() + within_s
        while True:
            events = [
                event for event in await self._events(self._audit_from) if event.kind.startswith("door.")
            ]
            if len(events) >= count or time.monotonic() > deadline:
                return events
            await asyncio.sleep(0.02)

    async def events(self, kind: str, count: int, within_s: float = 60.0) -> bool:
        """Return whether there have been `count` events of a kind, waiting for them."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if sum(event.kind == kind for event in await self._events(0)) >= count:
                return True
            await asyncio.sleep(0.1)
        return False

    async def all_door_events(self, count: int, within_s: float = 60.0) -> int:
        """Return how many door events there are in all, once there are `count`, or time is up."""
        self._audit_from = 0
        return len(await self.door_events(count, within_s))

    async def _events(self, after: int) -> list[Event]:
        """Return the events after a sequence; each is read from the stream once."""
        last = await self._last(stream_audit(ENVIRONMENT))
        for seq in range(len(self._audit) + 1, last + 1):
            message = await read_seq(self.setup, stream_audit(ENVIRONMENT), seq)
            assert message is not None
            self._audit.append(Event.FromString(message.data))
        return self._audit[after:]

    async def spends(self, spend_id: str) -> list[SpendRecord]:
        """Return the records of a step, from the stream."""
        last = await self._last(stream_spend(ENVIRONMENT))
        found = []
        for seq in range(1, last + 1):
            message = await read_seq(self.setup, stream_spend(ENVIRONMENT), seq)
            if message is not None and f".{spend_id}." in message.subject:
                found.append(SpendRecord.FromString(Signed.FromString(message.data).payload))
        return found

    async def _last(self, stream: str) -> int:
        """Return a stream's last sequence; asks again while the own connection is still coming back."""
        deadline = time.monotonic() + 60
        while True:
            try:
                info = await stream_info(self.setup, stream)
                assert info is not None
                return int(info["state"]["last_seq"])
            except StoreUnavailable:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.2)


def answer_of(error: aio.AioRpcError) -> str:
    """Return the reason of an error, or its status name where it has none."""
    from google.rpc import error_details_pb2, status_pb2

    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    if not isinstance(details, bytes):
        return error.code().name
    info = error_details_pb2.ErrorInfo()
    status_pb2.Status.FromString(details).details[0].Unpack(info)
    return str(info.reason)


__all__ = ["AGENT", "AMOUNT", "Rig", "json", "now_ms", "refund"]
