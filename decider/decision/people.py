"""The people of a held call: nobody where its step can never run again, else who was asked and what they say.

Guaranteed: a hold is written, and told once, before anybody waits for it; a step that is known to be spent
makes none. Known is the executed step of a guarded tool, and every reserved one at a tool without a guard,
which has no other round. Not known is a step on its way at a guarded tool: it may be voided and tried again.
"""

from decider.approval.votes import HoldState, Tally, bench_of, tally
from decider.decision.answer import link_asked
from decider.decision.envelope import Envelope
from decider.decision.parts import Parts, Track
from decider.decision.record import asked_fields
from decider.decision.verdict import Moment
from decider.in_force.in_force import InForce
from decider.notices.notice import NoticeKind, notice_of
from licet.event import EventKind
from licet.refusal import Reason, Refusal
from licet.streams import read_last, stream_spend, subject_spend
from licet.streams.subjects import RESERVE
from licet.v1.hold_pb2 import Hold


async def people_of(
    parts: Parts,
    hold: Hold,
    envelope: Envelope,
    in_force: InForce,
    moment: Moment,
    *,
    k_tool: bytes,
    track: Track,
) -> Tally | Refusal:
    """Return how the hold stands, asking people where nobody has; SPENT where the step can never run again.

    Raises `TooManyHolds`, `StreamsError`, `SpoolError`.
    """
    if moment.executed or await _is_reserved(parts, envelope, moment):
        await parts.holds.ask(hold, again=True)
        return Refusal(Reason.SPENT, "held, but the step is spent already")
    stored, new = await parts.holds.ensure(hold)
    if new:
        fields = asked_fields(hold, envelope, k_tool, moment.decision_id)
        await parts.journal.append(EventKind.APPROVAL_REQUESTED, **fields)
        parts.announcer.tell(notice_of(NoticeKind.REQUESTED, hold))
    else:
        link_asked(track, stored)
    answers = () if new else await parts.holds.answers(hold)
    found = tally(stored, answers, bench_of(in_force, moment.now_ms), hold.hold_id)
    if isinstance(found, Tally) and found.state is not HoldState.EDITED:  # the narrowed call's hold is asked
        await parts.holds.ask(found.hold, again=found.state is not HoldState.OPEN)
    return found


async def _is_reserved(parts: Parts, envelope: Envelope, moment: Moment) -> bool:
    """Tell whether a step at a tool without a guard was reserved, by whoever: the door lets no other in."""
    method, catalog = envelope.method, envelope.catalog
    if method.guarded or not method.spends:
        return False
    environment = parts.house.environment
    subject = subject_spend(environment, catalog.tool, envelope.spend_id, moment.round, RESERVE)
    return await read_last(parts.nc, stream_spend(environment), subject) is not None
