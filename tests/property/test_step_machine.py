"""Invariant: whatever the store loses, sidecars forget and the network delays, a step has at most one effect.

The real spend client of two sidecars on a store that fails on demand (it passes the real store's contract
tests), and the real guard on a real ledger behind it. Where the store kept what it acked, the records also
tell the truth: an effect has an earlier reserve of its very attempt, EXECUTED has a row, and a round that is
void or without effect has none.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from licet.guard.fence import Fenced, fence
from licet.guard.guard import Call, Done
from licet.guard.ledger import State
from licet.permit import Permit, Presented, examine
from licet.v1 import spend_pb2
from licet.v1.statement_pb2 import Signed
from sidecar.outcome import Outcome
from sidecar.parts import Reserved
from sidecar.store.spend import SpendClient
from tests.worlds.guarded_tool import GuardedTool, QuickMint, SqliteStore, ended
from tests.worlds.mint import AGENT, ENVIRONMENT, REFUND, TOOL, now_ms, refund
from tests.worlds.store import FakeStore

T = TypeVar("T")

SIDECAR = f"spiffe://licet.local/{ENVIRONMENT}/sidecar/{TOOL}"
STEPS = st.sampled_from(["step-1", "step-2"])
REPLICAS = st.integers(0, 1)
FAULTS = st.lists(st.sampled_from(["lose_message", "lose_ack", "not_sent", "busy", None]), max_size=4)
NO_EFFECT = {spend_pb2.OUTCOME_VOIDED, spend_pb2.OUTCOME_FAILED_NO_EFFECT}


@dataclass(frozen=True)
class Sent:
    """A call on its way to the tool."""

    call: Call
    permit: Permit
    replica: int


class Time:
    """Real time plus a jump for every question, so that a wait for the permit's end is short."""

    def __init__(self) -> None:
        self.jumped = 0

    def __call__(self) -> int:
        self.jumped += 4_000
        return now_ms() + self.jumped


class StepMachine(RuleBasedStateMachine):
    mint: QuickMint

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = Path(tempfile.mkdtemp(prefix="licet-step-"))
        self.tool = GuardedTool(self.mint, SqliteStore(self.directory / "ledger.db"))
        self.store = FakeStore()
        self.clients: list[SpendClient] = []
        self.in_flight: list[Sent] = []
        self.tries = 0
        self.ever_reserved: set[str] = set()
        self.store_lost = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def start(self) -> None:
        self.clients = [self.run(self._open(number)) for number in (0, 1)]

    async def _open(self, number: int) -> SpendClient:
        standing = self.tool.guard.standing
        assert standing is not None
        return await SpendClient.open(
            self.directory / f"{number}",
            environment=ENVIRONMENT,
            tool=TOOL,
            sidecar=SIDECAR,
            publisher=self.store,
            spend_key=self.mint.key(f"spend-{TOOL}"),
            beacon=lambda: standing.beacon,
            now_ms=Time(),
        )

    @rule(step=STEPS, replica=REPLICAS, faults=FAULTS)
    def call(self, step: str, replica: int, faults: list[Any]) -> None:
        """A new permit for the step, as after a lost reply or a restored checkpoint; reserved, then
        forwarded.
        """
        raw = self.mint.sign(self.tool.decision(call_id=step, round=self._next_round(step)))
        call = self.tool.call_with(refund(), raw, attempt=self._attempt())
        permit = self._examined(raw)
        self.store.faults.clear()
        self.store.faults.extend(faults)
        answer = self.run(self.clients[replica].reserve(permit, attempt=call.attempt))
        self.ever_reserved |= {
            found.reserve.attempt for found in self._records() if found.HasField("reserve")
        }
        if isinstance(answer, Reserved):
            assert call.attempt in self.ever_reserved
            self.in_flight.append(Sent(call, permit, replica))

    @rule(data=st.data(), dies=st.booleans())
    def deliver(self, data: st.DataObject, dies: bool) -> None:
        """A forwarded call arrives, maybe late; its sidecar may be dead before it can record the outcome."""
        if self.in_flight:
            self.arrive(data.draw(st.integers(0, len(self.in_flight) - 1)), dies=dies)

    def arrive(self, index: int, *, dies: bool = False) -> None:
        sent = self.in_flight.pop(index)
        answer = self.tool.refund(sent.call)
        if dies:
            return
        if isinstance(answer, Done):
            outcome = Outcome.EXECUTED
        elif self.tool.guard.executed(sent.call):
            return  # not known: a fence will tell
        else:
            outcome = Outcome.FAILED_NO_EFFECT
        self.clients[sent.replica].outcome(
            sent.permit, attempt=sent.call.attempt, outcome=outcome, status_code=0
        )

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """A forwarded call never arrives."""
        if self.in_flight:
            self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))

    @rule(step=STEPS, replica=REPLICAS)
    def close(self, step: str, replica: int) -> None:
        """The reconciler fences the newest round of a step that has a reserve and no outcome."""
        round_ = self._next_round(step)
        decision = self.tool.decision(call_id=step, round=round_, **ended())
        standing = self.tool.guard.standing
        assert standing is not None
        reserve = self.tool.reserve(decision)
        found = fence(self.tool.store.ledger, standing, reserve, now_ms=now_ms())
        assert isinstance(found, Fenced), found
        executed = found.row.state is State.EXEC
        outcome = spend_pb2.OUTCOME_EXECUTED if executed else spend_pb2.OUTCOME_VOIDED
        self.clients[replica].fenced(decision, attempt="f" * 32, outcome=outcome, answer=b"")

    @rule(replica=REPLICAS)
    def restart(self, replica: int) -> None:
        self.run(self.clients[replica].close(0))
        self.clients[replica] = self.run(self._open(replica))

    @rule(lost=st.integers(1, 4))
    def store_forgets(self, lost: int) -> None:
        """A restored volume: acked records are gone, and no beacon has said so yet."""
        self.store.roll_back(max(0, self.store.sequence - lost))
        self.store_lost = True

    @rule()
    def let_outcomes_go(self) -> None:
        self.store.faults.clear()
        self.run(asyncio.sleep(0.01))

    @invariant()
    def a_step_has_at_most_one_effect(self) -> None:
        executed = [row[0] for row in self.tool.spend_rows() if row[2] == "EXEC"]
        assert len(set(executed)) == len(executed)
        entries = [(row[0], row[1]) for row in self.tool.ledger_rows()]
        assert entries == [(spend_id, entry) for spend_id in sorted(executed) for entry in (1, 2)]

    @invariant()
    def an_effect_has_an_earlier_reserve(self) -> None:
        attempts = {row[0] for row in self.tool.rows("SELECT attempt FROM licet_spend WHERE state = 'EXEC'")}
        assert attempts <= self.ever_reserved

    @invariant()
    def records_tell_the_truth_while_the_store_keeps_them(self) -> None:
        if self.store_lost:
            return
        executed = {(row[0], row[1]) for row in self.tool.spend_rows() if row[2] == "EXEC"}
        steps = {spend_id for spend_id, _ in executed}
        for record in self._records():
            said = record.outcome
            if said.outcome == spend_pb2.OUTCOME_EXECUTED:
                assert said.spend_id in steps
            elif said.outcome in NO_EFFECT:
                assert (said.spend_id, said.round) not in executed

    def teardown(self) -> None:
        self.store.faults.clear()
        for client in self.clients:
            self.run(client.close(5))
        self.loop.close()
        self.tool.store.ledger.close()
        shutil.rmtree(self.directory)

    def _next_round(self, step: str) -> int:
        """What a decider mints: the round after the last that provably had no effect."""
        spend_id = self.tool.decision(call_id=step).spend_id
        over = {
            record.outcome.round
            for record in self._records()
            if record.outcome.spend_id == spend_id and record.outcome.outcome in NO_EFFECT
        }
        return next(number for number in range(100) if number not in over)

    def _examined(self, raw: bytes) -> Permit:
        standing = self.tool.guard.standing
        assert standing is not None
        shown = Presented(REFUND, (raw,), (), refund().SerializeToString(deterministic=True), AGENT)
        received = standing.beacon.received_at_ms
        permit = examine(shown, standing.door, now_ms=now_ms(), monotonic_ms=received)
        assert isinstance(permit, Permit), permit
        return permit

    def _records(self) -> list[spend_pb2.SpendRecord]:
        signed = (Signed.FromString(record.body) for record in self.store.records)
        return [spend_pb2.SpendRecord.FromString(one.payload) for one in signed]

    def _attempt(self) -> str:
        self.tries += 1
        return f"{self.tries:032x}"


class Unguarded(StepMachine):
    """The same, but the tool does what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.effects: dict[str, int] = {}

    def arrive(self, index: int, *, dies: bool = False) -> None:
        spend_id = self.in_flight.pop(index).permit.spend_id
        self.effects[spend_id] = self.effects.get(spend_id, 0) + 1

    def a_step_has_at_most_one_effect(self) -> None:
        assert all(count <= 1 for count in self.effects.values()), "a second effect"


@pytest.mark.timeout(300)
def test_no_loss_delay_or_restart_gives_a_step_two_effects(tmp_path: Path) -> None:
    StepMachine.mint = QuickMint(tmp_path)
    run_state_machine_as_test(
        StepMachine,
        settings=settings(
            max_examples=20,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize(("machine", "stands"), [(StepMachine, True), (Unguarded, False)])
def test_what_a_store_that_forgets_lets_through_only_the_guard_stops(
    tmp_path: Path, machine: type[StepMachine], stands: bool
) -> None:
    """The machine must find it without the guard, or it proves nothing of the guard."""
    machine.mint = QuickMint(tmp_path)
    played = machine()
    played.start()
    for replica in (0, 1):
        played.call("step-1", replica, [])
        played.store_forgets(1)
    assert len(played.in_flight) == 2
    for _ in range(2):
        played.arrive(0)
    try:
        played.a_step_has_at_most_one_effect()
    except AssertionError:
        assert not stands
    else:
        assert stands
    played.teardown()
