"""Whether a task may be registered as asked, and what is registered then. Pure: the time is an argument.

Guarantees: the application that asks is not the agent that works; the agent, the contract and the budgets are
the template's, narrowed at most; the task ends within the template's time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from decider.budgets.source import budget_message
from decider.identifiers import misleads
from decider.task.contract import normal
from decider.task.contract_source import contract_message, load_values, narrowed_contract
from decider.task.task_template import Template, Templates
from decider.task.tasks import DELEGATION_ID, NAME, TASK_ID
from licet.identity import parse_spiffe_id
from licet.refusal import Reason, Refusal
from licet.v1 import task_pb2

RECORD_VERSION: Final = 1
EVERY_TENANT: Final = "*"
MAX_INTENT_BYTES: Final = 2_000
MAX_NAME_BYTES: Final = 256
MAX_NARROWED: Final = 200
"""Addresses, and bound arguments, that one registration may name."""

Registrars = Mapping[str, frozenset[str]]
"""SPIFFE ids of the applications that may register tasks, each with its tenants; `*` is every tenant."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What a registration is judged by."""

    environment: str
    trust_domain: str
    registrars: Registrars
    templates: Templates
    bundle_version: int
    generation: int


def may_register(peer: str, tenant: str, registrars: Registrars) -> bool:
    """Tell whether an application may register and close tasks of a tenant."""
    return not registrars.get(peer, frozenset()).isdisjoint((tenant, EVERY_TENANT))


def judge_registration(
    request: task_pb2.RegisterTaskRequest, peer: str, desk: Desk, *, now_ms: int
) -> task_pb2.Task | Refusal:
    """Return the task to be stored, or REGISTRATION_REFUSED or TASK_INVALID."""
    if not may_register(peer, request.tenant, desk.registrars):
        return Refusal(Reason.REGISTRATION_REFUSED, "not an application that registers tasks of this tenant")
    template = desk.templates.get(request.template)
    if template is None:
        return Refusal(Reason.TASK_INVALID, f"the bundle has no template `{request.template[:64]}`")
    fault = _fault(request, peer, desk, template)
    if fault:
        return Refusal(Reason.TASK_INVALID, fault)
    try:
        addresses = frozenset(map(normal, request.addresses)) if request.bounds_addresses else None
        contract = narrowed_contract(
            template.contract, addresses=addresses, values=load_values(request.values)
        )
    except ValueError as error:
        return Refusal(Reason.TASK_INVALID, str(error))
    return task_pb2.Task(
        version=RECORD_VERSION,
        task_id=request.task_id,
        environment=desk.environment,
        tenant=request.tenant,
        caller=request.caller,
        agent=request.agent,
        principal=request.principal,
        intent=request.intent,
        not_after_ms=now_ms + (request.life_s or template.max_life_s) * 1000,
        template=template.name,
        contract=contract_message(contract),
        budgets=[budget_message(budget) for budget in template.budgets],
        delegation=request.delegation,
        registered_by=peer,
        registered_at_ms=now_ms,
        bundle_version=desk.bundle_version,
        generation=desk.generation,
    )


def _fault(request: task_pb2.RegisterTaskRequest, peer: str, desk: Desk, template: Template) -> str:
    """Return what is wrong with a request, empty for nothing."""
    caller = parse_spiffe_id(request.caller)
    here = caller is not None and caller.trust_domain == desk.trust_domain
    agent = caller is not None and caller.path.startswith(f"/{desk.environment}/agent/")
    narrowed = max(len(request.addresses), len(request.values))
    checks = (
        (TASK_ID.match(request.task_id), "a task id is 1 to 128 printable ASCII characters without spaces"),
        (here and agent, "the caller is no agent of this environment"),
        (request.caller != peer, "who registers a task cannot work on it"),
        (request.caller not in desk.registrars, "who registers tasks cannot work on them"),
        (NAME.match(request.agent) and request.agent in template.agents, "no agent of the template"),
        (_is_name(request.principal) and _is_name(request.tenant), "principal and tenant must be printable"),
        (not misleads(request.principal), "the principal's name may be taken for another's"),
        (not misleads(request.tenant), "the tenant's name may be taken for another's"),
        (len(request.intent.encode()) <= MAX_INTENT_BYTES, f"an intent has {MAX_INTENT_BYTES} bytes at most"),
        (request.life_s <= template.max_life_s, "it would last longer than the template allows"),
        (not request.delegation or DELEGATION_ID.match(request.delegation), "a delegation has 32 hex digits"),
        (not request.addresses or request.bounds_addresses, "addresses bound nothing: set bounds_addresses"),
        (narrowed <= MAX_NARROWED, f"more than {MAX_NARROWED} addresses or values"),
    )
    return next((fault for holds, fault in checks if not holds), "")


def _is_name(text: str) -> bool:
    fits = 0 < len(text.encode()) <= MAX_NAME_BYTES
    return fits and text.isprintable() and text == text.strip()


def same_registration(one: task_pb2.Task, other: task_pb2.Task) -> bool:
    """Tell whether two records are of the same registration: a retry after a lost reply is no other task."""
    first, second = task_pb2.Task(), task_pb2.Task()
    first.CopyFrom(one)
    second.CopyFrom(other)
    for task in (first, second):
        for name in ("registered_at_ms", "not_after_ms", "bundle_version", "generation"):
            task.ClearField(name)
    lives = (one.not_after_ms - one.registered_at_ms, other.not_after_ms - other.registered_at_ms)
    return first == second and lives[0] == lives[1]
