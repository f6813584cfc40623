"""What a call must pass before rules are asked, as one question before the facts and one after. Pure.

Revocations, the task's contract, the owner's rules, delegations; then the tenant and what facts must know.
"""

from dataclasses import replace

from decider.decision.decide import check_revocations, check_tenant
from decider.decision.envelope import Envelope, check_task
from decider.decision.owner_rules import check_owner_rules, check_visibility
from decider.decision.verdict import Facts
from decider.delegation.delegations import SignedChain, check_delegation
from decider.in_force.in_force import InForce
from licet.refusal import Refusal


def admit(envelope: Envelope, links: SignedChain, in_force: InForce, *, now_ms: int) -> Envelope | Refusal:
    """Return the envelope with the delegations that it rests on, or why it is outside."""
    for outside in (
        check_revocations(envelope, in_force),
        check_task(envelope),
        check_owner_rules(envelope),
    ):
        if outside is not None:
            return outside
    found = check_delegation(envelope, links, in_force, now_ms=now_ms)
    if isinstance(found, Refusal):
        return found
    if found is None:
        return envelope
    return replace(envelope, links=tuple(link.delegation for link in found.links))


def admit_facts(envelope: Envelope, facts: Facts) -> Refusal | None:
    """Return why the facts put the call outside, or None."""
    refusal = check_tenant(envelope, facts)
    return check_visibility(envelope, facts) if refusal is None else refusal
