"""Privileged calls: the approvers' own signatures are verified again where the effect happens."""

import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from examples.refund.fin.v1.finance_pb2 import IssueRefundResponse
from licet.guard.guard import Call, Done, Effect
from licet.guard.step import Spend
from licet.hold import HOLD_VERSION, hold_id
from licet.refusal import Reason, Refusal
from licet.statement import PayloadType, artifact_sha256, canonical
from licet.v1 import hold_pb2, keys_pb2
from licet.v1.catalog_pb2 import ApproverQuota
from licet.v1.decision_pb2 import Decision
from licet.v1.guard_pb2 import BeaconRequest
from tests.worlds.guarded_tool import GuardedTool, QuickMint, SqliteStore
from tests.worlds.mint import now_ms, refund

RULE, ROLE = "refund-needs-lead", "finance-lead"


@pytest.fixture
def privileged(tmp_path: Path) -> Iterator[GuardedTool]:
    mint = QuickMint(tmp_path)
    mint.write_catalog(IssueRefund={"tier": 5, "approvers": [ApproverQuota(role=ROLE, quorum=1)]})
    tool = GuardedTool(mint, SqliteStore(tmp_path / "ledger.db"))
    yield tool
    tool.store.ledger.close()


def held(decision: Decision) -> hold_pb2.Hold:
    """The hold that this decision was lifted from."""
    hold = hold_pb2.Hold(
        version=HOLD_VERSION,
        environment=decision.environment,
        spend_id=decision.spend_id,
        call_digest=decision.call_digest,
        tenant=decision.tenant,
        principal=decision.principal,
        agent=decision.agent,
        task_id=decision.task_id,
        method=decision.method,
        resource=decision.resource,
        requirements=[hold_pb2.HoldRequirement(rule_id=RULE, role=ROLE, quorum=1)],
        text="Refund",
        generation=decision.generation,
        expires_at_ms=now_ms() + 60_000,
        excluded_approvers=[decision.principal],
        facts_json="{}",
        audience=decision.audience,
    )
    hold.hold_id = hold_id(hold)
    return hold


def approve(tool: GuardedTool, hold: hold_pb2.Hold, **changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "version": 1,
        "environment": hold.environment,
        "hold_id": hold.hold_id,
        "hold_sha256": sha256(canonical(hold)).digest(),
        "spend_id": hold.spend_id,
        "call_digest": hold.call_digest,
        "generation": hold.generation,
        "approver": "lena",
        "role": ROLE,
        "answer": hold_pb2.APPROVAL_ANSWER_APPROVE,
        "rule_ids": [RULE],
        "authenticated_method": "webauthn",
        "authenticated_at_ms": now_ms(),
        "not_after_ms": now_ms() + 60_000,
        **changes,
    }
    approval = canonical(hold_pb2.Approval(**fields))
    signed = tool.mint.key(approver_key(tool)).sign(PayloadType.APPROVAL, approval)
    return canonical(hold_pb2.ApprovalProof(hold=canonical(hold), approval=signed))


def call(tool: GuardedTool, decision: Decision, *proofs: bytes) -> Call:
    made = tool.call_with(refund(), tool.mint.sign(decision))
    return replace(made, presented=replace(made.presented, approvals=proofs))


def decided(tool: GuardedTool, **changes: Any) -> Decision:
    decision = tool.decision(**changes)
    decision.hold_id = held(decision).hold_id
    return decision


def reason(result: object) -> Reason:
    assert isinstance(result, Refusal), result
    return result.reason


def test_a_stolen_decider_key_is_not_enough(privileged: GuardedTool) -> None:
    decision = decided(privileged)
    assert reason(privileged.refund(call(privileged, decision))) is Reason.APPROVAL_MISSING
    assert privileged.ledger_rows() == []
    done = privileged.refund(call(privileged, decision, approve(privileged, held(decision))))
    assert isinstance(done, Done)
    assert len(privileged.ledger_rows()) == 2


def test_an_approval_of_another_hold_or_that_ended_is_refused(privileged: GuardedTool) -> None:
    decision, other = decided(privileged), decided(privileged)
    stray = approve(privileged, held(other))
    assert reason(privileged.refund(call(privileged, decision, stray))) is Reason.APPROVAL_INVALID
    late = approve(privileged, held(decision), not_after_ms=now_ms() - 1)
    assert reason(privileged.refund(call(privileged, decision, late))) is Reason.APPROVAL_INVALID
    rejected = approve(privileged, held(decision), answer=hold_pb2.APPROVAL_ANSWER_REJECT)
    assert reason(privileged.refund(call(privileged, decision, rejected))) is Reason.APPROVAL_INVALID
    assert privileged.ledger_rows() == []


def test_an_approval_that_ends_while_the_change_runs_is_refused(privileged: GuardedTool) -> None:
    decision, change = decided(privileged), privileged.change(refund())
    end = now_ms() + 500

    def slow(spend: Spend) -> IssueRefundResponse:
        reply = change(spend)
        while now_ms() < end:
            time.sleep(0.01)
        return reply

    effect = Effect(slow, IssueRefundResponse, 2)
    short = approve(privileged, held(decision), not_after_ms=end)
    answer = privileged.guard.execute(call(privileged, decision, short), effect)
    assert reason(answer) is Reason.APPROVAL_INVALID
    assert (privileged.ledger_rows(), privileged.spend_rows()) == ([], [])
    lasting = approve(privileged, held(decision))
    assert isinstance(privileged.guard.execute(call(privileged, decision, lasting), effect), Done)


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (keys_pb2.REVOCATION_KIND_KEY, "lena's key", Reason.APPROVAL_INVALID),
        (keys_pb2.REVOCATION_KIND_KEY, "decider", Reason.KEY_REVOKED),
        (keys_pb2.REVOCATION_KIND_TASK, "task_789", Reason.TASK_REVOKED),
        (keys_pb2.REVOCATION_KIND_AGENT, "refund-bot", Reason.AGENT_REVOKED),
        (keys_pb2.REVOCATION_KIND_TOOL, "spiffe://licet.local/dev/tool/finance", Reason.TOOL_STOPPED),
    ],
)
def test_what_was_revoked_before_the_guards_beacon_is_refused(
    privileged: GuardedTool, kind: Any, name: str, expected: Reason
) -> None:
    """The door let it through under an older beacon; the guard's transaction sees the newer one."""
    decision = decided(privileged)
    lawful = call(privileged, decision, approve(privileged, held(decision)))
    revoked = keys_pb2.Revocation(
        kind=kind, id=approver_key(privileged) if name == "lena's key" else name, revoked_at_ms=1
    )
    take_revocation(privileged, revoked)
    assert reason(privileged.refund(lawful)) is expected
    assert privileged.ledger_rows() == []


def take_revocation(tool: GuardedTool, revoked: keys_pb2.Revocation) -> None:
    message = keys_pb2.RevocationList(version=1, revocations_seq=1, environment="dev", revocations=[revoked])
    key = tool.mint.key("decider")
    signed = key.sign(PayloadType.REVOCATIONS, canonical(message))
    named = {"revocations_seq": 1, "revocations_sha256": artifact_sha256(signed), "config_seq": 4}
    taken = tool.guard.take_beacon(BeaconRequest(beacon=tool.mint.beacon(**named), revocations=signed))
    assert not isinstance(taken, Refusal), taken


def approver_key(tool: GuardedTool) -> str:
    return next(key.key_id for key in tool.mint.keyset.keys.values() if key.owner == "lena")
