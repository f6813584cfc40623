"""One decision from request to answer: the numbered steps of docs/decider.md, in order, in one place.

1–5 envelope · 6 revocations, contract, delegations, facts, what limits see · 7 tenant · 8 rules · 9 the
decision: people where it waits for them, limits where it would be permitted · 10 signed, its event stored,
answered. Nothing that permits leaves before the event's acknowledgement; what was booked for a permit that
does not leave is given back.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from decider.approval.held import end_hold, unheld
from decider.approval.holds import TooManyHolds
from decider.approval.votes import HoldState
from decider.decision.admit import admit, admit_facts
from decider.decision.answer import response_of, trace_verdict
from decider.decision.decide import (
    decide,
    kept_out,
    narrow_verdict,
    overbooked,
    resume,
    shadowed_until_ms,
    unnarrowed,
)
from decider.decision.decision_input import recorded_input
from decider.decision.envelope import Envelope, House, Refused, asked_of, build_envelope, payer_of
from decider.decision.facts_reader import read_facts
from decider.decision.flags import flagged
from decider.decision.limits import NOTHING_SEEN, Bookings, Outdated, Seen, Stop, Wish
from decider.decision.mint import PERMITTING, mint
from decider.decision.modify import Edited, changes_by, narrowed
from decider.decision.parts import Parts, Track
from decider.decision.people import people_of
from decider.decision.record import KINDS, MANY_DENIALS, failure_event, verdict_event
from decider.decision.rounds import Standing, standing_of
from decider.decision.verdict import Facts, Moment, Verdict, deny
from decider.in_force.in_force import InForce
from decider.policy.candidate import Opinion, opinion
from decider.policy.cedar import Narrowable, RuleCall
from decider.policy.rule_call import rule_call
from decider.quota import FACTS_COST
from decider.relations.relation import related
from decider.tokens.token import User
from licet import telemetry
from licet.call import left_out_mark
from licet.flood import FloodRecord
from licet.journal import Sealing, SpoolError
from licet.log import log
from licet.refusal import Reason, Refusal
from licet.streams import StreamsError
from licet.v1.decider_pb2 import DecideRequest, DecideResponse
from licet.v1.decision_pb2 import DECISION_TYPE_DENY

logger = logging.getLogger(__name__)

MAX_INLINE_BYTES: Final = 16 << 10
"""Arguments up to this size are read on the event loop, larger ones in a thread, in bytes."""

MAX_NARROWINGS: Final = 5
"""How often one call is narrowed, by rules once and by people, before it is denied."""

MAX_AGAIN: Final = 20
"""How often a call is decided while other calls of its task change what its rules rest on."""

MAX_CONFIGURATION_AGE_MS: Final = 5_000
"""How old the last leader read of the configuration may be for a decision; doors refuse older beacons too."""


class Case:
    """One request on its way; made for one call of `Decider.decide`."""

    def __init__(
        self,
        parts: Parts,
        request: DecideRequest,
        peer: str,
        moment: Moment,
        *,
        track: Track,
        flood: FloodRecord,
    ) -> None:
        self.parts, self.request, self.peer = parts, request, peer
        self.payer = payer_of(request, peer, parts.house)
        self.moment = moment.at(track.span.context.traceparent)
        self.track, self.flood = track, flood
        self.envelope: Envelope | None = None
        self.k_tool = b""
        self.seen: Seen = NOTHING_SEEN
        self.asked_rules: tuple[RuleCall, frozenset[str]] | None = None

    async def run(self, house_of: Callable[[int], House]) -> DecideResponse | Refusal:
        """Go through every step. Raises what a fault of ours raises; nothing has left then."""
        in_force = self._in_force()
        if isinstance(in_force, Refusal):
            return in_force
        now_ms, known = self.moment.now_ms, house_of(in_force.generation)
        try:
            house = await self.parts.tasks.house_with(known, self.request.task_id, in_force.keys, now_ms)
        except StreamsError as error:
            return Refusal(Reason.STORE_UNAVAILABLE, str(error))
        user = await self.parts.users.verify(self.request.user_token, now_ms=self.moment.now_ms)
        if isinstance(user, Refusal) and user.reason is Reason.TOKEN_KEYS_UNAVAILABLE:
            return user
        envelope = await self._enveloped(house, in_force, user)
        if isinstance(envelope, Refused):
            return await self._answer(deny(envelope, envelope.refusal, in_force, self.moment), envelope)
        for _ in range(MAX_AGAIN):
            answer = await self._decided(envelope, house, in_force)
            if not isinstance(answer, Outdated):
                return answer
        return Refusal(Reason.STORE_UNAVAILABLE, f"other calls of the task came between {MAX_AGAIN} times")

    async def _decided(
        self, envelope: Envelope, house: House, in_force: InForce
    ) -> DecideResponse | Refusal | Outdated:
        self.envelope, self.asked_rules = envelope, None
        verdict = await self._judged(envelope, house, in_force)
        if isinstance(verdict, Narrowable | Edited):
            verdict = await self._narrowed(envelope, verdict, house, in_force)
        if isinstance(verdict, Refusal):
            return verdict
        return await self._permitted(verdict, self.envelope, in_force)

    async def _narrowed(
        self, asked: Envelope, why: Narrowable | Edited, house: House, in_force: InForce
    ) -> Verdict | Refusal:
        """Decide the narrowed call in full: rules narrow it once, people as often as they edit."""
        effective, changed, rule_ids = asked, set[str](), tuple[str, ...]()
        for _ in range(MAX_NARROWINGS):
            changes, by = changes_by(why, in_force, asked)
            rule_ids = tuple(dict.fromkeys((*rule_ids, *by)))
            narrower = narrowed(effective, changes, house)
            if isinstance(narrower, Refusal):
                return unnarrowed(asked, rule_ids, narrower, in_force, self.moment)
            if isinstance(why, Edited):
                narrower = replace(narrower, editors=(*effective.editors, why.editor))
            changed.update(change.path for change in changes)
            self.envelope = effective = await flagged(narrower, in_force, self.parts, self.payer)
            verdict = await self._judged(effective, house, in_force, modify=False)
            if isinstance(verdict, Refusal):
                return verdict
            if isinstance(verdict, Verdict):
                answer = narrow_verdict(asked, effective, verdict, rule_ids)
                return replace(answer, changed=tuple(sorted(changed)))
            why = verdict
        often = Refusal(Reason.POLICY_DENIED, f"the call was narrowed {MAX_NARROWINGS} times")
        return unnarrowed(asked, rule_ids, often, in_force, self.moment)

    def _in_force(self) -> InForce | Refusal:
        latest = self.parts.configuration.latest
        if latest is None:
            return Refusal(Reason.BEACON_STALE, "no configuration is in force")
        age_ms = self.parts.clock.monotonic_ms() - latest.read_at_ms
        if age_ms > MAX_CONFIGURATION_AGE_MS:
            return Refusal(Reason.BEACON_STALE, f"the configuration was last read {age_ms} ms ago")
        return latest.in_force

    async def _enveloped(
        self, house: House, in_force: InForce, user: User | Refusal | None
    ) -> Envelope | Refused:
        envelope = build_envelope(self.request, self.peer, house, now_ms=self.moment.now_ms, user=user)
        if envelope.catalog is not None:
            self.k_tool = house.tool_keys[envelope.catalog.audience]
        if isinstance(envelope, Refused):
            return envelope
        return await flagged(envelope, in_force, self.parts, self.payer)

    async def _judged(
        self, envelope: Envelope, house: House, in_force: InForce, *, modify: bool = True
    ) -> Verdict | Narrowable | Edited | Refusal:
        """6 to 9: what stands, what the tool and limits say, what the rules say, what people answered."""
        try:
            links = await self.parts.delegations.chain(envelope.task.delegation)
        except StreamsError as error:
            return Refusal(Reason.STORE_UNAVAILABLE, str(error))
        admitted = admit(envelope, links, in_force, now_ms=self.moment.now_ms)
        if isinstance(admitted, Refusal):
            return deny(envelope, admitted, in_force, self.moment)
        self.envelope = envelope = admitted
        try:
            facts, standing = await self._present(envelope, house, in_force)
            if isinstance(facts, Refusal) and facts.reason is not Reason.RESOURCE_UNKNOWN:
                return facts
            if standing != Standing(self.moment.round, self.moment.executed):
                self.moment = replace(self.moment, round=standing.round, executed=standing.executed)
            self.seen = seen = await self.parts.limits.look(self._wish(envelope, in_force))
            if isinstance(facts, Refusal):
                return kept_out(envelope, facts, seen, in_force, self.moment)
            relations = await related(self.parts.relations, envelope, in_force)
            if isinstance(relations, Refusal):
                return relations
        except StreamsError as error:
            return Refusal(Reason.STORE_UNAVAILABLE, str(error))
        mismatch = admit_facts(envelope, facts)
        if mismatch is not None:
            return kept_out(envelope, mismatch, seen, in_force, self.moment)
        call = rule_call(envelope, facts, house, {**seen.context, **relations})
        self.asked_rules = self.asked_rules or (call, frozenset())  # of a narrowed call, what was asked first
        verdict = self._ruled(envelope, facts, call, in_force, seen=seen, modify=modify)
        if isinstance(verdict, Refusal | Narrowable) or verdict.hold is None:
            return verdict
        return await self._answered(envelope, facts, call, verdict, in_force=in_force, seen=seen)

    async def _present(
        self, envelope: Envelope, house: House, in_force: InForce
    ) -> tuple[Facts | Refusal, Standing]:
        """Ask the tool and the store at once; without facts only the store, and no task is made for it."""
        standing = self._standing(envelope, house, in_force)
        if envelope.method.facts is None:
            return Facts(), await standing
        self.parts.quota.owe(self.payer, FACTS_COST)
        reading = read_facts(
            self.parts, envelope, in_force, self.moment, k_tool=self.k_tool, track=self.track
        )
        return await asyncio.gather(reading, standing)

    def _wish(self, envelope: Envelope, in_force: InForce) -> Wish:
        return Wish(envelope, in_force, self.moment.now_ms, self.moment.round, self.seen)

    def _ruled(
        self,
        envelope: Envelope,
        facts: Facts,
        call: RuleCall,
        in_force: InForce,
        *,
        seen: Seen,
        modify: bool,
    ) -> Verdict | Narrowable | Refusal:
        with self.track.recording.span(telemetry.SPAN_POLICY_EVALUATE, under=self.track.span) as span:
            evaluation = in_force.bundle.rules.narrow(call, modify=modify)
            self.moment = self.moment.at(span.context.traceparent)
            stopped = shadowed_until_ms(in_force, envelope, self.moment) is None
            if isinstance(evaluation, Narrowable) and stopped:
                span.set(telemetry.RULE_IDS, evaluation.rule_ids)
                return evaluation
            verdict = decide(envelope, facts, evaluation, in_force, self.moment, seen=seen)
            if isinstance(verdict, Verdict):
                span.set(telemetry.RULE_IDS, tuple(verdict.decision.rule_ids))
                span.set(telemetry.BUNDLE_VERSION, in_force.bundle.version)
        return verdict

    async def _answered(
        self,
        envelope: Envelope,
        facts: Facts,
        call: RuleCall,
        held: Verdict,
        *,
        in_force: InForce,
        seen: Seen,
    ) -> Verdict | Edited | Refusal:
        """Look how the hold stands: nobody was asked yet, people answer, or they have answered."""
        assert held.hold is not None
        try:
            people = await people_of(
                self.parts, held.hold, envelope, in_force, self.moment, k_tool=self.k_tool, track=self.track
            )
        except TooManyHolds as error:
            return deny(envelope, Refusal(Reason.QUOTA_EXCEEDED, str(error)), in_force, self.moment)
        except (StreamsError, SpoolError) as error:
            return Refusal(Reason.STORE_UNAVAILABLE, str(error))
        if isinstance(people, Refusal) and people.reason is Reason.SPENT:
            return unheld(envelope, people, held.decision, in_force, self.moment)
        if isinstance(people, Refusal):
            return Refusal(Reason.INTERNAL, f"the stored hold cannot be read: {people.detail}")
        if people.state is HoldState.OPEN:
            return replace(held, hold=people.hold)
        if people.edit is not None and people.state is HoldState.EDITED:
            return Edited(people.edit.approver, tuple(people.edit.changes))
        if people.state is not HoldState.LIFTED:
            rejected = people.state is HoldState.REJECTED
            reason = Reason.HOLD_REJECTED if rejected else Reason.HOLD_EXPIRED
            return end_hold(envelope, reason, held, in_force, self.moment)
        lifted = frozenset(need.rule_id for need in people.hold.requirements)
        self.asked_rules = self.asked_rules[0] if self.asked_rules else call, lifted
        evaluation = in_force.bundle.rules.evaluate(call, lifted=lifted)
        return resume(envelope, facts, evaluation, people, in_force=in_force, moment=self.moment, seen=seen)

    async def _standing(self, envelope: Envelope, house: House, in_force: InForce) -> Standing:
        if not (envelope.method.guarded and envelope.method.spends):
            return Standing()
        return await standing_of(
            self.parts.nc,
            in_force.keys,
            environment=house.environment,
            tool=envelope.catalog.tool,
            audience=envelope.catalog.audience,
            spend_id=envelope.spend_id,
            now_ms=self.moment.now_ms,
        )

    async def _permitted(
        self, verdict: Verdict, envelope: Envelope, in_force: InForce
    ) -> DecideResponse | Refusal | Outdated:
        """Answer; a verdict that permits is booked with every limit first, or does not leave."""
        if verdict.decision.decision not in PERMITTING:
            self.parts.limits.denied(self._wish(envelope, in_force))
            return await self._answer(verdict, envelope)
        asked = self._wish(envelope, in_force)
        for wish in (asked, replace(asked, links_only=True)):
            try:
                booked = await self.parts.limits.book(wish, verdict.decision)
            except StreamsError as error:
                return Refusal(Reason.STORE_UNAVAILABLE, str(error))
            if isinstance(booked, Outdated):
                return booked
            if not isinstance(booked, Stop):
                return await self._answer_booked(verdict, envelope, booked)
            verdict = overbooked(envelope, verdict, booked, in_force, self.moment)
            if verdict.refusal is not None:
                break  # else it goes on, in stage shadow, and is booked where no rule is on trial
        return await self._answer(verdict, envelope)

    async def _answer_booked(
        self, verdict: Verdict, envelope: Envelope, booked: Bookings
    ) -> DecideResponse | Refusal:
        try:
            answer = await self._answer(verdict, envelope)
        except BaseException:
            await booked.release()
            raise
        if isinstance(answer, Refusal):
            await booked.release()
        return answer

    async def _answer(self, verdict: Verdict, source: Envelope | Refused) -> DecideResponse | Refusal:
        """10: sign, store the event, and only then answer."""
        denied = verdict.decision.decision == DECISION_TYPE_DENY
        if denied and not self.flood.alone(verdict.decision.caller):
            return Refusal(Reason.QUOTA_EXCEEDED, MANY_DENIALS)
        signed = mint(verdict.decision, self.parts.key)
        kind, fields = verdict_event(verdict, source, self.k_tool, self._beside(verdict))
        fields["trace_id"] = self.track.span.context.trace_id
        fields["span_id"] = self.moment.traceparent.split("-")[2]
        trace_verdict(self.track, verdict, source, fields)
        try:
            sealing = await self._sealing(verdict, source, fields)
            await self.parts.journal.append_acked(kind, sealing=sealing, **fields)
        except (StreamsError, SpoolError) as error:
            return Refusal(Reason.DECISION_NOT_RECORDED, str(error))
        return response_of(verdict, signed)

    def _beside(self, verdict: Verdict) -> Opinion | None:
        """Ask the candidate, where there is one and rules were asked; whatever it says, nothing changes."""
        latest = self.parts.configuration.latest
        if latest is None or latest.in_force.candidate is None or self.asked_rules is None:
            return None
        decided = KINDS[verdict.decision.decision][1]
        bundle, candidate = latest.in_force.bundle, latest.in_force.candidate
        return opinion(candidate, bundle, self.asked_rules, verdict, decided)

    async def _sealing(
        self, outcome: Verdict | Refusal, source: Envelope | Refused, fields: dict[str, Any]
    ) -> Sealing | None:
        """Return what seals the decision's input; the event says which arguments nobody read."""
        body = self.request.request
        if fields.get("reason") == Reason.TOO_LARGE:
            mark = await asyncio.to_thread(left_out_mark, body, self.k_tool)
            fields["detail"] = f"{fields['detail']} {mark}"
        latest, task = self.parts.configuration.latest, source.task
        if latest is None or task is None:
            return None
        now = latest.in_force
        key = self.parts.sealer.key_of(task.tenant, now.keys, now.revocations, now_ms=self.moment.now_ms)
        if key is None:
            return None
        known = (self.request, source, self.asked_rules, outcome, self.moment)
        large = len(body) > MAX_INLINE_BYTES
        message = await asyncio.to_thread(recorded_input, *known) if large else recorded_input(*known)
        return self.parts.sealer.sealing(message, key, crowded=self.parts.journal.crowded)

    async def record_failure(self, refusal: Refusal) -> None:
        """Put `decision.failed` into the spool; an answer of UNAVAILABLE must not wait for NATS."""
        asked = asked_of(self.request, self.peer, self.parts.house)
        kind, fields = failure_event(asked, self.envelope, refusal, self.moment.decision_id, self.k_tool)
        fields |= {"trace_id": self.track.span.context.trace_id, "span_id": self.track.span.context.span_id}
        try:
            many = refusal.detail == MANY_DENIALS or not self.flood.alone(self.peer)
            if many or self.parts.journal.crowded:  # the rest of the spool is for decisions
                await self.flood.refused(self.peer, refusal.reason, fields)
            else:
                sealing = await self._sealing(refusal, self.envelope, fields) if self.envelope else None
                await self.parts.journal.append(kind, sealing=sealing, **fields)
        except (StreamsError, SpoolError) as error:
            log(logger, logging.ERROR, "decide.failure_not_recorded", detail=str(error)[:300])
