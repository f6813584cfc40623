"""Facts: what the tool itself says of the resource right now, read under our own identity.

The permit for the read is minted here (docs/protocol.md 2.1): caller and principal are the decider, tenant
the outer call's, class read, nothing spent, exact digest, at most `LIFE_MS`, call id the outer decision id.
Its event is stored before the permit leaves, like any other.

Guarantees: an answer is read strictly with the catalog's pinned descriptors (an unknown field refuses);
every singular field of the answer becomes an attribute, fields without presence with their default. Floats,
maps and bytes are left out: no rule can rest on them. A fact that cannot be had is FACTS_UNAVAILABLE, never
a default; that there is no such resource (NOT_FOUND) is RESOURCE_UNKNOWN, a denial.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf import descriptor
from google.protobuf.message import Message

from decider.decision.envelope import Envelope
from decider.decision.verdict import DECISION_VERSION, Facts, Moment
from decider.in_force.in_force import InForce
from decider.policy.cedar import Value
from licet.call import Plan, call_digest, walk
from licet.catalog import Method
from licet.refusal import Reason, Refusal
from licet.spend import spend_id
from licet.tier import CallClass
from licet.v1.decision_pb2 import Decision, DecisionType

LIFE_MS: Final = 5_000
"""How long a permit for facts lives, in ms."""

AGENT: Final = "decider"
"""The agent's name in permits for facts."""

RULE_ID: Final = "facts"
"""Stands as the rule of a permit for facts: no Cedar rule decides it, the catalog does."""

MAX_ANSWER_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 8
"""How deep records may be nested in the attributes."""

FieldDescriptor = descriptor.FieldDescriptor
_FLOATS: Final = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT})


def source_of(envelope: Envelope) -> Method | None:
    """Return the read method that the facts of this call come from; None where it has none."""
    if envelope.method.facts is None:
        return None
    versions = envelope.catalog.method(envelope.method.facts.method)
    return versions.current if versions is not None else None


def facts_request(envelope: Envelope, source: Method) -> bytes | Refusal:
    """Return the request of the read method, its fields filled from the call's arguments."""
    if not isinstance(source.plan, Plan):
        return Refusal(Reason.FACTS_UNAVAILABLE, "facts are read from protobuf methods only")
    message: Any = source.plan.root.message_class()
    mapping = envelope.method.facts.request if envelope.method.facts is not None else {}
    for name, path in mapping.items():
        value = envelope.arguments.leaf(path)
        if value is None:
            return Refusal(Reason.FACTS_UNAVAILABLE, f"the call has no `{path}` to read facts by")
        target = message
        *parents, last = name.split(".")
        for parent in parents:
            target = getattr(target, parent)
        setattr(target, last, value)
    if not message.IsInitialized():  # upb ends the process when it serialises such a message beside a map
        return Refusal(Reason.FACTS_UNAVAILABLE, f"the request of `{source.path}` lacks a required field")
    return bytes(message.SerializeToString(deterministic=True))


def facts_decision(
    envelope: Envelope,
    source: Method,
    body: bytes,
    *,
    k_tool: bytes,
    own_id: str,
    in_force: InForce,
    outer: Moment,
    decision_id: str,
) -> Decision | Refusal:
    """Return the decision that lets the decider read facts for the outer decision."""
    arguments = source.arguments(body)
    if isinstance(arguments, Refusal):
        return arguments
    resource = source.resource_of(arguments)
    if isinstance(resource, Refusal):
        return resource
    task, audience = envelope.task, envelope.catalog.audience
    environment = in_force.config.environment
    decision = Decision(
        version=DECISION_VERSION,
        decision_id=decision_id,
        decision=DecisionType.DECISION_TYPE_ALLOW,
        environment=environment,
        tenant=task.tenant,
        principal=own_id,
        caller=own_id,
        agent=AGENT,
        task_id=task.task_id,
        call_id=outer.decision_id,
        spend_id=spend_id(environment, task.tenant, audience, AGENT, task.task_id, outer.decision_id),
        audience=audience,
        method=source.path,
        method_digest=source.digest,
        resource=resource,
        call_digest=call_digest(k_tool, source.codec, source.path, source.digest, arguments.encoded),
        bundle_version=in_force.bundle.version,
        rule_ids=[RULE_ID],
        config_seq=in_force.config_seq,
        generation=in_force.generation,
        issued_at_ms=outer.now_ms,
        not_after_ms=outer.now_ms + LIFE_MS,
        traceparent=outer.traceparent,
    )
    setattr(decision, "class", int(CallClass.READ))  # the field's name is a word of Python
    return decision


def read_answer(envelope: Envelope, source: Method, answer: bytes) -> Facts | Refusal:
    """Return the facts in the answer of the read method, or FACTS_UNAVAILABLE."""
    facts = envelope.method.facts
    if facts is None:
        return Facts()
    if source.output is None:
        return Refusal(Reason.FACTS_UNAVAILABLE, "facts are read from protobuf methods only")
    walked = walk(source.output, answer)
    if isinstance(walked, Refusal):
        return Refusal(Reason.FACTS_UNAVAILABLE, f"the answer is refused: {walked.reason}: {walked.detail}")
    message = source.output.root.message_class.FromString(walked.canonical)
    attributes = dict(attributes_of(message))
    tenant = at_path(attributes, facts.tenant)
    if not isinstance(tenant, str) or not tenant:
        return Refusal(Reason.FACTS_UNAVAILABLE, f"the answer does not say the tenant at `{facts.tenant}`")
    preconditions = []
    for check, path in sorted(facts.preconditions.items()):
        value = at_path(attributes, path)
        if not isinstance(value, str | int | bool):
            return Refusal(Reason.FACTS_UNAVAILABLE, f"the answer has no single value at `{path}`")
        preconditions.append((check, value))
    return Facts(attributes, tenant, tuple(preconditions))


def at_path(attributes: Mapping[str, Value], path: str) -> Value | None:
    """Return the attribute at a dotted path; None where there is none."""
    value: Value | None = attributes
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def attributes_of(message: Message, depth: int = MAX_DEPTH) -> Iterator[tuple[str, Value]]:
    """Yield the attributes that rules may know of an answer."""
    for field in message.DESCRIPTOR.fields:
        if field.type in _FLOATS or field.type == FieldDescriptor.TYPE_BYTES or _is_map(field) or not depth:
            continue
        if field.is_repeated:
            yield field.name, tuple(_single(field, item, depth) for item in getattr(message, field.name))
        elif not field.has_presence or message.HasField(field.name):
            yield field.name, _single(field, getattr(message, field.name), depth)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _single(field: Any, value: Any, depth: int) -> Value:
    if field.message_type is not None:
        return dict(attributes_of(value, depth - 1))
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, str | bool | int):
        return value
    raise TypeError(f"`{field.full_name}` is of a type that no rule reads")
