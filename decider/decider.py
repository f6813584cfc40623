"""One decision from request to answer: the numbered steps of docs/decider.md, in order, in one place.

1–5 envelope · 6 revocations and facts · 7 tenant · 8 rules · 9 the decision · 10 signed, its event stored,
answered. Nothing that permits leaves before the event's acknowledgement. Every way out is a `DecideResponse`
(a usable decision) or a `Refusal` (none could be made: UNAVAILABLE); an exception of any step is the latter.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from opentelemetry.trace import SpanKind

from decider.cedar import RuleCall
from decider.configuration import Configuration
from decider.decide import (
    Facts,
    Moment,
    Verdict,
    check_revocations,
    check_tenant,
    decide,
    deny,
    end_hold,
    resume,
    rule_call,
)
from decider.delegations import Registry, check_delegation
from decider.egress import inspect
from decider.envelope import Envelope, House, Refused, asked_of, build_envelope, check_task
from decider.facts import facts_decision, facts_request, read_answer, source_of
from decider.holds import Holds, TooManyHolds
from decider.in_force import InForce
from decider.mint import mint
from decider.quota import Quota
from decider.reader import ReadFailed, ToolReader
from decider.record import asked_fields, facts_fields, failure_event, flood_event, verdict_event
from decider.rounds import Standing, standing_of
from decider.visible import visible_methods
from decider.votes import Bench, HoldState, Tally, tally
from licet import telemetry
from licet.call import tool_key
from licet.event import EventKind
from licet.flood import FloodRecord
from licet.journal import Journal, SpoolError
from licet.log import log
from licet.refusal import MESSAGE, Reason, Refusal
from licet.statement import SigningKey, canonical
from licet.streams import Connection, StreamsError
from licet.tracing import Recording, Span
from licet.v1 import decider_pb2
from licet.v1.decider_pb2 import DecideRequest, DecideResponse, ListVisibleMethodsResponse
from licet.v1.statement_pb2 import Signed

logger = logging.getLogger(__name__)

MAX_INLINE_BYTES: Final = 16 << 10
"""Arguments up to this size are read for secrets on the event loop, larger ones in a thread, in bytes."""

MAX_CONFIGURATION_AGE_MS: Final = 5_000
"""How old the last leader read of the configuration may be for a decision; doors refuse older beacons too."""

RPC: Final = {telemetry.RPC_SYSTEM_NAME: telemetry.GRPC, telemetry.RPC_METHOD: telemetry.SPAN_DECIDE}
"""Attributes of every span of `Decide`."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time and ids come from: wall clock and monotonic clock in ms, UUIDv7 as 32 lower hex digits."""

    wall_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]
    new_id: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a decider works with."""

    house: House
    own_id: str
    key: SigningKey
    master: bytes
    configuration: Configuration
    journal: Journal
    reader: ToolReader
    nc: Connection
    holds: Holds
    quota: Quota
    clock: Clock
    delegations: Registry


class Decider:
    """Decides calls. Safe for many at once on one event loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._houses: dict[int, House] = {}
        self.flood: Final = FloodRecord(parts.journal.append, flood_event, parts.clock.monotonic_ms)

    def _house(self, generation: int) -> House:
        """Return the house with the tool keys of a generation."""
        found = self._houses.get(generation)
        if found is None:
            house, master = self._parts.house, self._parts.master
            keys: Mapping[str, bytes] = {
                audience: tool_key(master, audience, generation) for audience in house.catalogs
            }
            found = self._houses[generation] = replace(house, tool_keys=keys)
        return found

    async def decide(
        self, request: DecideRequest, peer: str, recording: Recording
    ) -> DecideResponse | Refusal:
        """Decide one request of `peer`, the SPIFFE id that the transport proved; raises nothing."""
        clock = self._parts.clock
        if not self._parts.quota.take(peer, clock.monotonic_ms()):
            return await self._over_quota(request, peer)
        now_ms = clock.wall_ms()
        moment = Moment(clock.new_id(now_ms), now_ms)
        span = recording.span(telemetry.SPAN_DECIDE, kind=SpanKind.SERVER, attributes=RPC)
        case = _Case(self._parts, request, peer, moment, trace=(recording, span))
        try:
            refusal = await case.run(self._house)
        except Exception:
            log(
                logger,
                logging.ERROR,
                "decide.fault",
                decision_id=moment.decision_id,
                trace_id=span.context.trace_id,
            )
            logger.exception("decide.fault")
            refusal = Refusal(Reason.INTERNAL, "a fault of the decider")
        if isinstance(refusal, Refusal):
            span.set(telemetry.DECISION, "failed")
            span.set(telemetry.REASON, str(refusal.reason))
            span.set(telemetry.RPC_RESPONSE_STATUS_CODE, str(refusal.status))
            span.fail(str(refusal.reason))
            recording.keep()
            await case.record_failure(refusal, self.flood)
        return refusal

    def visible(self, task_id: str, peer: str) -> ListVisibleMethodsResponse | Refusal:
        """Return the methods that a model working on one of the peer's tasks may be shown."""
        in_force, task = self._parts.configuration.current, self._parts.house.tasks.get(task_id)
        if in_force is None:
            return Refusal(Reason.BEACON_STALE, "no configuration is in force")
        if task is None or task.caller != peer:
            return Refusal(Reason.TASK_UNKNOWN)
        shown = visible_methods(self._parts.house, task, in_force.bundle.rules.rules)
        return ListVisibleMethodsResponse(methods=shown)

    async def _over_quota(self, request: DecideRequest, peer: str) -> Refusal:
        clock, refusal = self._parts.clock, Refusal(Reason.QUOTA_EXCEEDED, "the caller's quota is used up")
        asked = asked_of(request, peer, self._parts.house)
        _, fields = failure_event(asked, None, refusal, clock.new_id(clock.wall_ms()), None)
        with contextlib.suppress(SpoolError):  # refused, and counted, all the same
            await self.flood.refused(peer, refusal.reason, fields)
        return refusal


class _Case:
    """One request on its way; made for one call of `Decider.decide`."""

    def __init__(
        self,
        parts: Parts,
        request: DecideRequest,
        peer: str,
        moment: Moment,
        *,
        trace: tuple[Recording, Span],
    ) -> None:
        self.parts, self.request, self.peer = parts, request, peer
        self.moment = moment
        self.recording, self.span = trace
        self.envelope: Envelope | None = None
        self.k_tool: bytes | None = None

    async def run(self, house_of: Callable[[int], House]) -> DecideResponse | Refusal:
        latest = self.parts.configuration.latest
        if latest is None:
            return Refusal(Reason.BEACON_STALE, "no configuration is in force")
        age_ms = self.parts.clock.monotonic_ms() - latest.read_at_ms
        if age_ms > MAX_CONFIGURATION_AGE_MS:
            return Refusal(Reason.BEACON_STALE, f"the configuration was last read {age_ms} ms ago")
        in_force = latest.in_force
        house = house_of(in_force.generation)
        self.moment = replace(self.moment, traceparent=self.span.context.traceparent)
        envelope = build_envelope(self.request, self.peer, house, now_ms=self.moment.now_ms)
        if isinstance(envelope, Refused):
            return await self._answer(deny(envelope, envelope.refusal, in_force, self.moment), envelope)
        envelope = await flagged(envelope, in_force)
        self.envelope, self.k_tool = envelope, house.tool_keys[envelope.catalog.audience]
        revoked = check_revocations(envelope, in_force)
        if revoked is not None:
            return await self._answer(deny(envelope, revoked, in_force, self.moment), envelope)
        outside = check_task(envelope)
        if outside is not None:
            return await self._answer(deny(envelope, outside, in_force, self.moment), envelope)
        links = check_delegation(envelope, self.parts.delegations.links, in_force, now_ms=self.moment.now_ms)
        if isinstance(links, Refusal):
            return await self._answer(deny(envelope, links, in_force, self.moment), envelope)
        self.envelope = envelope = replace(envelope, delegations=links)
        return await self._decided(envelope, house, in_force)

    async def _decided(self, envelope: Envelope, house: House, in_force: InForce) -> DecideResponse | Refusal:
        try:
            facts, standing = await asyncio.gather(
                self._facts(envelope, in_force), self._standing(envelope, house, in_force)
            )
        except StreamsError as error:
            return Refusal(Reason.STORE_UNAVAILABLE, str(error))
        if isinstance(facts, Refusal):
            return facts
        self.moment = replace(self.moment, round=standing.round, executed=standing.executed)
        mismatch = check_tenant(envelope, facts)
        if mismatch is not None:
            return await self._answer(deny(envelope, mismatch, in_force, self.moment), envelope)
        call = rule_call(envelope, facts, house)
        with self.recording.span(telemetry.SPAN_POLICY_EVALUATE, under=self.span) as span:
            evaluation = in_force.bundle.rules.evaluate(call)
            self.moment = replace(self.moment, traceparent=span.context.traceparent)
            verdict = decide(envelope, facts, evaluation, in_force, self.moment)
            if isinstance(verdict, Verdict):
                span.set(telemetry.RULE_IDS, tuple(verdict.decision.rule_ids))
                span.set(telemetry.BUNDLE_VERSION, in_force.bundle.version)
        if isinstance(verdict, Verdict) and verdict.hold is not None:
            verdict = await self._asked(envelope, facts, call, verdict, in_force)
        return verdict if isinstance(verdict, Refusal) else await self._answer(verdict, envelope)

    async def _asked(
        self, envelope: Envelope, facts: Facts, call: RuleCall, held: Verdict, in_force: InForce
    ) -> Verdict | Refusal:
        """Look how the hold stands: nobody was asked yet, people answer, or they have answered."""
        try:
            people = await self._people(held, envelope, in_force)
        except TooManyHolds as error:
            return deny(envelope, Refusal(Reason.QUOTA_EXCEEDED, str(error)), in_force, self.moment)
        except (StreamsError, SpoolError) as error:
            return Refusal(Reason.STORE_UNAVAILABLE, str(error))
        if isinstance(people, Refusal):
            return Refusal(Reason.INTERNAL, f"the stored hold cannot be read: {people.detail}")
        if people.state is HoldState.OPEN:
            return replace(held, hold=people.hold)
        if people.state is not HoldState.LIFTED:
            rejected = people.state is HoldState.REJECTED
            reason = Reason.HOLD_REJECTED if rejected else Reason.HOLD_EXPIRED
            return end_hold(envelope, reason, held, in_force, self.moment)
        lifted = frozenset(need.rule_id for need in people.hold.requirements)
        evaluation = in_force.bundle.rules.evaluate(call, lifted=lifted)
        return resume(envelope, facts, evaluation, people, in_force=in_force, moment=self.moment)

    async def _people(self, held: Verdict, envelope: Envelope, in_force: InForce) -> Tally | Refusal:
        assert held.hold is not None
        stored, new = await self.parts.holds.ensure(held.hold)
        if new:
            fields = asked_fields(held.hold, envelope, self.k_tool or b"", self.moment.decision_id)
            await self.parts.journal.append(EventKind.APPROVAL_REQUESTED, **fields)
        answers = () if new else await self.parts.holds.answers(held.hold)
        return tally(stored, answers, bench_of(in_force, self.moment.now_ms))

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

    async def _facts(self, envelope: Envelope, in_force: InForce) -> Facts | Refusal:
        source = source_of(envelope)
        if source is None:
            return Facts()
        body = facts_request(envelope, source)
        if isinstance(body, Refusal):
            return body
        decision = facts_decision(
            envelope,
            source,
            body,
            k_tool=self.k_tool or b"",
            own_id=self.parts.own_id,
            in_force=in_force,
            outer=self.moment,
            decision_id=self.parts.clock.new_id(self.moment.now_ms),
        )
        if isinstance(decision, Refusal):
            return Refusal(Reason.FACTS_UNAVAILABLE, f"{decision.reason}: {decision.detail}")
        name = f"{telemetry.SPAN_FACTS} {source.path.removeprefix('/')}"
        with self.recording.span(name, kind=SpanKind.CLIENT, under=self.span) as span:
            permit = mint(decision, self.parts.key)
            fields = facts_fields(decision, envelope, source, self.k_tool or b"", span.context)
            try:
                await self.parts.journal.append_acked(EventKind.DECISION_ALLOWED, **fields)
                answer = await self.parts.reader.read(
                    envelope.catalog.audience, source.path, body, canonical(permit), span.context
                )
            except (StreamsError, SpoolError) as error:
                return Refusal(Reason.DECISION_NOT_RECORDED, str(error))
            except ReadFailed as error:
                span.fail(str(Reason.FACTS_UNAVAILABLE))
                return Refusal(Reason.FACTS_UNAVAILABLE, str(error))
            return read_answer(envelope, source, answer)

    async def _answer(self, verdict: Verdict, source: Envelope | Refused) -> DecideResponse | Refusal:
        signed = mint(verdict.decision, self.parts.key)
        kind, fields = verdict_event(verdict, source, self.k_tool)
        fields["trace_id"] = self.span.context.trace_id
        fields["span_id"] = self.moment.traceparent.split("-")[2]
        self._trace(verdict, source, fields)
        try:
            await self.parts.journal.append_acked(kind, **fields)
        except (StreamsError, SpoolError) as error:
            return Refusal(Reason.DECISION_NOT_RECORDED, str(error))
        return response_of(verdict, signed)

    def _trace(self, verdict: Verdict, source: Envelope | Refused, fields: Mapping[str, object]) -> None:
        decision = verdict.decision
        self.span.set(telemetry.RPC_RESPONSE_STATUS_CODE, "OK")  # of every usable decision, a denial too
        self.span.set(telemetry.DECISION, str(fields["decision"]))
        self.span.set(telemetry.DECISION_ID, decision.decision_id)
        self.span.set(telemetry.BUNDLE_VERSION, decision.bundle_version)
        if verdict.refusal is not None:
            self.span.set(telemetry.REASON, str(verdict.refusal.reason))
        if isinstance(source, Envelope):
            self.span.set(telemetry.TIER, source.method.tier)
            self.span.set(telemetry.SPEND_ID, source.spend_id)
            self.span.set(telemetry.SUMMARY, str(fields["summary"]))
            self.span.set(telemetry.OPERATION, source.method.operation)
            self.span.set(telemetry.RESOURCE, str(fields["resource"]))  # as a record may have it
        if decision.hold_id:
            self.span.set(telemetry.HOLD_ID, decision.hold_id)
        if verdict.shadow:
            self.span.set(telemetry.SHADOW_DECISION, verdict.shadow)
        if verdict.refusal is not None or decision.spends:
            self.recording.keep()

    async def record_failure(self, refusal: Refusal, flood: FloodRecord) -> None:
        """Put `decision.failed` into the spool; an answer of UNAVAILABLE must not wait for NATS."""
        asked = asked_of(self.request, self.peer, self.parts.house)
        kind, fields = failure_event(asked, self.envelope, refusal, self.moment.decision_id, self.k_tool)
        fields |= {"trace_id": self.span.context.trace_id, "span_id": self.span.context.span_id}
        try:
            if self.parts.journal.crowded:  # the rest of the spool is for decisions
                await flood.refused(self.peer, refusal.reason, fields)
            else:
                await self.parts.journal.append(kind, **fields)
        except (StreamsError, SpoolError) as error:
            log(logger, logging.ERROR, "decide.failure_not_recorded", detail=str(error)[:300])


async def flagged(envelope: Envelope, in_force: InForce) -> Envelope:
    """Return the envelope with the risk flags of its arguments; large ones are read beside the loop."""
    allowed = in_force.bundle.egress.get(envelope.method.path)
    if len(envelope.arguments.canonical) <= MAX_INLINE_BYTES:
        report = inspect(envelope.arguments, allowed=allowed)
    else:
        report = await asyncio.to_thread(inspect, envelope.arguments, allowed=allowed)
    flagged_paths = frozenset(finding.path for finding in report.findings)
    return replace(envelope, risk_flags=report.flags, flagged=flagged_paths)


def bench_of(in_force: InForce, now_ms: int) -> Bench:
    """Return what answers are verified against."""
    environment, generation = in_force.config.environment, in_force.generation
    return Bench(environment, generation, in_force.keys, in_force.revocations, now_ms)


def response_of(verdict: Verdict, signed: Signed) -> DecideResponse:
    """Return the answer to a usable decision."""
    response = DecideResponse(decision=verdict.decision.decision, signed=signed)
    response.approvals.extend(verdict.proofs)
    if verdict.hold is not None:
        response.hold.CopyFrom(verdict.hold)
    if verdict.refusal is not None:
        response.refusal.CopyFrom(
            decider_pb2.Refusal(
                reason=str(verdict.refusal.reason),
                safe_reason=verdict.decision.reason or MESSAGE[verdict.refusal.reason],
                escalate_to=verdict.escalate_to,
                decision_id=verdict.decision.decision_id,
            )
        )
    return response
