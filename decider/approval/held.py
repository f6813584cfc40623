"""A call that waits for people: whom it waits for, and the hold that they are shown. Pure."""

from typing import Final

from decider.approval.votes import HOLD_LIFE_MS
from decider.decision.envelope import Envelope
from decider.decision.verdict import Facts, Moment, Verdict, decision_of, deny
from decider.in_force.in_force import InForce
from decider.task.contract import CONTRACT_RULE, needs_approval
from licet.hold import HOLD_VERSION, MAX_HOLD_BYTES, Requirement, hold_id
from licet.refusal import MESSAGE, Reason, Refusal
from licet.tier import CallClass
from licet.v1.decision_pb2 import Decision, DecisionType
from licet.v1.hold_pb2 import Hold, HoldChange, HoldCost, HoldRequirement

CATALOG_RULE: Final = "catalog-approvers"
"""The rule id under which the catalog's own demand for approvers stands."""

DRIFT_RULE: Final = "catalog-drift"
"""The rule id under which calls wait of a method that is served otherwise than its catalog lists it."""

STANDING_RULES: Final = frozenset({CATALOG_RULE, CONTRACT_RULE, DRIFT_RULE})
"""Rule ids of what needs people whatever the rules say."""


def standing_requirements(
    envelope: Envelope, limits: tuple[Requirement, ...], lifted: tuple[Requirement, ...]
) -> tuple[Requirement, ...]:
    """Return whom catalog, contract, drift and limits demand, but for those who have approved."""
    method, contract = envelope.method, envelope.task.contract
    asked = limits
    if method.call_class is CallClass.PRIVILEGED:
        catalog = (Requirement(CATALOG_RULE, quota.role, quota.quorum) for quota in method.approvers)
        asked = (*asked, *catalog)
    if envelope.drifted:
        asked = (*asked, Requirement(DRIFT_RULE, envelope.catalog.owner_role, 1))
    if contract is not None and needs_approval(contract, method.operation):
        asked = (*asked, Requirement(CONTRACT_RULE, contract.approver, 1))
    return tuple(requirement for requirement in asked if requirement not in lifted)


def held(
    envelope: Envelope,
    facts: Facts,
    requirements: tuple[Requirement, ...],
    in_force: InForce,
    moment: Moment,
) -> Verdict:
    """Return the verdict that the call waits for the people that `requirements` name.

    A hold too large for any answer to it to count is a denial: nobody could ever lift it, and a few of them
    would be more than a list of holds has room for. Lists stand in sorted order: the same call, judged the
    same again, has to find the same hold.
    """
    rule_ids = tuple(sorted({requirement.rule_id for requirement in requirements}))
    decision = decision_of(envelope, in_force, moment, DecisionType.DECISION_TYPE_HOLD, rule_ids)
    task = envelope.task
    hold = Hold(
        version=HOLD_VERSION,
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
            HoldRequirement(rule_id=rule_id, role=role, quorum=quorum)
            for rule_id, role, quorum in sorted((one.rule_id, one.role, one.quorum) for one in requirements)
        ],
        text=envelope.summary,
        generation=in_force.generation,
        expires_at_ms=min(moment.now_ms + HOLD_LIFE_MS, task.not_after_ms),
        excluded_approvers=_interested(envelope, in_force),
        facts_json=facts.canonical,
        audience=envelope.catalog.audience,
        risk_flags=sorted(envelope.risk_flags),
        traceparent=moment.traceparent,
        costs=_costs(envelope),
        changes=[HoldChange(path=one.path, asked=one.asked, now=one.now) for one in envelope.changes],
    )
    if _shows_money(envelope):
        hold.amount_minor, hold.currency = envelope.money or (0, "")
    hold.hold_id = hold_id(hold)
    if hold.ByteSize() > MAX_HOLD_BYTES:
        reason = Reason.SPENT if moment.executed else Reason.POLICY_DENIED
        detail = f"people cannot answer a hold of {hold.ByteSize()} bytes, {MAX_HOLD_BYTES} at most"
        return unheld(envelope, Refusal(reason, detail), decision, in_force, moment)
    decision.hold_id = hold.hold_id
    decision.reason = MESSAGE[Reason.HELD]
    roles = ", ".join(f"{need.quorum} × {need.role}" for need in hold.requirements)
    return Verdict(decision, Refusal(Reason.HELD), roles, hold)


def _shows_money(envelope: Envelope) -> bool:
    """Tell whether approvers are told the amount: where there is one, of 64 bits, that is not sensitive."""
    money = envelope.method.money
    if envelope.money is None or money is None or not -(1 << 63) <= envelope.money[0] < 1 << 63:
        return False
    return not {money.amount, money.currency} & envelope.method.sensitive


def _costs(envelope: Envelope) -> list[HoldCost]:
    costs = envelope.method.costs_of(envelope.arguments) or {}
    return [
        HoldCost(name=name, amount=amount)
        for name, amount in sorted(costs.items())
        if -(1 << 63) <= amount < 1 << 63 and envelope.method.costs[name] not in envelope.method.sensitive
    ]


def _interested(envelope: Envelope, in_force: InForce) -> list[str]:
    """Return who has a hand in the call and so may not approve it.

    Whom it is for, who asks, who handed the authority down, who owns the agent, and who narrowed the call.
    """
    task = envelope.task
    owners = in_force.bundle.rules.entities.owners_of(task.agent)
    people = (task.principal, task.agent, task.caller, *envelope.delegators, *owners, *envelope.editors)
    return sorted(set(people))


def end_hold(envelope: Envelope, reason: Reason, was: Verdict, in_force: InForce, moment: Moment) -> Verdict:
    """Return the denial of a call whose hold was rejected or ran out."""
    verdict = deny(envelope, Refusal(reason), in_force, moment)
    verdict.decision.hold_id = was.decision.hold_id
    verdict.decision.rule_ids.extend(was.decision.rule_ids)
    return verdict


def unheld(envelope: Envelope, refusal: Refusal, was: Decision, in_force: InForce, moment: Moment) -> Verdict:
    """Return the denial of a call that the rules of `was` would hold and nobody is asked about."""
    verdict = deny(envelope, refusal, in_force, moment)
    verdict.decision.rule_ids.extend(was.rule_ids)
    return verdict
