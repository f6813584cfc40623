"""Answers and their events: one is stored first, and told as `approval.voted` before its reply.

A marker beside the answer, written once, says that it was told. Guarantee: an answer that a decider stored
and did not live to tell is told by the next look of any decider, `UNTOLD_MS` later at the earliest. Two that
look in the same moment may both tell it, as may one that stopped for that long in between (events are at
least once). One that nobody could have stored lawfully is told by nobody.
"""

import logging
from typing import Any, Final

from decider.approval.holds import Answered, Holds
from decider.approval.votes import HoldState, Tally, bench_of, read_answer, read_hold, tally
from decider.decision.record import hold_fields
from decider.in_force.in_force import InForce
from decider.notices.announcer import Announcer
from decider.notices.notice import NoticeKind, notice_of
from licet.event import EventKind
from licet.hold import Vote
from licet.journal import Journal
from licet.log import log
from licet.refusal import Refusal
from licet.v1.hold_pb2 import ApprovalAnswer

logger = logging.getLogger(__name__)

UNTOLD_MS: Final = 60_000
"""How old a stored answer is before somebody else than who stored it tells it, in ms."""


class Teller:
    """Tells answers once each."""

    def __init__(self, holds: Holds, journal: Journal, announcer: Announcer) -> None:
        self._holds, self._journal, self._announcer = holds, journal, announcer
        self._left: set[str] = set()

    async def tell(self, vote: Vote, after: Tally | Refusal) -> None:
        """Tell a stored answer, and how its hold stands after it. Raises `StreamsError`, `SpoolError`."""
        lifts = isinstance(after, Tally) and after.state is HoldState.LIFTED
        await self._journal.append_acked(EventKind.APPROVAL_VOTED, **vote_fields(vote, lifts=lifts))
        await self._holds.mark_told(vote.hold, vote.approval.approver)
        self._announcer.tell(notice_of(NoticeKind.VOTED, vote.hold))

    async def look(self, in_force: InForce, now_ms: int) -> None:
        """Tell what was stored and not told. Raises `StreamsError`, `SpoolError`."""
        for one in await self._holds.untold(now_ms - UNTOLD_MS, leave=frozenset(self._left)):
            vote = self._vote(one, in_force)
            if vote is None:
                self._left.add(one.subject)
                log(logger, logging.WARNING, "holds.answer_not_told", subject=one.subject)
                continue
            answers = await self._holds.answers(vote.hold)
            await self.tell(vote, tally(one.record, answers, bench_of(in_force, now_ms)))

    def _vote(self, one: Answered, in_force: InForce) -> Vote | None:
        """Return the vote as it was when it was stored; None where it was none."""
        bench = bench_of(in_force, one.stored_ms)
        hold = read_hold(one.record, one.stored_ms)
        vote = hold if isinstance(hold, Refusal) else read_answer(one.record, one.signed, bench)
        return vote if isinstance(vote, Vote) and self._is_there(vote, one.subject) else None

    def _is_there(self, vote: Vote, subject: str) -> bool:
        return self._holds.is_place_of(vote.hold, vote.approval.approver, subject)


def vote_fields(vote: Vote, *, lifts: bool) -> dict[str, Any]:
    """Return the event fields of an answer; `lifts` says that its hold waits for nobody any more."""
    answer = ApprovalAnswer.Name(vote.approval.answer).removeprefix("APPROVAL_ANSWER_").lower()
    return hold_fields(vote.hold) | {
        "approvals": (vote.approval.approver,),
        "rule_ids": tuple(vote.approval.rule_ids),
        "detail": f"{answer} as {vote.approval.role}{', which lifts it' if lifts else ''}",
    }
