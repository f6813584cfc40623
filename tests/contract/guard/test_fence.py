"""The fence, on both databases: after it, everybody knows for good whether a round was executed."""

import threading
import time

import pytest

from licet.guard.fence import Fenced, fence
from licet.guard.guard import Done
from licet.guard.ledger import SpendRow, State
from licet.refusal import Reason, Refusal
from licet.spend import outcome_payload
from licet.statement import PayloadType
from licet.v1 import spend_pb2
from licet.v1.decision_pb2 import Decision
from licet.v1.statement_pb2 import Signed
from tests.worlds.guarded_tool import GuardedTool, ended
from tests.worlds.mint import now_ms, refund


def close(tool: GuardedTool, reserve: Signed) -> SpendRow | Reason:
    assert tool.guard.standing is not None
    found = fence(tool.store.ledger, tool.guard.standing, reserve, now_ms=now_ms())
    return found.row if isinstance(found, Fenced) else found.reason


def outcome(result: object) -> Reason | bool:
    if isinstance(result, Refusal):
        return result.reason
    assert isinstance(result, Done)
    return result.stored


def voided(tool: GuardedTool, call_id: str, round: int = 0) -> Decision:
    """A decision whose round was reserved, never forwarded, and fenced."""
    lost = tool.decision(call_id=call_id, round=round, **ended())
    row = close(tool, tool.reserve(lost))
    assert isinstance(row, SpendRow)
    assert row.state is State.VOID
    return lost


@pytest.mark.negative(28)
def test_a_delayed_request_of_a_voided_round_is_aborted_and_the_next_round_runs(tool: GuardedTool) -> None:
    """The sidecar was killed between reserve and forward; the fence closed the round; then the request
    arrived.
    """
    voided(tool, "step-28")
    late = tool.call(call_id="step-28")  # even with a permit that has not ended
    assert outcome(tool.refund(late)) is Reason.SPEND_VOIDED
    assert (tool.changes_run, tool.ledger_rows(), tool.outbox()) == (0, [], ())
    # its twin: the next round of the same step
    assert outcome(tool.refund(tool.call(call_id="step-28", round=1))) is False
    assert len(tool.ledger_rows()) == 2


def test_a_fence_before_the_permits_end_by_the_databases_clock_has_to_wait(tool: GuardedTool) -> None:
    early = tool.decision(**ended(ago_ms=4_800))
    assert close(tool, tool.reserve(early)) is Reason.NOT_YET_VALID
    assert tool.spend_rows() == []
    time.sleep(0.3)
    row = close(tool, tool.reserve(early))
    assert isinstance(row, SpendRow)
    assert row.state is State.VOID


def test_an_executed_round_is_answered_with_its_proof(tool: GuardedTool) -> None:
    decision = tool.decision(call_id="step", issued_at_ms=now_ms() - 59_000, not_after_ms=now_ms() + 300)
    request = refund()
    assert outcome(tool.refund(tool.call_with(request, tool.mint.sign(decision)))) is False
    decision.issued_at_ms, decision.not_after_ms = now_ms() - 60_000, now_ms() - 6_000
    row = close(tool, tool.reserve(decision))
    assert isinstance(row, SpendRow)
    assert (row.state, row.round, row.attempt) == (State.EXEC, 0, "a" * 32)
    assert row.call_digest == decision.call_digest
    assert tool.spend_rows() == [(decision.spend_id, 0, "EXEC")]


def test_an_execution_in_another_round_is_the_answer_for_every_round(tool: GuardedTool) -> None:
    voided(tool, "step")
    assert outcome(tool.refund(tool.call(call_id="step", round=1))) is False
    for round_ in (0, 1, 2):
        row = close(tool, tool.reserve(tool.decision(call_id="step", round=round_, **ended())))
        assert isinstance(row, SpendRow)
        assert (row.state, row.round) == (State.EXEC, 1)
    assert [row[1:] for row in tool.spend_rows()] == [(0, "VOID"), (1, "EXEC")]


def test_fencing_again_gives_the_same_answer(tool: GuardedTool) -> None:
    lost = voided(tool, "step")
    first, second = close(tool, tool.reserve(lost)), close(tool, tool.reserve(lost))
    assert first == second
    assert len(tool.spend_rows()) == 1


def test_voiding_a_round_leaves_the_other_rounds_open(tool: GuardedTool) -> None:
    voided(tool, "step", round=0)
    voided(tool, "step", round=1)
    assert outcome(tool.refund(tool.call(call_id="step", round=1))) is Reason.SPEND_VOIDED
    assert outcome(tool.refund(tool.call(call_id="step", round=2))) is False


def test_a_record_that_is_no_reserve_of_this_tools_sidecar_closes_nothing(tool: GuardedTool) -> None:
    lost = tool.decision(**ended())
    lawful = tool.reserve(lost)
    other = tool.decision(audience="spiffe://licet.local/dev/tool/other", **ended())
    broken = Signed(payload=lawful.payload, signature=bytes(64), key_id=lawful.key_id)
    permit = Signed.FromString(tool.mint.sign(lost))
    assert close(tool, broken) is Reason.SIGNATURE_INVALID
    assert close(tool, permit) is Reason.KEY_ROLE
    assert close(tool, tool.reserve(other)) is Reason.AUDIENCE_MISMATCH
    assert close(tool, tool.reserve(lost, key="spend-other")) is Reason.AUDIENCE_MISMATCH
    assert close(tool, tool.reserve(lost, slot=PayloadType.DECISION)) is Reason.SIGNATURE_INVALID
    assert close(tool, outcome_record(tool, lost)) is Reason.PERMIT_MALFORMED
    assert tool.spend_rows() == []
    assert isinstance(close(tool, lawful), SpendRow)


def outcome_record(tool: GuardedTool, decision: Decision) -> Signed:
    payload = outcome_payload(
        environment="dev",
        spend_id=decision.spend_id,
        round=0,
        attempt="a" * 32,
        outcome=spend_pb2.OUTCOME_FAILED_NO_EFFECT,
        sidecar="spiffe://licet.local/dev/sidecar/finance",
        recorded_at_ms=now_ms(),
        status_code=0,
        decision_id=decision.decision_id,
    )
    return tool.mint.key("spend-finance").sign(PayloadType.SPEND, payload)


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("commits", [True, False])
def test_a_fence_waits_for_an_open_execution_of_its_round(tool: GuardedTool, commits: bool) -> None:
    lost = tool.decision(call_id="step", **ended())
    connection = tool.store.connect()
    connection.execute("BEGIN")
    connection.execute(
        "INSERT INTO licet_spend VALUES (%s, 0, 'EXEC', 0, %s, 'other', 'd', 'permit', 1)",
        (lost.spend_id, b"d" * 32),
    )
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(close(tool, tool.reserve(lost))))
    waiting.start()
    time.sleep(0.4)
    assert waiting.is_alive()
    connection.execute("COMMIT" if commits else "ROLLBACK")
    waiting.join(60)
    connection.close()
    [row] = answers
    assert isinstance(row, SpendRow)
    assert (row.state, row.attempt) == ((State.EXEC, "other") if commits else (State.VOID, ""))
