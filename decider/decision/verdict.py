"""A decision as a value, and how each is filled from the envelope. Pure: no I/O, no clock, no keys.

Guarantees: who, what, which resource, which arguments, which bundle and until when stand in every decision,
as the envelope has them; nothing comes from the request's own words.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from decider.decision.envelope import Envelope, Refused
from decider.in_force.in_force import InForce
from decider.policy.bundle import LoadedBundle
from decider.policy.cedar import Value
from licet.refusal import Reason, Refusal
from licet.tier import CallClass
from licet.v1.decision_pb2 import Decision, DecisionType, Precondition
from licet.v1.hold_pb2 import ApprovalProof, Hold
from licet.v1.statement_pb2 import Scalar

DECISION_VERSION: Final = 1

LIFE_MS: Final[Mapping[CallClass, int]] = MappingProxyType(
    {CallClass.READ: 300_000, CallClass.WRITE: 60_000, CallClass.PRIVILEGED: 60_000}
)
"""How long a permit of each class lives, in ms; the end of its task or of a link cuts it short."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the tool said of the resource just now: attributes for rules, checks for the guard."""

    attributes: Mapping[str, Value] = field(default_factory=dict)
    tenant: str = ""
    preconditions: tuple[tuple[str, str | int | bool], ...] = ()

    @property
    def canonical(self) -> str:
        """The attributes as JSON with sorted keys: what approvers are shown and a hold is named by."""
        return json.dumps(self.attributes, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Moment:
    """What one decision gets from outside: its id (UUIDv7), the time, the round, its place in the trace.

    `executed`: the step has had its effect already.
    """

    decision_id: str
    now_ms: int
    round: int = 0
    executed: bool = False
    traceparent: str = ""

    def at(self, traceparent: str) -> "Moment":
        """Return the same moment elsewhere in the trace; `dataclasses.replace` costs five times this."""
        return Moment(self.decision_id, self.now_ms, self.round, self.executed, traceparent)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A usable decision, not yet signed. `refusal` is set exactly for DENY and HOLD."""

    decision: Decision
    refusal: Refusal | None = None
    escalate_to: str = ""
    hold: Hold | None = None
    shadow: str = ""
    """What would have been decided were the stage not shadow: `deny`, `hold` or `modify`; else empty."""
    approvers: tuple[str, ...] = ()
    """Who approved the hold that this call was lifted from."""
    proofs: tuple[ApprovalProof, ...] = ()
    """Their answers, which travel with a privileged call."""
    effective: bytes = b""
    """The narrowed request that is permitted or waits; empty where it is the one that was asked."""
    changed: tuple[str, ...] = ()
    """The argument paths that rules changed."""


def deny(refused: Refused | Envelope, refusal: Refusal, in_force: InForce, moment: Moment) -> Verdict:
    """Return the denial of a request that never came to the rules."""
    if isinstance(refused, Envelope):
        rule_ids = (refusal.rule_id,) if refusal.rule_id else ()
        decision = decision_of(refused, in_force, moment, DecisionType.DECISION_TYPE_DENY, rule_ids)
        return denied(decision, refusal, in_force.bundle)
    decision = frame(in_force, moment, DecisionType.DECISION_TYPE_DENY)
    asked, task, method = refused.asked, refused.task, refused.method
    decision.caller, decision.method = asked.caller, asked.method
    decision.task_id, decision.call_id = asked.task_id, asked.call_id
    if task is not None:
        decision.tenant, decision.principal, decision.agent = task.tenant, task.principal, task.agent
    if method is not None and refused.catalog is not None:
        decision.audience, decision.method_digest = refused.catalog.audience, method.digest
    return denied(decision, refusal, in_force.bundle)


def denied(decision: Decision, refusal: Refusal, bundle: LoadedBundle) -> Verdict:
    """Return a denial with what may safely be said of it, and who can be asked."""
    rule_ids = () if refusal.reason is Reason.SPENT else decision.rule_ids
    notes = [bundle.notes[rule_id] for rule_id in rule_ids if rule_id in bundle.notes]
    safe = next((note.safe_reason for note in notes if note.safe_reason), refusal.message)
    decision.reason = safe
    way = next((note.escalate_to for note in notes if note.escalate_to), bundle.escalate_to)
    return Verdict(decision, refusal, way)


def frame(in_force: InForce, moment: Moment, kind: DecisionType.ValueType) -> Decision:
    """Return what every decision has, whatever is known of the call."""
    return Decision(
        version=DECISION_VERSION,
        decision_id=moment.decision_id,
        decision=kind,
        environment=in_force.config.environment,
        bundle_version=in_force.bundle.version,
        config_seq=in_force.config_seq,
        generation=in_force.generation,
        issued_at_ms=moment.now_ms,
        not_after_ms=moment.now_ms,
        traceparent=moment.traceparent,
    )


def decision_of(
    envelope: Envelope,
    in_force: InForce,
    moment: Moment,
    kind: DecisionType.ValueType,
    rule_ids: tuple[str, ...],
) -> Decision:
    """Return a decision of `kind` over the whole envelope."""
    task, method = envelope.task, envelope.method
    decision = frame(in_force, moment, kind)
    decision.MergeFrom(
        Decision(
            tenant=task.tenant,
            principal=task.principal,
            caller=task.caller,
            agent=task.agent,
            task_id=task.task_id,
            call_id=envelope.asked.call_id,
            spend_id=envelope.spend_id,
            round=moment.round,
            delegations=envelope.delegations,
            audience=envelope.catalog.audience,
            method=method.path,
            method_digest=method.digest,
            resource=envelope.resource,
            call_digest=envelope.call_digest,
            rule_ids=rule_ids,
            not_after_ms=min(
                moment.now_ms + LIFE_MS[method.call_class],
                task.not_after_ms,
                *(link.not_after_ms for link in envelope.links),
            ),
            spends=method.spends,
        )
    )
    setattr(decision, "class", int(method.call_class))  # the field's name is a word of Python
    return decision


def allowed(
    envelope: Envelope, facts: Facts, rule_ids: tuple[str, ...], in_force: InForce, moment: Moment
) -> Decision:
    """Return the decision that lets the call through, with what the tool checks once more."""
    decision = decision_of(envelope, in_force, moment, DecisionType.DECISION_TYPE_ALLOW, rule_ids)
    for check, value in facts.preconditions:
        decision.preconditions.append(Precondition(check=check, expect=scalar_of(value)))
    return decision


def scalar_of(value: str | int | bool) -> Scalar:
    """Return a value as the guard compares it. Raises OverflowError for an integer of more than 64 bits."""
    if isinstance(value, bool):
        return Scalar(flag=value)
    if isinstance(value, str):
        return Scalar(text=value)
    if -(1 << 63) <= value < 1 << 63:
        return Scalar(integer=value)
    if 0 <= value < 1 << 64:
        return Scalar(unsigned=value)
    raise OverflowError("an integer of more than 64 bits")
