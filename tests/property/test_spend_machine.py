"""Two replicas, a fence and a store that loses messages, loses acks, fills up, rolls back: the real spend
client.

Safety: a step is reserved at most once in a generation; an effect has an earlier reserve record of the very
attempt; an outcome is written once. Liveness: once the faults end, every new step can be reserved.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from licet.permit import Permit
from licet.refusal import Reason, Refusal
from licet.statement import parse_signed, strict_parse
from licet.v1 import spend_pb2
from sidecar.outcome import Outcome
from sidecar.parts import Reserved
from sidecar.store.spend import SpendClient
from tests.worlds.guarded_tool import QuickMint
from tests.worlds.mint import ENVIRONMENT, TOOL, now_ms
from tests.worlds.nats import Door
from tests.worlds.store import FakeStore

T = TypeVar("T")

SIDECAR = f"spiffe://licet.local/{ENVIRONMENT}/sidecar/{TOOL}"
STEPS = 3
REPLICAS = 2
FAULTS = st.lists(st.sampled_from(["lose_message", "lose_ack", "not_sent", "full", "busy", None]), max_size=6)


class Shared:
    """Made once: a mint is costly."""

    mint: QuickMint | None = None
    directory = Path(tempfile.gettempdir())


def shared_mint() -> QuickMint:
    if Shared.mint is None:
        Shared.directory = Path(tempfile.mkdtemp(prefix="licet-mint-"))
        Shared.mint = QuickMint(Shared.directory)
    return Shared.mint


@pytest.fixture(scope="module", autouse=True)
def impatient() -> Iterator[None]:
    """The fake answers at once or never: waiting longer would show nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sidecar.store.spend.PAUSE_S", 0.0)
        patch.setattr("licet.journal.queue.ACK_TIMEOUT_S", 0.02)
        patch.setattr("licet.journal.queue.TICK_S", 0.01)
        patch.setattr("licet.journal.queue.BACKOFF_S", (0.001,))
        yield
    if Shared.mint is not None:
        shutil.rmtree(Shared.directory)
        Shared.mint = None


class Time:
    """Real time plus a jump for every question, so that a wait for the permit's end is short."""

    def __init__(self) -> None:
        self.jumped = 0

    def __call__(self) -> int:
        self.jumped += 4_000
        return now_ms() + self.jumped


class Spending(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = Path(tempfile.mkdtemp(prefix="licet-spend-"))
        self.store = FakeStore()
        self.time = Time()
        self.door = Door(shared_mint())
        self.generation = 1
        self.floor, self.unsafe = 0, False
        self.effects: dict[tuple[int, str], list[str]] = {}
        self.run_number = 0
        self.clients: list[SpendClient] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def start(self) -> None:
        self.clients = [self.run(self._open(number)) for number in range(REPLICAS)]

    async def _open(self, number: int) -> SpendClient:
        return await SpendClient.open(
            self.directory / f"{number}",
            environment=ENVIRONMENT,
            tool=TOOL,
            sidecar=SIDECAR,
            publisher=self.store,
            spend_key=self.door.mint.key(f"spend-{TOOL}"),
            beacon=lambda: self.door.held,
            now_ms=self.time,
        )

    @rule(step=st.integers(0, STEPS - 1), replica=st.integers(0, REPLICAS - 1), faults=FAULTS)
    def call(self, step: int, replica: int, faults: list[Any]) -> None:
        self.store.faults.clear()
        self.store.faults.extend(faults)
        self._take(step, [replica])

    @rule(step=st.integers(0, STEPS - 1), faults=FAULTS)
    def call_both_at_once(self, step: int, faults: list[Any]) -> None:
        self.store.faults.clear()
        self.store.faults.extend(faults)
        self._take(step, [0, 1])

    def _take(self, step: int, replicas: list[int]) -> None:
        permits = [self.door.permit(call_id=f"step-{step}") for _ in replicas]
        self.time.jumped = 0
        attempts = [f"{self.run_number * 10 + number:032x}" for number in replicas]
        self.run_number += 1

        async def all_at_once() -> list[Reserved | Refusal]:
            tries = zip(replicas, permits, attempts, strict=True)
            return await asyncio.gather(
                *(self.clients[number].reserve(permit, attempt=attempt) for number, permit, attempt in tries)
            )

        for number, permit, attempt, answer in zip(
            replicas, permits, attempts, self.run(all_at_once()), strict=True
        ):
            if isinstance(answer, Reserved):
                self._effect(permit, attempt, number)
            else:
                assert answer.reason in {
                    Reason.SPENT,
                    Reason.STORE_FULL,
                    Reason.STORE_UNAVAILABLE,
                    Reason.STORE_ROLLED_BACK,
                    Reason.STORE_UNSAFE,
                    Reason.EXPIRED,
                }

    def _effect(self, permit: Permit, attempt: str, replica: int) -> None:
        """The tool would be called now: the record must be there, and be this very attempt's."""
        self.effects.setdefault((self.generation, permit.spend_id), []).append(attempt)
        assert attempt in self._reserved_attempts()
        self.clients[replica].outcome(permit, attempt=attempt, outcome=Outcome.EXECUTED, status_code=0)

    def _reserved_attempts(self) -> set[str]:
        attempts = set()
        for record in self.store.records:
            signed = parse_signed(record.body)
            assert not isinstance(signed, Refusal)
            found = strict_parse(spend_pb2.SpendRecord, signed.payload)
            assert not isinstance(found, Refusal)
            attempts.add(found.reserve.attempt)
        return attempts

    @rule(step=st.integers(0, STEPS - 1), replica=st.integers(0, REPLICAS - 1))
    def fence(self, step: int, replica: int) -> None:
        """A fence writes VOIDED; where an outcome is there already, that one stays."""
        decision = self.door.permit(call_id=f"step-{step}").decision
        self.clients[replica].fenced(
            decision, attempt="f" * 32, outcome=spend_pb2.OUTCOME_VOIDED, answer=b"fence"
        )

    @rule(replica=st.integers(0, REPLICAS - 1))
    def restart(self, replica: int) -> None:
        """A new process on the same directory; its floor is the beacon's."""
        self.run(self.clients[replica].close(0))
        self.beacon()
        self.clients[replica] = self.run(self._open(replica))

    @rule()
    def beacon(self) -> None:
        """A decider looked: fewer messages than it knew of stay unsafe until the generation grows."""
        self.floor = max(self.floor, self.store.sequence)
        self.unsafe = self.unsafe or self.store.sequence < self.floor
        self.door.says(generation=self.generation, spend_floor=self.floor, store_safe=not self.unsafe)

    @rule(lost=st.integers(1, 5))
    def roll_back(self, lost: int) -> None:
        """The server comes back on a restored volume; connections were lost, and beacons go on."""
        self.floor = max(self.floor, self.store.sequence)
        self.store.roll_back(max(0, self.store.sequence - lost))
        self.unsafe = self.unsafe or self.store.sequence < self.floor
        self.store.reconnected_at_ms = now_ms() + 1

    @rule()
    def new_generation(self) -> None:
        """The operator's answer to a restore: what was permitted before is void."""
        self.generation += 1
        self.floor, self.unsafe = self.store.sequence, False
        self._await_reconnect()
        self.beacon()

    def _await_reconnect(self) -> None:
        while now_ms() <= self.store.reconnected_at_ms:
            time.sleep(0.001)

    @rule()
    def let_outcomes_go(self) -> None:
        self.store.faults.clear()
        self.run(asyncio.sleep(0.01))

    @invariant()
    def a_step_is_reserved_at_most_once_in_a_generation(self) -> None:
        assert all(len(attempts) == 1 for attempts in self.effects.values())

    @invariant()
    def a_subject_holds_one_record(self) -> None:
        subjects = [record.subject for record in self.store.records]
        assert len(set(subjects)) == len(subjects)

    def teardown(self) -> None:
        """Liveness: with the faults over, each replica spends a new step and gets rid of its outcomes."""
        self.store.faults.clear()
        self.time.jumped = 0
        self.new_generation()
        try:
            answers = [
                self.run(client.reserve(self.door.permit(), attempt="e" * 32)) for client in self.clients
            ]
        finally:
            drained = [self.run(client.close(5)) for client in self.clients]
            self.loop.close()
            shutil.rmtree(self.directory)
        assert all(isinstance(answer, Reserved) for answer in answers)
        assert all(drained)


TestSpending = Spending.TestCase
TestSpending.settings = settings(
    max_examples=30,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
