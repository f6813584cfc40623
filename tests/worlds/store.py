"""A spend store in memory that behaves as the real one does, and fails on demand.

It passes the contract tests of the real store (tests/contract/nats/test_spend_store.py); only then does a
test on it say anything.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from licet.streams import PubAck, StoreRefused, StoreUnavailable, stream_spend
from sidecar.store.spend import LIMIT_REACHED, USED_UP
from tests.worlds.mint import ENVIRONMENT

Fault = Literal["lose_message", "lose_ack", "not_sent", "full", "busy"]


@dataclass(frozen=True)
class Record:
    seq: int
    subject: str
    msg_id: str | None
    body: bytes


@dataclass
class FakeStore:
    """`faults` are taken one a publish, first in first out; an empty row means none."""

    connected: bool = True
    reconnected_at_ms: int = 0
    faults: deque[Fault | None] = field(default_factory=deque)
    records: list[Record] = field(default_factory=list)
    sequence: int = 0

    async def begin(
        self, subject: str, body: bytes, *, msg_id: str | None = None
    ) -> "asyncio.Future[PubAck]":
        fault = self.faults.popleft() if self.faults else None
        if fault == "not_sent" or not self.connected:
            raise StoreUnavailable("not connected to nats", maybe_stored=False)
        future: asyncio.Future[PubAck] = asyncio.get_running_loop().create_future()
        answer = None if fault == "lose_message" else self._answer(subject, body, msg_id, fault)
        if fault == "lose_ack" or answer is None:
            return future
        if isinstance(answer, PubAck):
            future.set_result(answer)
        else:
            future.set_exception(answer)
        return future

    async def publish(
        self, subject: str, body: bytes, *, msg_id: str | None = None, timeout: float = 2.0
    ) -> PubAck:
        future = await self.begin(subject, body, msg_id=msg_id)
        await asyncio.sleep(0)
        if not future.done():
            raise StoreUnavailable(f"no ack for `{subject}` within {timeout} s")
        return future.result()

    def roll_back(self, to: int) -> None:
        """Become the store of a restored volume: what came after `to` is gone, the numbers are used again."""
        self.records = [record for record in self.records if record.seq <= to]
        self.sequence = to

    def _answer(
        self, subject: str, body: bytes, msg_id: str | None, fault: Fault | None
    ) -> PubAck | StoreRefused:
        for record in self.records:
            if msg_id is not None and record.msg_id == msg_id:
                return PubAck(stream_spend(ENVIRONMENT), record.seq, duplicate=True)
        if any(record.subject == subject for record in self.records):
            return StoreRefused(LIMIT_REACHED, USED_UP)
        if fault == "full":
            return StoreRefused(LIMIT_REACHED, "maximum bytes exceeded")
        if fault == "busy":
            return StoreRefused(10008, "JetStream system temporarily unavailable")
        self.sequence += 1
        self.records.append(Record(self.sequence, subject, msg_id, body))
        return PubAck(stream_spend(ENVIRONMENT), self.sequence)
