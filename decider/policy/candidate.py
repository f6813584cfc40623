"""What a candidate bundle would have decided: beside the active one, without any influence. Pure.

A candidate is asked exactly what the active rules were asked. What stopped a call beside the rules (contract,
delegation, budget, a standing demand for people) would have stopped it under the candidate as well.
"""

from dataclasses import dataclass
from typing import Final

from decider.decision.verdict import Verdict
from decider.policy.bundle import LoadedBundle
from decider.policy.cedar import RuleCall
from decider.policy.policy_tests import said
from licet.refusal import Reason

BY_RULES: Final = frozenset(
    {Reason.POLICY_DENIED, Reason.SPENT, Reason.HELD, Reason.HOLD_REJECTED, Reason.HOLD_EXPIRED}
)
"""Reasons that rules gave; any other stands whatever the rules are."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """A candidate's word on one call: `allow`, `deny`, `hold`, `modify` or `failed`, and by which rules."""

    version: int
    decision: str
    rule_ids: tuple[str, ...]


def opinion(
    candidate: LoadedBundle,
    active: LoadedBundle,
    asked: tuple[RuleCall, frozenset[str]],
    verdict: Verdict,
    decided: str,
) -> Opinion:
    """Return what the candidate would have decided; `decided` is the word for what was.

    Args:
        candidate: the bundle beside.
        active: the bundle in force.
        asked: what the rules were asked, and which holds approvals had lifted.
        verdict: what was decided.
        decided: the word for it.
    """
    word, rule_ids = said(candidate.rules.narrow(asked[0], lifted=asked[1]))
    reason = verdict.refusal.reason if verdict.refusal is not None else None
    beside = reason is not None and reason not in BY_RULES
    if word != "deny" and (beside or (word == "allow" and _stands(verdict, active))):
        return Opinion(candidate.version, decided, rule_ids)
    return Opinion(candidate.version, word, rule_ids)


def _stands(verdict: Verdict, active: LoadedBundle) -> bool:
    """Tell whether people are asked by somebody else than a rule: the catalog, the contract, a limit."""
    needs = {need.rule_id for need in verdict.hold.requirements} if verdict.hold is not None else set()
    return bool(needs - {rule.rule_id for rule in active.rules.rules})
