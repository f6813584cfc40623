"""The smallest policy with everything in it, and how to ask it."""

from typing import Any

from decider.policy.cedar import SAMPLE_CONTEXT, Evaluation, RuleCall, RuleSet

SCHEMA = """
entity Agent;
entity Resource;
entity Order = { tenant: String, refund_allowed: Bool, version: Long, note?: String };
type Call = { tenant: String, tier: Long, amount_minor: Long, currency: String };
action refund, read appliesTo { principal: Agent, resource: Order, context: Call };
action search appliesTo { principal: Agent, resource: Resource, context: Call };
"""

ALLOW = '@id("bot") permit (principal == Agent::"bot", action == Action::"refund", resource is Order);\n'
FORBID = """@id("not-allowed") forbid (principal, action == Action::"refund", resource is Order)
when { !resource.refund_allowed };\n"""
HOLD = """@id("large") @hold("finance-lead:1")
forbid (principal, action == Action::"refund", resource is Order) when { context.amount_minor > 10000 };\n"""
HOLD_2 = """@id("foreign") @hold("fx-desk:2")
forbid (principal, action == Action::"refund", resource is Order) when { context.currency != "USD" };\n"""

FACTS: dict[str, Any] = {"tenant": "t1", "refund_allowed": True, "version": 1}


def ask(
    rules: str,
    *,
    schema: str = SCHEMA,
    agent: str = "bot",
    operation: str = "refund",
    facts: dict[str, Any] | None = None,
    lifted: frozenset[str] = frozenset(),
    **context: Any,
) -> Evaluation:
    call = call_of(agent=agent, operation=operation, facts=facts, **context)
    return RuleSet(rules, schema).evaluate(call, lifted=lifted)


def call_of(
    *, agent: str = "bot", operation: str = "refund", facts: dict[str, Any] | None = None, **context: Any
) -> RuleCall:
    known = {**SAMPLE_CONTEXT, "tenant": "t1", "tier": 4, "amount_minor": 5000, "currency": "USD"} | context
    return RuleCall(agent, operation, "Order", "order:O1", FACTS if facts is None else facts, known)
