"""Do a catalog and a bundle fit together? Each method is evaluated once with sample facts.

A method whose operation, resource type or facts the schema does not know fails at every call; here it is
found before anything is signed. Says nothing about what the rules decide.
"""

from typing import Any

from google.protobuf import message_factory

from decider.catalog.descriptors import Descriptors
from decider.catalog.tools import MethodSource, ToolSource
from decider.decision.facts import MAX_DEPTH, attributes_of
from decider.policy.cedar import PLAIN_RESOURCE_TYPE, SAMPLE_CONTEXT, Failed, RuleCall, RuleSet, Value
from decider.policy.rule_call import type_of_kind


def misfits(source: ToolSource, descriptors: Descriptors, rules: RuleSet) -> tuple[str, ...]:
    """Return a sentence for each method that no rule could ever be evaluated for."""
    found = []
    for method in source.methods:
        call = RuleCall(
            agent="agent",
            operation=method.operation,
            resource_type=resource_type_of(method),
            resource=method.resource,
            attributes={
                **rules.entities.sample(resource_type_of(method)),
                **sample_facts(method, descriptors),
            },
            context=SAMPLE_CONTEXT,
        )
        evaluation = rules.evaluate(call)
        if isinstance(evaluation, Failed):
            path = method.path.removeprefix("/")
            found.append(
                f"{source.file}:{method.line}: {path}: the rules cannot be evaluated: {evaluation.detail}"
            )
    return tuple(found)


def resource_type_of(method: MethodSource) -> str:
    """Return the Cedar type of a method's resource, as the decider will call it."""
    return PLAIN_RESOURCE_TYPE if method.facts is None else type_of_kind(method.resource.partition(":")[0])


def sample_facts(method: MethodSource, descriptors: Descriptors) -> dict[str, Value]:
    """Return the attributes that facts of a method have, with values that mean nothing."""
    types = descriptors.method(method.facts.method) if method.facts is not None else None
    if types is None:
        return {}
    message = message_factory.GetMessageClass(types.output)()
    _fill(message, MAX_DEPTH)
    return dict(attributes_of(message))


def _fill(message: Any, depth: int) -> None:
    """Make every singular field present, so that a mandatory attribute is not missed for being unset."""
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated or not depth:
            continue
        if field.message_type is not None:
            getattr(message, field.name).SetInParent()
            _fill(getattr(message, field.name), depth - 1)
        elif field.has_presence:
            setattr(message, field.name, getattr(message, field.name))
