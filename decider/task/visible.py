"""Which methods a model may be shown: those that some rule could allow to this agent.

Hiding is a convenience and no boundary (docs/decider.md). A method is hidden when no allowing rule can match
the agent and the operation whatever the facts, or when a forbid without any condition always does.
Conditions are not looked into: where they decide, the method is shown and a call is decided like any other.
Pure.
"""

from collections.abc import Iterator

from cedarpy import pst

from decider.decision.envelope import House
from decider.policy.cedar import PRINCIPAL_TYPE
from decider.policy.rules import Rule
from decider.task.tasks import Task
from licet.v1.decider_pb2 import VisibleMethod


def may_match(rule: Rule, agent: str, operation: str) -> bool:
    """Tell whether the scope of a rule can match an agent and an operation."""
    return _principal(rule.node.principal, agent) and _action(rule.node.action, operation)


def _principal(scope: pst.PrincipalOrResourceConstraint, agent: str) -> bool:
    match scope:
        case pst.ScopeEq(entity=pst.EntityUid() as named):
            return named.id == agent and str(named.type) == PRINCIPAL_TYPE
        case pst.ScopeIs(entity_type=kind):
            return str(kind) == PRINCIPAL_TYPE
        case _:
            return True


def _action(scope: pst.ActionConstraint, operation: str) -> bool:
    match scope:
        case pst.ActionEq(entity=named):
            return named.id == operation
        case pst.ActionIn(entities=entities):
            # an entity may be a group of actions, so only a list of several is read as a list of actions
            return len(entities) < 2 or operation in {entity.id for entity in entities}
        case _:
            return True


def is_visible(rules: tuple[Rule, ...], agent: str, operation: str) -> bool:
    """Tell whether some rule could allow the operation to the agent."""
    matching = [rule for rule in rules if may_match(rule, agent, operation)]
    stopped = any(
        rule.forbids
        and rule.requirement is None
        and not rule.modifies
        and not rule.node.clauses
        and isinstance(rule.node.resource, pst.ScopeAny)
        and isinstance(rule.node.principal, pst.ScopeAny | pst.ScopeEq)
        for rule in matching
    )
    return not stopped and any(not rule.forbids for rule in matching)


def visible_methods(house: House, task: Task, rules: tuple[Rule, ...]) -> Iterator[VisibleMethod]:
    """Yield the methods that a task's agent may be shown, by tool and path."""
    for audience, catalog in sorted(house.catalogs.items()):
        for path, versions in sorted(catalog.methods.items()):
            method = versions.current
            if not method.client_streaming and is_visible(rules, task.agent, method.operation):
                yield VisibleMethod(
                    audience=audience,
                    tool=catalog.tool,
                    method=path,
                    operation=method.operation,
                    tier=method.tier,
                )
