"""From envelope, facts and evaluation to a decision, as a value. Pure: no I/O, no clock, no keys.

Guarantees: ALLOW comes only from an `Allowed` evaluation of this envelope, or in stage `shadow` from a
denial or hold that the verdict records as `shadow`. A failed evaluation is no decision: it comes back as a
`Refusal`, is counted as unavailable and never as a denial. A privileged call is held until the approvers
that the catalog demands have answered, whatever the rules say. Steps as in docs/decider.md: 7 tenant, 8
rules, 9 the decision.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from decider.bundle import LoadedBundle
from decider.cedar import (
    PLAIN_RESOURCE_TYPE,
    Allowed,
    Evaluation,
    Failed,
    Forbidden,
    Held,
    RuleCall,
    Value,
)
from decider.contract import CONTRACT_RULE, needs_approval
from decider.envelope import Envelope, House, Refused
from decider.in_force import InForce
from decider.votes import Tally
from licet.catalog import Method
from licet.hold import HOLD_VERSION, Requirement, hold_id, requirements_of
from licet.refusal import MESSAGE, Reason, Refusal
from licet.tier import CallClass
from licet.v1.decision_pb2 import Decision, DecisionType, Precondition
from licet.v1.hold_pb2 import ApprovalProof, Hold, HoldRequirement
from licet.v1.statement_pb2 import Scalar

DECISION_VERSION: Final = 1

LIFE_MS: Final[Mapping[CallClass, int]] = MappingProxyType(
    {CallClass.READ: 300_000, CallClass.WRITE: 60_000, CallClass.PRIVILEGED: 60_000}
)
"""How long a permit of each class lives, in ms; a task's end cuts it short."""

HOLD_LIFE_MS: Final = 24 * 3_600_000
"""How long a hold waits for people, in ms."""

CATALOG_RULE: Final = "catalog-approvers"
"""The rule id under which the catalog's own demand for approvers stands."""

STANDING_RULES: Final = frozenset({CATALOG_RULE, CONTRACT_RULE})
"""Rule ids of what needs people whatever the rules say."""

CLASS_NAMES: Final[Mapping[CallClass, str]] = MappingProxyType(
    {CallClass.READ: "read", CallClass.WRITE: "write", CallClass.PRIVILEGED: "privileged"}
)


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """A usable decision, not yet signed. `refusal` is set exactly for DENY and HOLD."""

    decision: Decision
    refusal: Refusal | None = None
    escalate_to: str = ""
    hold: Hold | None = None
    shadow: str = ""
    """What would have been decided were the stage not shadow: `deny` or `hold`; else empty."""
    approvers: tuple[str, ...] = ()
    """Who approved the hold that this call was lifted from."""
    proofs: tuple[ApprovalProof, ...] = ()
    """Their answers, which travel with a privileged call."""


def resource_type(method: Method, resource: str) -> str:
    """Return the Cedar type of a call's resource: by its kind where there are facts, else plain.

    `order:O1` with facts is an `Order`, `credit_note:7` a `CreditNote`.
    """
    if method.facts is None:
        return PLAIN_RESOURCE_TYPE
    return type_of_kind(resource.partition(":")[0])


def type_of_kind(kind: str) -> str:
    """Return the Cedar type of a kind of resource: `credit_note` is a `CreditNote`."""
    return "".join(part.capitalize() for part in kind.split("_"))


def rule_call(envelope: Envelope, facts: Facts, house: House) -> RuleCall:
    """Return the call as rules see it; a call without money has the amount 0 and the currency ""."""
    method, task = envelope.method, envelope.task
    amount_minor, currency = envelope.money or (0, "")
    return RuleCall(
        agent=task.agent,
        operation=method.operation,
        resource_type=resource_type(method, envelope.resource),
        resource=envelope.resource or f"tool:{envelope.catalog.tool}",
        attributes=facts.attributes,
        context={
            "environment": house.environment,
            "tenant": task.tenant,
            "principal": task.principal,
            "task": task.task_id,
            "tool": envelope.catalog.tool,
            "method": method.path,
            "class": CLASS_NAMES[method.call_class],
            "tier": method.tier,
            "amount_minor": amount_minor,
            "currency": currency,
            "risk_flags": envelope.risk_flags,
        },
    )


def check_tenant(envelope: Envelope, facts: Facts) -> Refusal | None:
    """Check that the resource belongs to the task's tenant, by facts and by the arguments where they say."""
    tenant = envelope.task.tenant
    if envelope.method.facts is not None and facts.tenant != tenant:
        return Refusal(Reason.TENANT_MISMATCH, f"facts do not say `{tenant}`")
    named = envelope.method.tenant_of(envelope.arguments)
    if named is not None and named != tenant:
        return Refusal(Reason.TENANT_MISMATCH, f"the arguments do not say `{tenant}`")
    return None


def check_revocations(envelope: Envelope, in_force: InForce) -> Refusal | None:
    """Check that nothing the decision would rest on is revoked."""
    probe = Decision(
        environment=in_force.config.environment,
        audience=envelope.catalog.audience,
        task_id=envelope.task.task_id,
        agent=envelope.task.agent,
        principal=envelope.task.principal,
    )
    return in_force.revocations.check(probe, "")


def decide(
    envelope: Envelope, facts: Facts, evaluation: Evaluation, in_force: InForce, moment: Moment
) -> Verdict | Refusal:
    """Return the verdict on a call, or EVALUATION_FAILED where there is none."""
    if isinstance(evaluation, Failed):
        return Refusal(Reason.EVALUATION_FAILED, evaluation.recorded)
    verdict = _by_rules(envelope, facts, evaluation, in_force, moment)
    stopped = verdict.refusal is not None
    return (
        _shadowed(envelope, facts, verdict, in_force, moment)
        if stopped and in_force.bundle.shadow
        else verdict
    )


def _by_rules(
    envelope: Envelope,
    facts: Facts,
    evaluation: Allowed | Forbidden | Held,
    in_force: InForce,
    moment: Moment,
) -> Verdict:
    match evaluation:
        case Forbidden(rule_ids):
            decision = _decision(envelope, in_force, moment, DecisionType.DECISION_TYPE_DENY, rule_ids)
            if moment.executed:  # a retry after a lost reply: its own effect is what the rules now object to
                return _denied(decision, Refusal(Reason.SPENT), in_force.bundle)
            return _denied(decision, Refusal(Reason.POLICY_DENIED), in_force.bundle)
        case Held(requirements):
            everyone = (*requirements, *_standing_requirements(envelope, ()))
            return _held(envelope, facts, everyone, in_force, moment)
        case Allowed(rule_ids, lifted):
            missing = _standing_requirements(envelope, lifted)
            if missing:
                return _held(envelope, facts, (*lifted, *missing), in_force, moment)
            return Verdict(_allowed(envelope, facts, rule_ids, in_force, moment))


def resume(
    envelope: Envelope,
    facts: Facts,
    evaluation: Evaluation,
    people: Tally,
    *,
    in_force: InForce,
    moment: Moment,
) -> Verdict | Refusal:
    """Return the verdict on a call whose hold enough people lifted; `evaluation` is without those holds."""
    if isinstance(evaluation, Allowed):
        standing = (need for need in requirements_of(people.hold) if need.rule_id in STANDING_RULES)
        evaluation = Allowed(evaluation.rule_ids, (*evaluation.lifted, *standing))
    verdict = decide(envelope, facts, evaluation, in_force, moment)
    if isinstance(verdict, Refusal) or verdict.refusal is not None:
        return verdict
    verdict.decision.hold_id = people.hold.hold_id
    privileged = envelope.method.call_class is CallClass.PRIVILEGED
    return replace(verdict, approvers=people.approvers, proofs=people.proofs if privileged else ())


def end_hold(envelope: Envelope, reason: Reason, held: Verdict, in_force: InForce, moment: Moment) -> Verdict:
    """Return the denial of a call whose hold was rejected or ran out."""
    verdict = deny(envelope, Refusal(reason), in_force, moment)
    verdict.decision.hold_id = held.decision.hold_id
    verdict.decision.rule_ids.extend(held.decision.rule_ids)
    return verdict


def deny(refused: Refused | Envelope, refusal: Refusal, in_force: InForce, moment: Moment) -> Verdict:
    """Return the denial of a request that never came to the rules."""
    if isinstance(refused, Envelope):
        decision = _decision(refused, in_force, moment, DecisionType.DECISION_TYPE_DENY, ())
        return _denied(decision, refusal, in_force.bundle)
    decision = _frame(in_force, moment, DecisionType.DECISION_TYPE_DENY)
    asked, task, method = refused.asked, refused.task, refused.method
    decision.caller, decision.method = asked.caller, asked.method
    decision.task_id, decision.call_id = asked.task_id, asked.call_id
    if task is not None:
        decision.tenant, decision.principal, decision.agent = task.tenant, task.principal, task.agent
    if method is not None and refused.catalog is not None:
        decision.audience, decision.method_digest = refused.catalog.audience, method.digest
    return _denied(decision, refusal, in_force.bundle)


def _denied(decision: Decision, refusal: Refusal, bundle: LoadedBundle) -> Verdict:
    rule_ids = decision.rule_ids if refusal.reason is Reason.POLICY_DENIED else ()
    notes = [bundle.notes[rule_id] for rule_id in rule_ids if rule_id in bundle.notes]
    safe = next((note.safe_reason for note in notes if note.safe_reason), MESSAGE[refusal.reason])
    decision.reason = safe
    way = next((note.escalate_to for note in notes if note.escalate_to), bundle.escalate_to)
    return Verdict(decision, refusal, way)


def _frame(in_force: InForce, moment: Moment, kind: DecisionType.ValueType) -> Decision:
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


def _decision(
    envelope: Envelope,
    in_force: InForce,
    moment: Moment,
    kind: DecisionType.ValueType,
    rule_ids: tuple[str, ...],
) -> Decision:
    task, method = envelope.task, envelope.method
    decision = _frame(in_force, moment, kind)
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
            not_after_ms=min(moment.now_ms + LIFE_MS[method.call_class], task.not_after_ms),
            spends=method.spends,
        )
    )
    setattr(decision, "class", int(method.call_class))  # the field's name is a word of Python
    return decision


def _allowed(
    envelope: Envelope, facts: Facts, rule_ids: tuple[str, ...], in_force: InForce, moment: Moment
) -> Decision:
    decision = _decision(envelope, in_force, moment, DecisionType.DECISION_TYPE_ALLOW, rule_ids)
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


def _standing_requirements(envelope: Envelope, lifted: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    """Return whom catalog and contract demand, but for those who have approved."""
    method, contract = envelope.method, envelope.task.contract
    asked: tuple[Requirement, ...] = ()
    if method.call_class is CallClass.PRIVILEGED:
        asked = tuple(Requirement(CATALOG_RULE, quota.role, quota.quorum) for quota in method.approvers)
    if contract is not None and needs_approval(contract, method.operation):
        asked = (*asked, Requirement(CONTRACT_RULE, contract.approver, 1))
    return tuple(requirement for requirement in asked if requirement not in lifted)


def _held(
    envelope: Envelope,
    facts: Facts,
    requirements: tuple[Requirement, ...],
    in_force: InForce,
    moment: Moment,
) -> Verdict:
    rule_ids = tuple(sorted({requirement.rule_id for requirement in requirements}))
    decision = _decision(envelope, in_force, moment, DecisionType.DECISION_TYPE_HOLD, rule_ids)
    task = envelope.task
    facts_json = facts.canonical
    hold = Hold(
        version=HOLD_VERSION,
        hold_id=hold_id(envelope.spend_id, envelope.call_digest, requirements, facts_json),
        environment=in_force.config.environment,
        spend_id=envelope.spend_id,
        call_digest=envelope.call_digest,
        tenant=task.tenant,
        principal=task.principal,
        agent=task.agent,
        task_id=task.task_id,
        method=envelope.method.path,
        resource=envelope.resource,
        requirements=[
            HoldRequirement(rule_id=need.rule_id, role=need.role, quorum=need.quorum)
            for need in sorted(requirements, key=lambda need: (need.rule_id, need.role))
        ],
        text=envelope.summary,
        generation=in_force.generation,
        expires_at_ms=min(moment.now_ms + HOLD_LIFE_MS, task.not_after_ms),
        excluded_approvers=sorted({task.principal, task.agent, task.caller}),
        facts_json=facts_json,
        audience=envelope.catalog.audience,
        risk_flags=envelope.risk_flags,
    )
    decision.hold_id = hold.hold_id
    decision.reason = MESSAGE[Reason.HELD]
    roles = ", ".join(f"{need.quorum} × {need.role}" for need in hold.requirements)
    return Verdict(decision, Refusal(Reason.HELD), roles, hold)


def _shadowed(
    envelope: Envelope, facts: Facts, verdict: Verdict, in_force: InForce, moment: Moment
) -> Verdict:
    """Stage shadow: what the rules would have stopped goes on, and the record says so."""
    if envelope.method.call_class is CallClass.PRIVILEGED:
        return verdict  # the door demands approvals, whatever the stage
    name = "hold" if verdict.hold is not None else "deny"
    allowed = _allowed(envelope, facts, tuple(verdict.decision.rule_ids), in_force, moment)
    return Verdict(allowed, shadow=name)
