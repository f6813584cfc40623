"""How a hold stands, by the answers to it. Pure.

Guarantees: only verified answers to the hold's exact bytes count (licet.hold), nobody who asked for the call
counts, nobody counts twice, and one REJECT ends it. ESCALATE lifts nothing: whoever escalates has answered
and leaves it to others. EDIT ends it as well: earlier answers are void, and the narrowed call is another
hold. A hold is judged at the moment it is used: past its end it is expired, whoever approved.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from decider.in_force.in_force import InForce
from licet.beacon import MAX_SKEW_MS
from licet.hold import (
    MAX_HOLD_BYTES,
    Requirement,
    Vote,
    named_hold,
    open_requirements,
    read_approval,
    requirements_of,
)
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.revocation import Revocations
from licet.statement import canonical
from licet.v1.hold_pb2 import Approval, ApprovalAnswer, ApprovalProof, Hold
from licet.v1.statement_pb2 import Signed

HOLD_LIFE_MS: Final = 24 * 3_600_000
"""How long a hold waits for people, in ms."""

METHOD: Final = re.compile(r"([a-z0-9][a-z0-9._-]{0,31})?")
"""How an approver was authenticated: a word such as `key` or `webauthn`. An answer is kept as it is signed,
unsealed, so it has no room for what people write."""


UNNAMED_METHOD: Final = "how the approver was authenticated is a word, and no text"
EXCLUDED: Final = "who asked for the call may not answer it"


class HoldState(StrEnum):
    """How a hold stands; names as in licet.v1.HoldState."""

    OPEN = "OPEN"
    LIFTED = "LIFTED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    EDITED = "EDITED"
    SUPERSEDED = "SUPERSEDED"
    """Only told to people; `tally` does not know it, and no decision rests on it."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How a hold stands, what it still waits for, who approved, and the answers that prove it."""

    hold: Hold
    state: HoldState
    missing: tuple[Requirement, ...]
    approvers: tuple[str, ...]
    answers: tuple[Signed, ...]
    proofs: tuple[ApprovalProof, ...]
    """The approvals alone, as they travel with a privileged call."""
    edit: Approval | None = None
    """The answer that narrows the call; of several at once the one of the first name."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Against what answers are verified."""

    environment: str
    generation: int
    keys: KeySet
    revocations: Revocations
    now_ms: int


def bench_of(in_force: InForce, now_ms: int) -> Bench:
    """Return what answers are verified against."""
    environment, generation = in_force.config.environment, in_force.generation
    return Bench(environment, generation, in_force.keys, in_force.revocations, now_ms)


def read_hold(stored: bytes, now_ms: int) -> Hold | Refusal:
    """Return the hold that a stored record spells, or why it is none that a decider wrote.

    Its id is that of all it says but its end; that lies no further ahead than a decider sets it; an answer to
    it has room beside it.
    """
    if len(stored) > MAX_HOLD_BYTES:
        return Refusal(Reason.APPROVAL_INVALID, "the hold is larger than people can answer")
    hold = named_hold(stored)
    if isinstance(hold, Hold) and hold.expires_at_ms > now_ms + HOLD_LIFE_MS + MAX_SKEW_MS:
        return Refusal(Reason.APPROVAL_INVALID, "the hold lasts longer than a hold may")
    return hold


def read_answer(stored: bytes, signed: Signed, bench: Bench) -> Vote | Refusal:
    """Return the verified answer to exactly this hold, or why it does not count."""
    proof = ApprovalProof(hold=stored, approval=signed)
    vote = read_approval(
        canonical(proof),
        bench.keys,
        environment=bench.environment,
        now_ms=bench.now_ms,
        revocations=bench.revocations,
    )
    if isinstance(vote, Refusal):
        return vote
    if not METHOD.fullmatch(vote.approval.authenticated_method):
        return Refusal(Reason.APPROVAL_INVALID, UNNAMED_METHOD)
    if vote.hold.generation != bench.generation:
        return Refusal(Reason.APPROVAL_INVALID, "the hold is of another generation")
    if vote.approval.approver in vote.hold.excluded_approvers:
        return Refusal(Reason.APPROVAL_INVALID, EXCLUDED)
    return vote


def tally(
    stored: bytes, answers: Sequence[Signed], bench: Bench, hold_id: str | None = None
) -> Tally | Refusal:
    """Return how the hold in `stored` stands; answers that do not verify count for nothing.

    With `hold_id` it is a refusal that another one lies in that hold's place, whoever lifted it.
    """
    hold = read_hold(stored, bench.now_ms)
    if isinstance(hold, Refusal):
        return hold
    if hold_id is not None and hold.hold_id != hold_id:
        return Refusal(Reason.APPROVAL_INVALID, "another hold lies in its place")
    votes: dict[str, tuple[Vote, Signed]] = {}
    for signed in answers:
        vote = read_answer(stored, signed, bench)
        if isinstance(vote, Vote):
            votes.setdefault(vote.approval.approver, (vote, signed))
    approving = [vote for vote, _ in votes.values() if _approves(vote.approval)]
    missing = open_requirements(approving) if approving else requirements_of(hold)
    return Tally(
        hold=hold,
        state=_state(hold, [vote.approval for vote, _ in votes.values()], missing, bench.now_ms),
        missing=missing,
        approvers=tuple(sorted(vote.approval.approver for vote in approving)),
        answers=tuple(signed for _, signed in votes.values()),
        proofs=tuple(
            ApprovalProof(hold=stored, approval=signed)
            for vote, signed in votes.values()
            if _approves(vote.approval)
        ),
        edit=_edit(vote.approval for vote, _ in votes.values()),
    )


def _approves(approval: Approval) -> bool:
    return approval.answer == ApprovalAnswer.APPROVAL_ANSWER_APPROVE


def _edit(answers: Iterable[Approval]) -> Approval | None:
    edits = [one for one in answers if one.answer == ApprovalAnswer.APPROVAL_ANSWER_EDIT]
    return min(edits, key=lambda one: one.approver, default=None)


def _state(
    hold: Hold, answers: Sequence[Approval], missing: tuple[Requirement, ...], now_ms: int
) -> HoldState:
    if any(answer.answer == ApprovalAnswer.APPROVAL_ANSWER_REJECT for answer in answers):
        return HoldState.REJECTED
    if now_ms >= hold.expires_at_ms:
        return HoldState.EXPIRED
    if _edit(answers) is not None:
        return HoldState.EDITED
    return HoldState.OPEN if missing else HoldState.LIFTED
