"""Holds and approvals: a call that waits for people, and one person's signed answer to exactly that call.

A hold is named by all it says (`hold_id`): one that says anything else is another hold.

Guarantees of `check_approvals`: every approval was signed by a registered approver in a role that this
person has, for these very bytes of the hold and this very step, arguments, environment and generation; no
person counts twice; nobody approves their own request; what the hold's rules and the catalog demand is met.
It does not say that the approver read the text.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Literal

from licet.dsse import PayloadType
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.revocation import NONE, RevocationKind, Revocations
from licet.statement import verify
from licet.strict import canonical, strict_parse
from licet.v1 import hold_pb2
from licet.v1.decision_pb2 import Decision
from licet.v1.hold_pb2 import ApprovalAnswer, ApprovalProof

HOLD_VERSION = 2
"""Version of the message Hold, as deciders write it."""

HOLD_VERSION_1 = 1
"""Version whose id left out what the hold says to people: doors read it, deciders do not."""

APPROVAL_VERSION = 1
"""Version of the message Approval."""

MAX_APPROVALS = 4
"""Approvals that travel with one permit."""

MAX_APPROVAL_BYTES = 4_096
"""Size of one serialised ApprovalProof."""

MAX_HOLD_BYTES = MAX_APPROVAL_BYTES - 512
"""Size of a hold that an answer of ordinary length can be carried with."""

ANSWERS = frozenset(ApprovalAnswer.values()) - {ApprovalAnswer.APPROVAL_ANSWER_UNSPECIFIED}
"""What an approver can answer."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one rule waits for: `quorum` distinct people of `role`."""

    rule_id: str
    role: str
    quorum: int


@dataclass(frozen=True, slots=True)
class Quota:
    """What the catalog demands for a privileged method, whatever a decision says."""

    role: str
    quorum: int


UNNAMED: tuple[Literal["hold_id", "expires_at_ms", "traceparent"], ...] = (
    "hold_id",
    "expires_at_ms",
    "traceparent",
)
"""Fields that a hold is not named by: its id, and what differs when the same decision is asked again."""


def hold_id(hold: hold_pb2.Hold) -> str:
    """Return the id of what this hold says, whatever stands in its field `hold_id`: 32 lower hex digits.

    The first 16 bytes of the SHA-256 of `licet-hold-v2`, a zero byte, and the hold's one encoding without the
    fields `UNNAMED`. Every other field changes it, those that a later version adds too.
    """
    named = hold_pb2.Hold()
    named.CopyFrom(hold)
    for name in UNNAMED:
        named.ClearField(name)
    return sha256(b"licet-hold-v2\0" + canonical(named)).digest()[:16].hex()


def hold_id_1(spend_id: str, call_digest: bytes, requirements: Iterable[Requirement], facts_json: str) -> str:
    """Return the id of a hold of version 1: of the step, its arguments, who must answer, and the facts.

    The first 16 bytes of the SHA-256 of `licet-hold-v1`, a zero byte, and these parts, texts and bytes with
    their length before them (u32, big-endian): the spend id, the call digest, the number of requirements
    (u32), rule, role and quorum (u32) of each in sorted order, and the SHA-256 of the facts shown.
    """
    demands = sorted((need.rule_id, need.role, need.quorum) for need in requirements)
    digest = sha256(b"licet-hold-v1\0")
    digest.update(_prefixed(spend_id.encode()) + _prefixed(call_digest) + _u32(len(demands)))
    for rule, role, quorum in demands:
        digest.update(_prefixed(rule.encode()) + _prefixed(role.encode()) + _u32(quorum))
    digest.update(sha256(facts_json.encode()).digest())
    return digest.digest()[:16].hex()


def named_hold(stored: bytes) -> hold_pb2.Hold | Refusal:
    """Return the hold that a record spells, of `HOLD_VERSION` and named by all it says, or why it is none."""
    hold = strict_parse(hold_pb2.Hold, stored)
    if isinstance(hold, Refusal):
        return hold
    if hold.version != HOLD_VERSION:
        return _invalid(f"a hold of version {hold.version}: make the call again, which asks people anew")
    return hold if hold.hold_id == hold_id(hold) else _misnamed()


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _prefixed(part: bytes) -> bytes:
    return _u32(len(part)) + part


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's answer to one exact hold, as `read_approval` verified it."""

    hold: hold_pb2.Hold
    approval: hold_pb2.Approval
    key_id: str


def read_approval(
    proof: bytes, keys: KeySet, *, environment: str, now_ms: int, revocations: Revocations = NONE
) -> Vote | Refusal:
    """Return the vote in a serialised ApprovalProof, or why it is none.

    The key is an approver's, not revoked, and its owner is who the approval names, in a role that owner
    has; the approval is for the hold's exact bytes and agrees with them in every field that both have; it
    has not ended.
    """
    if len(proof) > MAX_APPROVAL_BYTES:
        return Refusal(Reason.TOO_LARGE, f"an approval of {len(proof)} bytes")
    message = strict_parse(ApprovalProof, proof)
    if isinstance(message, Refusal):
        return message
    payload = verify(PayloadType.APPROVAL, message.approval, keys, now_ms=now_ms)
    if isinstance(payload, Refusal):
        return payload
    if revocations.names(RevocationKind.KEY, message.approval.key_id):
        return _invalid(f"approver key `{message.approval.key_id}` is revoked")
    approval = strict_parse(hold_pb2.Approval, payload)
    if isinstance(approval, Refusal):
        return approval
    hold = strict_parse(hold_pb2.Hold, message.hold)
    if isinstance(hold, Refusal):
        return hold
    vote = Vote(hold, approval, message.approval.key_id)
    refusal = _check_vote(vote, message.hold, keys, environment, now_ms)
    return vote if refusal is None else refusal


_SHARED = ("environment", "hold_id", "spend_id", "call_digest", "generation")
"""Fields in which an approval must agree with its hold."""

_DECIDED = (*_SHARED, "tenant", "principal", "agent", "task_id", "method", "resource", "audience")
"""Fields in which a hold must agree with the decision it was lifted for."""


def _check_vote(vote: Vote, hold_bytes: bytes, keys: KeySet, environment: str, now_ms: int) -> Refusal | None:
    hold, approval, key = vote.hold, vote.approval, keys.keys[vote.key_id]
    if hold.version not in {HOLD_VERSION_1, HOLD_VERSION} or approval.version != APPROVAL_VERSION:
        return _invalid(f"version {hold.version} of a hold, {approval.version} of an approval")
    if not compare_digest(approval.hold_sha256, sha256(hold_bytes).digest()):
        return _invalid("the approval is for another hold")
    for name in _SHARED:
        if getattr(approval, name) != getattr(hold, name):
            return _invalid(f"hold and approval disagree about {name}")
    if approval.environment != environment:
        return _invalid(f"the approval is for environment `{approval.environment}`")
    if approval.approver != key.owner or approval.role not in key.approver_roles:
        return _invalid(f"key `{key.key_id}` is not `{approval.approver}`'s as {approval.role}")
    if approval.answer not in ANSWERS:
        return _invalid(f"the answer {approval.answer} is none")
    if bool(approval.changes) is not (approval.answer == ApprovalAnswer.APPROVAL_ANSWER_EDIT):
        return _invalid("changes belong to an edit, and to nothing else")
    if now_ms >= approval.not_after_ms:
        return _invalid(f"the approval of `{approval.approver}` has ended")
    return _check_requirements(hold, approval)


def _check_requirements(hold: hold_pb2.Hold, approval: hold_pb2.Approval) -> Refusal | None:
    needs = requirements_of(hold)
    if any(need.quorum < 1 for need in needs):
        return _invalid("a rule of the hold waits for nobody")
    of_1 = hold.version == HOLD_VERSION_1  # only a decider from before names one: its permits still hold
    named = hold_id_1(hold.spend_id, hold.call_digest, needs, hold.facts_json) if of_1 else hold_id(hold)
    if hold.hold_id != named:
        return _misnamed()
    theirs = {need.rule_id for need in needs if need.role == approval.role}
    if approval.answer == ApprovalAnswer.APPROVAL_ANSWER_EDIT and not theirs:
        return _invalid(f"nothing of the hold waits for {approval.role}, who may not change it")
    if not theirs.issuperset(approval.rule_ids):
        return _invalid(f"the approval speaks of rules that do not wait for {approval.role}")
    return None


def requirements_of(hold: hold_pb2.Hold) -> tuple[Requirement, ...]:
    """Return what the hold waits for."""
    return tuple(Requirement(need.rule_id, need.role, need.quorum) for need in hold.requirements)


def open_requirements(votes: Sequence[Vote]) -> tuple[Requirement, ...]:
    """Return what the hold that all `votes` are for still waits for; empty when it is lifted.

    A person counts once for a rule, and only where they approved that very rule in the role it waits for.
    Answers other than APPROVE count for nothing here; whether one ends the hold is the caller's matter.
    Raises ValueError without votes or when they are for different holds.
    """
    holds = {vote.approval.hold_sha256 for vote in votes}
    if len(holds) != 1:
        raise ValueError("votes for exactly one hold are needed")
    return tuple(need for need in requirements_of(votes[0].hold) if _people(votes, need) < need.quorum)


def _people(votes: Sequence[Vote], need: Requirement) -> int:
    return len(
        {
            vote.approval.approver
            for vote in votes
            if vote.approval.answer == ApprovalAnswer.APPROVAL_ANSWER_APPROVE
            and vote.approval.role == need.role
            and need.rule_id in vote.approval.rule_ids
        }
    )


def check_approvals(
    proofs: Sequence[bytes],
    decision: Decision,
    quotas: Sequence[Quota],
    keys: KeySet,
    *,
    now_ms: int,
    revocations: Revocations = NONE,
) -> tuple[str, ...] | Refusal:
    """Return who approved this decision, sorted, or APPROVAL_MISSING, APPROVAL_INVALID, TOO_LARGE.

    One invalid approval refuses all: it was sent for a purpose. Distinct people are asked for over all roles,
    so nobody approves a call twice, wearing two hats.
    """
    if not proofs:
        return Refusal(Reason.APPROVAL_MISSING, "no approval came with a privileged call")
    if len(proofs) > MAX_APPROVALS:
        return Refusal(Reason.TOO_LARGE, f"{len(proofs)} approvals")
    votes = []
    for proof in proofs:
        vote = read_approval(
            proof, keys, environment=decision.environment, now_ms=now_ms, revocations=revocations
        )
        if isinstance(vote, Refusal):
            return vote if vote.reason is Reason.TOO_LARGE else _invalid(f"{vote.reason}: {vote.detail}")
        misfit = _check_decided(vote, decision)
        if misfit is not None:
            return misfit
        votes.append(vote)
    return _check_enough(votes, quotas)


def _check_decided(vote: Vote, decision: Decision) -> Refusal | None:
    for name in _DECIDED:
        if getattr(vote.hold, name) != getattr(decision, name):
            return _invalid(f"hold and decision disagree about {name}")
    if decision.issued_at_ms >= vote.hold.expires_at_ms:
        return _invalid("the hold had ended when the decision was made")
    if vote.approval.answer != ApprovalAnswer.APPROVAL_ANSWER_APPROVE:
        return _invalid(f"`{vote.approval.approver}` did not approve")
    interested = {*vote.hold.excluded_approvers, decision.principal, decision.caller, decision.agent}
    if vote.approval.approver in interested:
        return _invalid(f"`{vote.approval.approver}` may not approve this call")
    return None


def _check_enough(votes: Sequence[Vote], quotas: Sequence[Quota]) -> tuple[str, ...] | Refusal:
    people = {vote.approval.approver for vote in votes}
    if len(people) != len(votes):
        return _invalid("one person approved twice")
    if len({vote.approval.hold_sha256 for vote in votes}) != 1:
        return _invalid("approvals for more than one hold")
    roles = Counter(vote.approval.role for vote in votes)
    for quota in quotas:
        if roles[quota.role] < quota.quorum:
            return Refusal(
                Reason.APPROVAL_MISSING, f"{roles[quota.role]} of {quota.quorum} approvals as {quota.role}"
            )
    missing = open_requirements(votes)
    if missing:
        return Refusal(
            Reason.APPROVAL_MISSING, f"rule `{missing[0].rule_id}` still waits for {missing[0].role}"
        )
    return tuple(sorted(people))


def _misnamed() -> Refusal:
    return _invalid("the hold's id is not that of its contents")


def _invalid(detail: str) -> Refusal:
    return Refusal(Reason.APPROVAL_INVALID, detail)
