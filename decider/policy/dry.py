"""A call decided dry: from files alone, nothing permitted, nothing recorded, nobody asked.

A call file says who asks for what, and what the tool would say of the resource:

    caller: agent/refund-bot
    task: task_789
    method: fin.v1.Finance/IssueRefund
    arguments: {order_id: O1, amount: {minor: 5000, currency: USD}}
    facts: {order_id: O1, tenant: t1, status: paid, version: 1, refund_allowed: true}
    lifted: [large-refund]

The steps are the decider's own (`decider.decision.admit`, `decide`); limits are not looked at, people are not
asked: `lifted` names hold rules as if they had approved. Reads files; holds no key that anybody believes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from google.protobuf import json_format

from decider.catalog.build import build_catalog
from decider.catalog.cli import MCP_FILE
from decider.catalog.descriptors import Descriptors
from decider.catalog.mcp import McpTools
from decider.catalog.tools import read_tools
from decider.decision.admit import admit, admit_facts
from decider.decision.decide import decide, narrow_verdict, shadowed_until_ms, unnarrowed
from decider.decision.envelope import Envelope, House, Refused, build_envelope
from decider.decision.facts import read_answer, source_of
from decider.decision.flags import flag
from decider.decision.modify import changes_of, narrowed
from decider.decision.record import failure_event, verdict_event
from decider.decision.verdict import Facts, Moment, Verdict, deny
from decider.in_force.in_force import InForce
from decider.policy.bundle import load_bundle, read_bundle_source
from decider.policy.cedar import Narrowable
from decider.policy.rule_call import rule_call
from decider.source import SourceError, read, read_bytes
from decider.task.tasks import read_tasks
from licet.call import Plan
from licet.catalog import Method, read_catalog
from licet.keys import KeyRole, KeySet, PublicKey
from licet.refusal import Reason, Refusal
from licet.revocation import NONE
from licet.statement import PayloadType, SigningKey
from licet.v1.beacon_pb2 import ActiveConfig
from licet.v1.decider_pb2 import DecideRequest
from licet.v1.decision_pb2 import Codec

NOBODY: Final = bytes(32)
"""Seed of the key that signs the catalog for itself, and the digest key: a dry digest joins nothing."""

UNKNOWN_LINKS: Final = Refusal(Reason.DELEGATION_EXCEEDED, "a dry call knows no registry of delegations")


class DryError(ValueError):
    """A call file or policy directory cannot be used; `str()` says what to change."""


@dataclass(frozen=True, slots=True)
class DryCall:
    """A call as a file says it."""

    caller: str
    task: str
    call_id: str
    method: str
    arguments: Mapping[str, Any]
    facts: Mapping[str, Any] | None
    lifted: frozenset[str]
    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Where `arguments` and `facts` stand in the file."""

    def place(self, name: str) -> str:
        """Return what a fault of one of these is told as: file, line, field."""
        return f"{self.file}:{self.lines.get(name, 0)}: {name}"


@dataclass(frozen=True, slots=True)
class Ground:
    """A policy directory, ready to decide by."""

    house: House
    in_force: InForce


def read_call(path: Path) -> DryCall:
    """Return the call in a file. Raises `SourceError` with every fault."""
    top, faults = read(path)
    call = DryCall(
        caller=top.text("caller"),
        task=top.text("task"),
        call_id=top.text("call_id", "dry"),
        method=top.text("method"),
        arguments=top.values("arguments"),
        facts=top.values("facts") if top.has("facts") else None,
        lifted=frozenset(top.texts("lifted")),
        file=str(path),
        lines={name: top.line_of(name) for name in ("arguments", "facts")},
    )
    top.close()
    faults.raise_any()
    return call


def read_ground(policy: Path, *, environment: str, trust_domain: str, now_ms: int) -> Ground:
    """Return what a policy directory decides by. Raises `SourceError`, `DryError`, `BundleError`."""
    key = SigningKey.from_seed("dry", NOBODY)
    public = PublicKey("dry", KeyRole.CATALOG, environment, key.public_key, 0, now_ms + 1)
    keys = KeySet(environment, 1, {"dry": public})
    try:
        descriptors = Descriptors(read_bytes(policy / "descriptors.binpb"))
        payload = build_catalog(
            read_tools(policy / "tools.yaml"),
            descriptors,
            environment=environment,
            trust_domain=trust_domain,
            mcp=McpTools(read_bytes(policy / MCP_FILE)) if (policy / MCP_FILE).exists() else McpTools(),
        )
    except (ValueError, TypeError) as error:
        if isinstance(error, SourceError):
            raise
        raise DryError(f"`{policy}`: {error}") from None
    signed = key.sign(PayloadType.CATALOG, payload)
    catalog = read_catalog(signed, keys, environment=environment, now_ms=now_ms)
    if isinstance(catalog, Refusal):
        raise DryError(f"`{policy / 'tools.yaml'}`: {catalog.detail}")
    tasks = read_tasks(
        policy / "tasks.yaml", trust_domain=trust_domain, environment=environment, now_ms=now_ms
    )
    bundle = load_bundle(read_bundle_source(policy, environment=environment))
    catalogs = {catalog.audience: catalog}
    house = House(trust_domain, environment, catalogs, dict.fromkeys(catalogs, NOBODY), tasks)
    config = ActiveConfig(environment=environment, generation=1, bundle_version=bundle.version)
    return Ground(house, InForce(config, 0, bundle, keys, NONE))


def decide_dry(call: DryCall, ground: Ground, *, now_ms: int) -> dict[str, Any]:
    """Return the record that the decision of this call would leave. Raises `DryError`."""
    house, in_force = ground.house, ground.in_force
    peer = call.caller
    if "://" not in peer:
        peer = f"spiffe://{house.trust_domain}/{house.environment}/{peer}"
    request = _request(call, house)
    moment = Moment("0" * 32, now_ms, traceparent="")
    envelope = build_envelope(request, peer, house, now_ms=now_ms)
    if isinstance(envelope, Refused):
        kind, fields = verdict_event(deny(envelope, envelope.refusal, in_force, moment), envelope, NOBODY)
        return _dry(fields) | {"kind": str(kind), "environment": house.environment}
    envelope = flag(envelope, in_force)
    envelope, outcome = _judged(envelope, call, ground, moment)
    if isinstance(outcome, Refusal):
        kind, fields = failure_event(envelope.asked, envelope, outcome, moment.decision_id, NOBODY)
    else:
        kind, fields = verdict_event(outcome, envelope, NOBODY)
    return _dry(fields) | {"kind": str(kind), "environment": house.environment}


def _dry(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a dry key made: it would join nothing."""
    digests = ("call_digest", "original_call_digest", "decision_id")
    return {name: value for name, value in fields.items() if name not in digests}


def _judged(
    envelope: Envelope, call: DryCall, ground: Ground, moment: Moment, *, modify: bool = True
) -> tuple[Envelope, Verdict | Refusal]:
    in_force = ground.in_force
    admitted = admit(envelope, UNKNOWN_LINKS, in_force, now_ms=moment.now_ms)
    if isinstance(admitted, Refusal):
        return envelope, deny(envelope, admitted, in_force, moment)
    envelope = admitted
    facts = _facts(envelope, call)
    if isinstance(facts, Refusal):
        return envelope, facts
    mismatch = admit_facts(envelope, facts)
    if mismatch is not None:
        return envelope, deny(envelope, mismatch, in_force, moment)
    rules = in_force.bundle.rules
    evaluation = rules.narrow(rule_call(envelope, facts, ground.house), lifted=call.lifted, modify=modify)
    if isinstance(evaluation, Narrowable) and shadowed_until_ms(in_force, envelope, moment) is None:
        return _narrowed(envelope, evaluation.rule_ids, call, ground, moment)
    return envelope, decide(envelope, facts, evaluation, in_force, moment)


def _narrowed(
    asked: Envelope, rule_ids: tuple[str, ...], call: DryCall, ground: Ground, moment: Moment
) -> tuple[Envelope, Verdict | Refusal]:
    changes = changes_of(rule_ids, ground.in_force.bundle.terms, asked.method.path)
    effective = narrowed(asked, changes, ground.house)
    if isinstance(effective, Refusal):
        return asked, unnarrowed(asked, rule_ids, effective, ground.in_force, moment)
    effective = flag(effective, ground.in_force)
    effective, outcome = _judged(effective, call, ground, moment, modify=False)
    if isinstance(outcome, Refusal):
        return effective, outcome
    return effective, replace(narrow_verdict(asked, effective, outcome, rule_ids), changed=rule_ids)


def _request(call: DryCall, house: House) -> DecideRequest:
    path = call.method if call.method.startswith("/") else f"/{call.method}"
    found = [
        versions.current for one in house.catalogs.values() if (versions := one.method(path)) is not None
    ]
    if not found:
        return DecideRequest(method=path, task_id=call.task, call_id=call.call_id)
    method = found[0]
    return DecideRequest(
        method=path,
        request=_encoded(method, call.arguments, call.place("arguments")),
        codec=cast("Codec.ValueType", method.codec),
        task_id=call.task,
        call_id=call.call_id,
    )


def _encoded(method: Method, values: Mapping[str, Any], place: str) -> bytes:
    if not isinstance(method.plan, Plan):
        return json.dumps(values, ensure_ascii=False).encode()
    return _message(method.plan, values, place)


def _message(plan: Plan, values: Mapping[str, Any], place: str) -> bytes:
    message: Any = plan.root.message_class()
    try:
        json_format.ParseDict(dict(values), message)
    except json_format.ParseError as error:
        raise DryError(f"{place}: {' '.join(str(error).split())}") from None
    return bytes(message.SerializeToString(deterministic=True))


def _facts(envelope: Envelope, call: DryCall) -> Facts | Refusal:
    source = source_of(envelope)
    if source is None:
        return Facts()
    if call.facts is None or source.output is None:
        return Refusal(
            Reason.FACTS_UNAVAILABLE, f"the call file has no `facts`: what {source.path} would answer"
        )
    return read_answer(envelope, source, _message(source.output, call.facts, call.place("facts")))
