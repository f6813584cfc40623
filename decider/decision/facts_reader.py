"""Reads the facts of a call from its tool, under a permit of the decider's own."""

from opentelemetry.trace import SpanKind

from decider.decision.envelope import Envelope
from decider.decision.facts import facts_decision, facts_request, read_answer, source_of
from decider.decision.mint import mint
from decider.decision.parts import Parts, Track
from decider.decision.reader import NOT_FOUND, ReadFailed
from decider.decision.record import facts_fields
from decider.decision.verdict import Facts, Moment
from decider.in_force.in_force import InForce
from licet import telemetry
from licet.event import EventKind
from licet.journal import SpoolError
from licet.refusal import Reason, Refusal
from licet.statement import canonical
from licet.streams import StreamsError
from licet.tracing import OK, rpc


async def read_facts(
    parts: Parts, envelope: Envelope, in_force: InForce, outer: Moment, *, k_tool: bytes, track: Track
) -> Facts | Refusal:
    """Return what the tool says of the call's resource now.

    RESOURCE_UNKNOWN where it says, as NOT_FOUND, that there is none; any other read that cannot be had is a
    refusal of no decision, FACTS_UNAVAILABLE or DECISION_NOT_RECORDED.
    """
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
        k_tool=k_tool,
        own_id=parts.own_id,
        in_force=in_force,
        outer=outer,
        decision_id=parts.clock.new_id(outer.now_ms),
    )
    if isinstance(decision, Refusal):
        return Refusal(Reason.FACTS_UNAVAILABLE, f"{decision.reason}: {decision.detail}")
    name = f"{telemetry.SPAN_FACTS} {source.path.removeprefix('/')}"
    asked = rpc(source.path, parts.reader.address(envelope.catalog.audience))
    with track.recording.span(name, kind=SpanKind.CLIENT, under=track.span, attributes=asked) as span:
        permit = mint(decision, parts.key)
        fields = facts_fields(decision, envelope, source, k_tool, span.context)
        try:
            await parts.journal.append_acked(EventKind.DECISION_ALLOWED, **fields)
            answer = await parts.reader.read(
                envelope.catalog.audience, source.path, body, canonical(permit), span.context
            )
        except (StreamsError, SpoolError) as error:
            return Refusal(Reason.DECISION_NOT_RECORDED, str(error))
        except ReadFailed as error:
            span.set(telemetry.RPC_RESPONSE_STATUS_CODE, error.status)
            reason = Reason.RESOURCE_UNKNOWN if error.status == NOT_FOUND else Reason.FACTS_UNAVAILABLE
            span.fail(str(reason))
            return Refusal(reason, str(error))
        span.answered(OK)
        return read_answer(envelope, source, answer)
