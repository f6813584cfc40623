"""From envelope, facts and evaluation to a decision, as a value. Pure: no I/O, no clock, no keys.

Guarantees: ALLOW comes only from an `Allowed` evaluation of this envelope, or in stage `shadow` from a
denial or hold that the verdict records as `shadow`. A failed evaluation is no decision: it comes back as a
`Refusal`, is counted as unavailable and never as a denial. A privileged call is held until the approvers
that the catalog demands have answered, whatever the rules say. Steps as in docs/decider.md: 7 tenant, 8
rules, 9 the decision.
"""

from dataclasses import replace

from decider.approval.held import STANDING_RULES, held, standing_requirements
from decider.approval.votes import Tally
from decider.decision.bind import bind
from decider.decision.envelope import Envelope
from decider.decision.limits import NOTHING_SEEN, Seen, Stop
from decider.decision.verdict import Facts, Moment, Verdict, allowed, decision_of, denied, deny
from decider.in_force.in_force import InForce
from decider.policy.cedar import Allowed, Evaluation, Failed, Forbidden, Held, Narrowable
from licet.hold import requirements_of
from licet.refusal import Reason, Refusal
from licet.tier import CallClass
from licet.v1.decision_pb2 import Decision, DecisionType


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
    envelope: Envelope,
    facts: Facts,
    evaluation: Evaluation,
    in_force: InForce,
    moment: Moment,
    *,
    seen: Seen = NOTHING_SEEN,
) -> Verdict | Refusal:
    """Return the verdict on a call, or EVALUATION_FAILED where there is none."""
    if isinstance(evaluation, Failed):
        return Refusal(Reason.EVALUATION_FAILED, evaluation.recorded)
    verdict = _by_rules(envelope, facts, evaluation, in_force, moment, seen=seen)
    until_ms = shadowed_until_ms(in_force, envelope, moment)
    if verdict.refusal is None or until_ms is None:
        return verdict
    name = "modify" if isinstance(evaluation, Narrowable) else "hold" if verdict.hold is not None else "deny"
    rule_ids = tuple(verdict.decision.rule_ids)
    goes_on = Verdict(allowed(envelope, facts, rule_ids, in_force, moment), shadow=name)
    _end_by(goes_on, until_ms)
    return goes_on


def shadowed_until_ms(in_force: InForce, envelope: Envelope, moment: Moment) -> int | None:
    """Return until when what the rules would stop goes on, Unix ms, by what is signed with the bundle.

    None: it is stopped. Always so for a privileged call, and for a call that writes without a waiver.
    """
    return in_force.bundle.shadowed_until_ms(envelope.method.call_class, moment.now_ms)


def _end_by(verdict: Verdict, until_ms: int) -> None:
    """No permit outlives the waiver that lets it be: the door knows permits and no stages."""
    verdict.decision.not_after_ms = min(verdict.decision.not_after_ms, until_ms)


def _by_rules(
    envelope: Envelope,
    facts: Facts,
    evaluation: Allowed | Forbidden | Held | Narrowable,
    in_force: InForce,
    moment: Moment,
    *,
    seen: Seen,
) -> Verdict:
    if isinstance(evaluation, Forbidden | Narrowable):
        decision = decision_of(
            envelope, in_force, moment, DecisionType.DECISION_TYPE_DENY, evaluation.rule_ids
        )
        # after a lost reply the step is asked for again: its own effect is what the rules now object to
        reason = Reason.SPENT if moment.executed else Reason.POLICY_DENIED
        return denied(decision, Refusal(reason), in_force.bundle)
    if seen.stop is not None:
        return _stopped(envelope, seen.stop, in_force, moment)
    if isinstance(evaluation, Held):
        everyone = (*evaluation.requirements, *standing_requirements(envelope, seen.needs, ()))
        return held(envelope, facts, everyone, in_force, moment)
    missing = standing_requirements(envelope, seen.needs, evaluation.lifted)
    if missing:
        return held(envelope, facts, (*evaluation.lifted, *missing), in_force, moment)
    decision = allowed(envelope, facts, evaluation.rule_ids, in_force, moment)
    until_ms = shadowed_until_ms(in_force, envelope, moment)
    if until_ms is not None:
        decision.not_after_ms = min(decision.not_after_ms, until_ms)
        return Verdict(decision)
    unbound = bind(decision, envelope, in_force.bundle.terms, approved=bool(evaluation.lifted))
    if unbound is not None:
        kind = DecisionType.DECISION_TYPE_DENY
        denial = decision_of(envelope, in_force, moment, kind, evaluation.rule_ids)
        return denied(denial, unbound, in_force.bundle)
    return Verdict(decision)


def kept_out(envelope: Envelope, refusal: Refusal, seen: Seen, in_force: InForce, moment: Moment) -> Verdict:
    """Return the denial of a call that the tool's facts put outside, whatever the rules would say.

    Past the loop breaker's limit it is LOOP_BROKEN, whether a resource is another tenant's or is not there:
    whoever tries ids learns no more, and the record says both. A resource that is gone by this very step's
    effect is SPENT.
    """
    if refusal.reason is Reason.RESOURCE_UNKNOWN and moment.executed:
        return deny(envelope, Refusal(Reason.SPENT, refusal.detail), in_force, moment)
    stop = seen.stop
    if stop is not None and stop.refusal.reason is Reason.LOOP_BROKEN:
        both = replace(stop.refusal, detail=f"{stop.refusal.detail}; {refusal.reason}: {refusal.detail}")
        return _stopped(envelope, replace(stop, refusal=both), in_force, moment)
    return deny(envelope, refusal, in_force, moment)


def resume(
    envelope: Envelope,
    facts: Facts,
    evaluation: Evaluation,
    people: Tally,
    *,
    in_force: InForce,
    moment: Moment,
    seen: Seen = NOTHING_SEEN,
) -> Verdict | Refusal:
    """Return the verdict on a call whose hold enough people lifted; `evaluation` is without those holds."""
    if isinstance(evaluation, Allowed):
        standing = (
            need
            for need in requirements_of(people.hold)
            if need.rule_id in STANDING_RULES or need in seen.needs
        )
        evaluation = Allowed(evaluation.rule_ids, (*evaluation.lifted, *standing))
    verdict = decide(envelope, facts, evaluation, in_force, moment, seen=seen)
    if isinstance(verdict, Refusal) or verdict.hold is not None:
        return verdict
    verdict.decision.hold_id = people.hold.hold_id
    if verdict.refusal is not None:  # people said yes, and something else says no: both are on record
        return replace(verdict, approvers=people.approvers)
    privileged = envelope.method.call_class is CallClass.PRIVILEGED
    return replace(verdict, approvers=people.approvers, proofs=people.proofs if privileged else ())


def overbooked(
    envelope: Envelope, permitted: Verdict, stop: Stop, in_force: InForce, moment: Moment
) -> Verdict:
    """Return the denial of a call that a limit stopped at the last moment; in stage shadow it goes on.

    Not so past a delegation that is used up: what somebody handed down is no rule on trial.
    """
    until_ms = shadowed_until_ms(in_force, envelope, moment)
    if until_ms is not None and stop.refusal.reason is not Reason.DELEGATION_EXCEEDED:
        _end_by(permitted, until_ms)
        return replace(permitted, shadow="deny")
    denial = _stopped(envelope, stop, in_force, moment)
    denial.decision.hold_id = permitted.decision.hold_id
    return replace(denial, approvers=permitted.approvers)


def _stopped(envelope: Envelope, stop: Stop, in_force: InForce, moment: Moment) -> Verdict:
    kind = DecisionType.DECISION_TYPE_DENY
    decision = decision_of(envelope, in_force, moment, kind, stop.rule_ids)
    return denied(decision, stop.refusal, in_force.bundle)


def narrow_verdict(
    asked: Envelope, effective: Envelope, verdict: Verdict, rule_ids: tuple[str, ...]
) -> Verdict:
    """Return the verdict on a narrowed call as the answer to the call that was asked.

    Allowed it is MODIFY, naming both digests; held it waits as narrowed; anything else stays what it is.
    """
    decision = verdict.decision
    decision.original_call_digest = asked.call_digest
    decision.rule_ids.extend(rule for rule in rule_ids if rule not in decision.rule_ids)
    if decision.decision == DecisionType.DECISION_TYPE_ALLOW:
        decision.decision = DecisionType.DECISION_TYPE_MODIFY
        decision.ClearField("ceilings")  # they would give back what was just taken away
        decision.call_digest = effective.call_digest
    elif decision.decision != DecisionType.DECISION_TYPE_HOLD:
        return verdict
    return replace(verdict, effective=effective.arguments.canonical)


def unnarrowed(
    envelope: Envelope, rule_ids: tuple[str, ...], refusal: Refusal, in_force: InForce, moment: Moment
) -> Verdict:
    """Return the denial of a call that rules would narrow and that cannot be narrowed safely."""
    return _stopped(envelope, Stop(refusal, rule_ids), in_force, moment)
