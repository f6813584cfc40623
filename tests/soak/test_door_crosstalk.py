"""Sixty-four callers at one door, allowed and denied mixed: nobody gets another's answer, nothing denied
has an effect.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from grpc import aio

from examples.refund.fin.v1 import finance_pb2
from licet.identity import agent_id
from licet.metadata import DEV_IDENTITY, PERMIT
from tests.worlds.mint import ENVIRONMENT, GET_ORDER, REFUND, refund
from tests.worlds.rig import AMOUNT, Rig, answer_of

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(600)]

CALLERS = 64
SECONDS = float(os.environ.get("LICET_SOAK_S", "60"))


LATE = frozenset({"BEACON_STALE", "STORE_UNAVAILABLE"})
"""What a door that is starved says to everybody: nobody's answer in particular, and no effect."""


class Caller:
    """One agent of its own, on a connection of its own."""

    def __init__(self, rig: Rig, number: int, seed: int) -> None:
        self.rig = rig
        self.identity = agent_id("licet.local", ENVIRONMENT, f"agent-{number}")
        self.random = random.Random(seed * 1_000 + number)
        options = (("grpc.use_local_subchannel_pool", 1),)
        self.channel = aio.insecure_channel(f"127.0.0.1:{rig.sidecars[number % 2].port}", options=options)
        self.orders: list[str] = []
        self.counts: Counter[str] = Counter()

    async def run(self, ends: float) -> None:
        while time.monotonic() < ends:
            await self.random.choice((self.read, self.stolen, self.altered, self.write))()
        await self.channel.close()

    async def send(self, path: str, body: bytes, permit: bytes) -> tuple[str, bytes]:
        metadata = ((DEV_IDENTITY, self.identity), (PERMIT, permit))
        try:
            return "passed", await self.channel.unary_unary(path)(body, metadata=metadata, timeout=30)
        except aio.AioRpcError as error:
            return answer_of(error), b""

    def is_late(self, answer: str) -> bool:
        self.counts[answer] += answer in LATE
        return answer in LATE

    async def read(self) -> None:
        order = f"B{self.random.randint(1, 600):04}"
        body = finance_pb2.GetOrderRequest(order_id=order).SerializeToString()
        answer, reply = await self.send(
            GET_ORDER, body, self.rig.mint.permit(GET_ORDER, body, caller=self.identity)
        )
        if self.is_late(answer):
            return
        assert answer == "passed"
        assert finance_pb2.GetOrderResponse.FromString(reply).order_id == order
        self.counts["read"] += 1

    async def stolen(self) -> None:
        body = refund("O1")
        answer, _ = await self.send(REFUND, body.SerializeToString(), self.rig.permit(body))
        if self.is_late(answer):
            return
        assert answer == "CALLER_MISMATCH"
        self.counts["stolen"] += 1

    async def altered(self) -> None:
        permit = self.rig.permit(refund("O1"), caller=self.identity)
        answer, _ = await self.send(REFUND, refund("O1", minor=AMOUNT + 100).SerializeToString(), permit)
        if self.is_late(answer):
            return
        assert answer == "DIGEST_MISMATCH"
        self.counts["altered"] += 1

    async def write(self) -> None:
        try:
            order = self.rig.order()
        except StopIteration:
            return
        body = refund(order)
        answer, reply = await self.send(
            REFUND, body.SerializeToString(), self.rig.permit(body, caller=self.identity)
        )
        if self.is_late(answer):
            return
        assert answer == "passed"
        assert finance_pb2.IssueRefundResponse.FromString(reply).order_id == order
        self.orders.append(order)
        self.counts["write"] += 1


async def test_nobody_gets_anothers_answer(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("LICET_SOAK_SEED", str(random.randrange(1_000_000))))
    record_property("seed", seed)
    rig = Rig(tmp_path)
    await rig.start(sidecars=2)
    try:
        calls = rig.calls()
        callers = [Caller(rig, number, seed) for number in range(CALLERS)]
        await asyncio.gather(*(caller.run(time.monotonic() + SECONDS) for caller in callers))
        counts = sum((caller.counts for caller in callers), Counter())
        record_property("calls", dict(counts))
        print(f"seed {seed}, calls {dict(counts)}")  # noqa: T201 - what the run comes to
        assert min(counts[kind] for kind in ("read", "write", "stolen", "altered")) > 0
        assert rig.calls() - calls == counts["read"] + counts["write"]
        assert rig.refunded("O1") == 0
        assert all(rig.refunded(order) == AMOUNT for caller in callers for order in caller.orders)
        assert await rig.all_door_events(counts.total(), within_s=120) == counts.total()
    finally:
        await rig.stop()
