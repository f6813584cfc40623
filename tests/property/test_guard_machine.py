"""Invariant: whatever order permits, repeats, fences, beacons and attacks come in, a step has at most one
effect.

The real guard on a real SQLite ledger, driven by Hypothesis. After every action the ledger, the spend rows
and the outbox must tell one and the same story, and it must agree with every answer that was ever given.
"""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from licet.guard.fence import Fenced, fence
from licet.guard.guard import Call
from licet.guard.ledger import State
from licet.refusal import Reason, Refusal
from tests.worlds.guarded_tool import LEDGER_ROW, GuardedTool, QuickMint, SqliteStore, ended
from tests.worlds.mint import now_ms, refund

STEPS = st.sampled_from(["step-1", "step-2", "step-3"])
ROUNDS = st.integers(0, 2)
AMOUNTS = st.sampled_from([1, 2])
LAWFUL_REFUSALS = {
    Reason.SPENT,
    Reason.SPEND_VOIDED,
    Reason.PRECONDITION_FAILED,
    Reason.BUNDLE_SUPERSEDED,
    Reason.BEACON_BEHIND,
}


class GuardMachine(RuleBasedStateMachine):
    """Two decisions on one order, three steps, three rounds each."""

    mint: QuickMint
    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="licet-machine-"))
        self.tool = GuardedTool(self.mint, SqliteStore(self.directory / "ledger.db"))
        self.config_seq = 3
        self.voided: set[tuple[str, int]] = set()
        self.executed: dict[str, bytes] = {}

    def teardown(self) -> None:
        self.tool.store.ledger.close()
        shutil.rmtree(self.directory)

    @initialize(target=calls)
    def first(self) -> Call:
        return self.tool.call(call_id="step-1")

    @rule(target=calls, step=STEPS, round_=ROUNDS, minor=AMOUNTS)
    def decide(self, step: str, round_: int, minor: int) -> Call:
        return self.tool.call(
            refund(minor=minor),
            call_id=step,
            round=round_,
            config_seq=self.config_seq,
            bundle_version=self.config_seq + 4,
        )

    @rule(call=calls)
    def deliver(self, call: Call) -> None:
        """A call arrives: for the first time, late, or again."""
        ran_before = self.tool.changes_run
        answer = self.tool.refund(call)
        if isinstance(answer, Refusal):
            assert answer.reason in LAWFUL_REFUSALS, answer
            return
        reply = answer.reply.SerializeToString(deterministic=True)
        spend_id = answer.spend_id
        if answer.stored:
            assert self.executed[spend_id] == reply
            assert self.tool.changes_run == ran_before
        else:
            assert spend_id not in self.executed
            self.executed[spend_id] = reply

    @rule(step=STEPS, round_=ROUNDS)
    def close(self, step: str, round_: int) -> None:
        """The reconciler fences a round whose permit ended."""
        reserve = self.tool.reserve(self.tool.decision(call_id=step, round=round_, **ended()))
        assert self.tool.guard.standing is not None
        found = fence(self.tool.store.ledger, self.tool.guard.standing, reserve, now_ms=now_ms())
        assert isinstance(found, Fenced), found
        spend_id = found.row.spend_id
        if found.row.state is State.EXEC:
            assert spend_id in self.executed
        else:
            assert spend_id not in self.executed
            assert found.row.round == round_
            self.voided.add((spend_id, round_))

    @rule()
    def supersede(self) -> None:
        """A new bundle: decisions of the old one must not be executed any more."""
        self.config_seq += 1
        taken = self.tool.beacon(config_seq=self.config_seq, bundle_version=self.config_seq + 4)
        assert not isinstance(taken, Refusal), taken

    @rule(step=STEPS, entry=st.integers(0, 3))
    def forge(self, step: str, entry: int) -> None:
        """A ledger row past the guard."""
        spend_id = self.tool.decision(call_id=step).spend_id
        assert self.tool.attack(LEDGER_ROW, "forged", "attacker", 1, spend_id, entry) != "accepted"

    @rule(acked=st.integers(0, 20))
    def relay(self, acked: int) -> None:
        self.tool.outbox(acked)

    @invariant()
    def one_story(self) -> None:
        spends = self.tool.spend_rows()
        executed = [spend_id for spend_id, _, state in spends if state == "EXEC"]
        assert sorted(executed) == sorted(self.executed)
        assert {(spend_id, round_) for spend_id, round_, state in spends if state == "VOID"} == self.voided
        entries = [(spend_id, entry) for spend_id, entry, _, _ in self.tool.ledger_rows()]
        assert entries == [(spend_id, entry) for spend_id in sorted(executed) for entry in (1, 2)]
        outbox = self.tool.rows(
            "SELECT outbox_seq, spend_id, entry, amount_minor FROM licet_outbox ORDER BY 1"
        )
        assert [seq for seq, _, _, _ in outbox] == list(range(1, len(outbox) + 1))
        assert sorted((spend_id, entry) for _, spend_id, entry, _ in outbox) == entries
        assert sum(minor for _, _, _, minor in outbox) == 0


@pytest.mark.timeout(300)
def test_no_order_of_events_gives_a_step_two_effects(tmp_path: Path) -> None:
    GuardMachine.mint = QuickMint(tmp_path)
    run_state_machine_as_test(
        GuardMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
