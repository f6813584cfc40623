"""Budgets over minutes: two deciders under load, one or the other killed again and again, doors that fail.

At the end every balance is what was executed, to the unit, and no budget was ever above its limit.
"""

import asyncio
import os
import random
import time
from typing import Any

import grpc
import pytest

from decider.budgets.settle import GRACE_MS
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, Decision
from licet.v1.spend_pb2 import Outcome
from tests.integration.decider.conftest import ground
from tests.integration.decider.test_budgets import Ledger, five, ground_laid, ledger_of
from tests.worlds.decisions import Ground
from tests.worlds.programs import DeciderProgram, start_program

__all__ = ["ground", "ledger_of"]

SECONDS = int(os.environ.get("LICET_SOAK_SECONDS", "240"))
SEED = int(os.environ.get("LICET_SOAK_SEED", "7"))
LIMIT = 400
UNIT = 5_000

pytestmark = [pytest.mark.soak, pytest.mark.asyncio, pytest.mark.timeout(SECONDS + 900)]


class Traffic:
    """Asks, spends some of what is permitted, and knows what was executed."""

    def __init__(self, programs: list[DeciderProgram], ledger: Ledger, dice: random.Random) -> None:
        self.programs, self.ledger, self.dice = programs, ledger, dice
        self.asked = self.permitted = self.executed = self.unavailable = 0
        self.end = time.monotonic() + SECONDS

    async def agent(self, name: int) -> None:
        number = 0
        while time.monotonic() < self.end:
            number += 1
            call_id = f"{name}-{number}"
            for _ in range(self.dice.choice((1, 1, 2))):  # sometimes asked for twice
                answer = await self._ask(call_id)
            if answer is not None and answer.decision == DECISION_TYPE_ALLOW:
                self.permitted += 1
                await self._use(answer)
            await asyncio.sleep(self.dice.uniform(0, 0.3))

    async def _ask(self, call_id: str) -> Any:
        self.asked += 1
        try:
            return await self.dice.choice(self.programs).decide(call_id)
        except grpc.RpcError:
            self.unavailable += 1
            return None

    async def _use(self, answer: Any) -> None:
        decision = Decision.FromString(answer.signed.payload)
        fate = self.dice.choice(("never", "executed", "no effect", "voided late"))
        if fate == "never":
            return
        await self.ledger.door.reserve(answer.signed, decision)
        if fate == "voided late":
            await asyncio.sleep(self.dice.uniform(0, 5))
            await self.ledger.door.outcome(decision, Outcome.OUTCOME_VOIDED)
            return
        executed = fate == "executed"
        said = Outcome.OUTCOME_EXECUTED if executed else Outcome.OUTCOME_FAILED_NO_EFFECT
        self.executed += executed
        await self.ledger.door.outcome(decision, said)


async def test_balances_are_what_was_executed_after_minutes_of_kills(ground: Ground, ledger_of: Any) -> None:
    finance = await ground_laid(ground, five(LIMIT))
    programs = [await start_program(ground, finance.port, name) for name in ("0", "1")]
    ledger: Ledger = await ledger_of(ground)
    traffic = Traffic(programs, ledger, random.Random(SEED))
    agents = [asyncio.create_task(traffic.agent(name)) for name in range(12)]
    kills, over, dead = 0, [], []
    while time.monotonic() < traffic.end:
        await asyncio.sleep(traffic.dice.uniform(2, 8))
        which = traffic.dice.randrange(2)
        programs[which].kill()
        kills += 1
        for balance in await ledger.book.every_balance():
            limit = LIMIT * (UNIT if balance.account.text.startswith("by-task") else 1)
            if balance.used > limit:
                over.append(balance)
        dead.append(programs[which])
        programs[which] = await start_program(ground, finance.port, str(which))
    await asyncio.gather(*agents)
    assert over == []
    await asyncio.sleep(2)
    await ledger.check()
    deadline = time.monotonic() + 600  # the deciders themselves end what was never spent
    while await ledger.book.every_booking():
        assert time.monotonic() < deadline
        await asyncio.sleep(1)
    print(  # noqa: T201 - shown when the test fails, or by -s
        f"asked {traffic.asked}, permitted {traffic.permitted}, executed {traffic.executed},"
        f" unavailable {traffic.unavailable}, kills {kills}, grace {GRACE_MS} ms"
    )
    expected = dict.fromkeys(("everybody", "by-tenant", "by-principal", "by-agent"), traffic.executed)
    await ledger.check(expected | {"by-task": traffic.executed * UNIT})
    assert traffic.executed > 0
    assert kills >= 3
    await asyncio.gather(*(one.close() for one in (*dead, *programs)))
    await finance.server.stop(0)
