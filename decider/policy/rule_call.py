"""A call as rules see it: who does which operation to which resource, and in which context. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from decider.decision.envelope import Envelope, House
from decider.decision.verdict import Facts
from decider.policy.cedar import PLAIN_RESOURCE_TYPE, RuleCall, Value
from licet.catalog import Method
from licet.tier import CallClass

CLASS_NAMES: Final[Mapping[CallClass, str]] = MappingProxyType(
    {CallClass.READ: "read", CallClass.WRITE: "write", CallClass.PRIVILEGED: "privileged"}
)


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


def rule_call(
    envelope: Envelope, facts: Facts, house: House, seen: Mapping[str, Value] = MappingProxyType({})
) -> RuleCall:
    """Return the call as rules see it; a call without money has the amount 0 and the currency "".

    `seen` is what limits know of it (`decider.decision.limits`).
    """
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
            "data_classes": tuple(sorted(method.data_classes)),
            "results": tuple(sorted(method.results)),
            **seen,
        },
    )
