"""Steps at a steady rate, as a decider, a sidecar and a ledger put them on record; each message exactly once.

Real journals with their checkpoints, signed spend records, write-once subjects: so that the verifier has
something to prove. What NATS did not acknowledge is sent again until it did.
"""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Self

from licet.embedded.dev_keys import make_dev_keys
from licet.embedded.nats_server import NatsServer
from licet.event import EventKind
from licet.identity import audience_of, decider_id, sidecar_id
from licet.journal import Journal
from licet.keyfile import read_signing_key
from licet.spend import outcome_payload, reserve_payload, spend_id
from licet.statement import PayloadType, SigningKey, canonical
from licet.streams import (
    Connection,
    Publisher,
    StoreRefused,
    StoreUnavailable,
    connect,
    subject_audit,
    subject_ledger,
)
from licet.v1.decision_pb2 import Decision, DecisionType
from licet.v1.guard_pb2 import LedgerChange
from licet.v1.spend_pb2 import OUTCOME_EXECUTED

ENVIRONMENT, TOOL, TENANT = "dev", "finance", "t1"
DECIDER = decider_id("licet.local", ENVIRONMENT)
SIDECAR = sidecar_id("licet.local", ENVIRONMENT, TOOL)
AUDIENCE = audience_of("licet.local", ENVIRONMENT, TOOL)
DENIED_EVERY = 7
IN_FLIGHT = 200
AT_MS = 1_790_000_000_000
TICK_S = 0.1
USED_UP = 10077


class AuditLoad:
    """Puts steps on record until told to stop. `open` makes one."""

    def __init__(self, nats: NatsServer, directory: Path) -> None:
        self._nats = nats
        self._directory = directory
        self.keys_dir = directory / "keys"
        make_dev_keys(self.keys_dir, ENVIRONMENT, (TOOL,), (), "licet.local")
        self._permit_key = self._key("decider")
        self._spend_key = self._key(f"spend-{TOOL}")
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._connections: list[Connection] = []
        self._publishers: list[Publisher] = []
        self.steps = 0
        self.executed = 0

    @classmethod
    async def open(cls, nats: NatsServer, directory: Path) -> Self:
        """Connect as decider and sidecar, and begin their journals."""
        made = cls(nats, directory)
        decider, made._sidecar = await made._publisher("decider"), await made._publisher(f"sidecar-{TOOL}")
        made._decisions = await made._journal(DECIDER, "decider", "main", "checkpoint-decider", decider)
        made._doors = await made._journal(
            SIDECAR, "sidecar", TOOL, f"checkpoint-sidecar-{TOOL}", made._sidecar
        )
        return made

    async def run(self, stop: asyncio.Event, rate: int) -> None:
        """Put `rate` steps a second on record until `stop`, then wait for those on their way."""
        async with asyncio.TaskGroup() as group:
            while not stop.is_set():
                for _ in range(0 if self._decisions.full or self._doors.full else max(int(rate * TICK_S), 1)):
                    await self._room.acquire()
                    self.steps += 1
                    group.create_task(self._bounded(self._step(self.steps)))
                await asyncio.sleep(TICK_S)

    async def close(self) -> bool:
        """Say goodbye in both journals; return whether all of it was published."""
        done = [await journal.close(drain_s=120) for journal in (self._decisions, self._doors)]
        for publisher in self._publishers:
            await publisher.close()
        for connection in self._connections:
            await connection.close()
        return all(done)

    async def _bounded(self, step: Awaitable[None]) -> None:
        try:
            await step
        finally:
            self._room.release()

    async def _step(self, number: int) -> None:
        decided = _decision(number)
        about = {
            "decision_id": decided.decision_id, "spend_id": decided.spend_id, "task_id": decided.task_id,
            "call_id": decided.call_id, "tenant": TENANT, "tool": TOOL, "resource": f"order:O{number}",
        }  # fmt: skip
        if number % DENIED_EVERY == 0:
            self._decisions.spool(EventKind.DECISION_DENIED, decision="deny", reason="POLICY_DENIED", **about)
            return
        self._decisions.spool(
            EventKind.DECISION_ALLOWED, decision="allow", tier=4, amount_minor=5000, currency="USD", **about
        )
        self.executed += 1
        row = self.executed
        await self._put(self._subject(decided, "reserve"), self._reserve(number, decided))
        self._doors.spool(EventKind.DOOR_PASSED, **about)
        ledger = subject_ledger(ENVIRONMENT, TOOL, row)
        await self._put(ledger, canonical(_change(row, decided)))
        await self._put(self._subject(decided, "outcome"), self._outcome(number, decided))

    async def _put(self, subject: str, body: bytes) -> None:
        """Publish to a write-once subject until it is stored: used up means that it is."""
        while True:
            try:
                await self._sidecar.publish(subject, body, timeout=30)
            except StoreRefused as refused:
                if refused.err_code != USED_UP:
                    raise
                return
            except StoreUnavailable:
                await asyncio.sleep(TICK_S)
            else:
                return

    def _subject(self, decided: Decision, what: str) -> str:
        return f"licet.spend.{ENVIRONMENT}.{TOOL}.{decided.spend_id}.0.{what}"

    def _reserve(self, number: int, decided: Decision) -> bytes:
        payload = reserve_payload(
            environment=ENVIRONMENT, permit=self._permit_key.sign(PayloadType.PERMIT, canonical(decided)),
            attempt=f"{number:032x}", sidecar=SIDECAR, reserved_at_ms=AT_MS, call_digest=b"",
        )  # fmt: skip
        return canonical(self._spend_key.sign(PayloadType.SPEND, payload))

    def _outcome(self, number: int, decided: Decision) -> bytes:
        payload = outcome_payload(
            environment=ENVIRONMENT, spend_id=decided.spend_id, round=0, attempt=f"{number:032x}",
            outcome=OUTCOME_EXECUTED, sidecar=SIDECAR, recorded_at_ms=AT_MS, status_code=0,
            decision_id=decided.decision_id,
        )  # fmt: skip
        return canonical(self._spend_key.sign(PayloadType.SPEND, payload))

    def _key(self, name: str) -> SigningKey:
        return read_signing_key(self.keys_dir / f"{name}.key")

    async def _publisher(self, user: str) -> Publisher:
        connection = await connect(self._nats.settings(user), "load")
        self._connections.append(connection)
        self._publishers.append(await Publisher.open(connection))
        return self._publishers[-1]

    async def _journal(self, source: str, process: str, name: str, key: str, publisher: Publisher) -> Journal:
        return await Journal.open(
            self._directory / process, source=source, environment=ENVIRONMENT,
            subject=subject_audit(ENVIRONMENT, process, name), checkpoint_key=self._key(key),
            publisher=publisher,
        )  # fmt: skip

    _sidecar: Publisher
    _decisions: Journal
    _doors: Journal


def _decision(number: int) -> Decision:
    task, call = f"task_{number // 20}", f"call_{number}"
    return Decision(
        version=1, decision_id=f"{number:032x}", decision=DecisionType.DECISION_TYPE_ALLOW,
        environment=ENVIRONMENT, tenant=TENANT, task_id=task, call_id=call, audience=AUDIENCE, not_after_ms=1,
        spend_id=spend_id(ENVIRONMENT, TENANT, AUDIENCE, "bot", task, call),
    )  # fmt: skip


def _change(row: int, decided: Decision) -> LedgerChange:
    return LedgerChange(
        outbox_seq=row, audience=AUDIENCE, spend_id=decided.spend_id, entry=1, change_id=f"c/{row}",
        decision_id=decided.decision_id, resource="order:O1", tenant=TENANT, account="a", amount_minor=5000,
        currency="USD", committed_at_us=AT_MS * 1000, issuer="permit",
    )  # fmt: skip
