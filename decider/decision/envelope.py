"""The envelope: everything a decision may rest on, built by us. What a model says in it has no force.

Caller from the transport, task, agent, principal and tenant from the registry, tool, tier and operation from
the signed catalog, resource and money from the arguments as the catalog says, arguments from the exact
request bytes. Of the request only the method's name, the bytes, the task's and the step's id are used;
`claimed_intent` is kept for the record and read by no rule.

Pure. The steps are numbered as in docs/decider.md: 1 who asks, 2 which step, 3 which task, 4 which method,
5 which arguments.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from decider.catalog.served import NO_DRIFT, Drift
from decider.egress import UNCHECKED
from decider.egress.check import WHOLE
from decider.identifiers import misleads
from decider.quota import spoken_for
from decider.task.contract import check_contract
from decider.task.tasks import Task, Tasks
from decider.tokens.token import User
from licet.call import Arguments, call_digest
from licet.catalog import Catalog, Method, hidden_resource
from licet.delegation import Delegation
from licet.identity import sidecar_id
from licet.printable import printable
from licet.refusal import Reason, Refusal
from licet.spend import spend_id
from licet.tier import CallClass
from licet.v1.decider_pb2 import DecideRequest

CALL_ID: Final = re.compile(r"[\x21-\x7e]{1,128}\Z")
WITHHELD: Final = "arguments withheld: they hold what looks like a secret"
"""What approvers, events and spans say of a call with a secret in its arguments."""
MAX_SHOWN_BYTES: Final = 200
"""How much of an unverified text goes into the record."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a request before anything of it was verified; texts are cut to `MAX_SHOWN_BYTES`."""

    caller: str
    peer: str
    method: str
    task_id: str
    call_id: str
    claimed_intent: str
    empty_in_a_row: int = 0
    """How many calls of the method brought the caller nothing, as it says itself."""


@dataclass(frozen=True, slots=True)
class Change:
    """A field that was narrowed: what was asked and what it is now, as approvers may see it."""

    path: str
    asked: str
    now: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A call that may be decided."""

    asked: Asked
    task: Task
    catalog: Catalog
    method: Method
    arguments: Arguments
    resource: str
    money: tuple[int, str] | None
    call_digest: bytes
    spend_id: str
    risk_flags: tuple[str, ...] = ()
    """What the egress check found in the arguments, less what the bundle expects there."""
    flagged: frozenset[str] = frozenset()
    """The argument paths in which it found something."""
    drifted: bool = False
    """Whether the tool serves the method, or what its facts are read from, otherwise than listed."""
    editors: tuple[str, ...] = ()
    """Who narrowed the call: authors of it, who may not approve it."""
    changes: tuple[Change, ...] = ()
    """What was narrowed of the call that was asked, in order."""
    links: tuple[Delegation, ...] = ()
    """The delegations the call rests on, first to last."""

    @property
    def delegations(self) -> tuple[str, ...]:
        """Ids of the links the call rests on, first to last."""
        return tuple(link.delegation_id for link in self.links)

    @property
    def delegators(self) -> tuple[str, ...]:
        """Who handed it down over those links: they may not approve it."""
        return tuple(link.delegator for link in self.links)

    @property
    def summary(self) -> str:
        """The catalog's sentence about this call, sensitive fields masked; `WITHHELD` with a secret in it."""
        if "secret" in self.risk_flags:
            return WITHHELD
        return self.method.summary(self.arguments)

    @property
    def hidden(self) -> frozenset[str]:
        """The argument paths of a resource that may not stand in records: personal, or flagged."""
        paths = frozenset(self.method.resource.paths)
        found = bool(self.flagged & (paths | {WHOLE})) or UNCHECKED in self.risk_flags
        return paths if found or self.method.resource_personal else frozenset()

    @property
    def recorded_summary(self) -> str:
        """The summary as a record may have it: without a resource that may not stand there."""
        if "secret" in self.risk_flags:
            return WITHHELD
        return self.method.summary(self.arguments, hidden=self.hidden)

    def recorded_resource(self, k_tool: bytes) -> str:
        """Return the resource as a record may have it."""
        template = self.method.resource
        return hidden_resource(self.resource, template, k_tool) if self.hidden else self.resource

    def hides(self, source: Method) -> bool:
        """Tell whether what `source` reads facts by may not stand in records."""
        facts = self.method.facts
        read_by = frozenset(facts.request.values()) if facts is not None else frozenset()
        return source.resource_personal or bool(read_by & (self.flagged | self.hidden) or self.hidden)


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that cannot be decided but denied; `task` and `method` as far as they were found."""

    asked: Asked
    refusal: Refusal
    task: Task | None = None
    catalog: Catalog | None = None
    method: Method | None = None


@dataclass(frozen=True, slots=True)
class House:
    """What the decider knows without being asked: where it is, its tools, their keys, the tasks."""

    trust_domain: str
    environment: str
    catalogs: Mapping[str, Catalog]
    """By audience."""
    tool_keys: Mapping[str, bytes]
    """K_tool by audience, of the generation in force."""
    tasks: Tasks
    drift: Drift = NO_DRIFT
    """Which methods are served otherwise than listed."""


def check_task(envelope: Envelope) -> Refusal | None:
    """Check that the call is within its task's contract; a task without one says nothing."""
    contract = envelope.task.contract
    if contract is None:
        return None
    method = envelope.method
    return check_contract(
        contract, operation=method.operation, tier=method.tier, arguments=envelope.arguments
    )


def shown(text: str) -> str:
    """Return an unverified text as it may stand in the record: printable, at most `MAX_SHOWN_BYTES`."""
    return printable(text, MAX_SHOWN_BYTES)


def speaks_for_others(request: DecideRequest, peer: str, house: House) -> bool:
    """Tell whether `peer` may name another caller in this request: the sidecar of its audience alone may.

    Without an audience it is the sidecar of a tool that has the method.
    """
    for catalog in house.catalogs.values():
        if peer == sidecar_id(house.trust_domain, house.environment, catalog.tool):
            if request.audience:
                return request.audience == catalog.audience
            return catalog.method(request.method) is not None
    return False


def payer_of(request: DecideRequest, peer: str, house: House) -> str:
    """Return whose quota a request takes from: the caller's, also where its tool's door asks for it."""
    if request.on_behalf_of and speaks_for_others(request, peer, house):
        return spoken_for(shown(request.on_behalf_of), peer)
    return peer


def asked_of(request: DecideRequest, peer: str, house: House) -> Asked:
    """Return what is known of a request at once. `peer` is the transport's word and trusted.

    Whoever names another caller and may not is the caller itself, and the task it names is left out:
    the record must not show a victim, nor be found under the victim's task.
    """
    framing = bool(request.on_behalf_of) and not speaks_for_others(request, peer, house)
    return Asked(
        caller=peer if framing else shown(request.on_behalf_of) or peer,
        peer=peer,
        method=shown(request.method),
        task_id="" if framing else shown(request.task_id),
        call_id=shown(request.call_id),
        claimed_intent=shown(request.claimed_intent),
        empty_in_a_row=request.empty_in_a_row,
    )


def build_envelope(
    request: DecideRequest, peer: str, house: House, *, now_ms: int, user: User | Refusal | None = None
) -> Envelope | Refused:
    """Return the envelope of a request, or why it is denied. `peer` is the SPIFFE id of the connection.

    `user` is what verifying the request's token gave.
    """
    asked = asked_of(request, peer, house)
    # 1 who asks: on behalf of another, the sidecar of that audience only; before anything is looked up
    if request.on_behalf_of and not speaks_for_others(request, peer, house):
        return Refused(asked, Refusal(Reason.ON_BEHALF_REFUSED, "not the sidecar of that audience"))
    caller = request.on_behalf_of or peer
    # 2 which step
    if not CALL_ID.match(request.call_id):
        return Refused(asked, Refusal(Reason.CALL_ID_INVALID))
    # 3 which task: one of this very caller's
    task = house.tasks.get(request.task_id)
    if task is None or task.caller != caller:
        reason = Reason.ON_BEHALF_REFUSED if request.on_behalf_of else Reason.TASK_UNKNOWN
        return Refused(asked, Refusal(reason, "not a task of this caller"))
    if task.closed or now_ms >= task.not_after_ms:
        return Refused(asked, Refusal(Reason.TASK_CLOSED, "the task is closed or over"), task)
    stranger = check_user(request, task, user)
    if stranger is not None:
        return Refused(asked, stranger, task)
    # 4 which method
    found = find_method(request, house)
    if isinstance(found, Refusal):
        return Refused(asked, found, task)
    catalog, method = found
    refusal = _may_ask(request, method)
    if refusal is not None:
        return Refused(asked, refusal, task, catalog, method)
    # 5 which arguments
    content = content_of(request.request, catalog, method, house)
    if isinstance(content, Refusal):
        return Refused(asked, content, task, catalog, method)
    arguments, resource, money, digest = content
    step = spend_id(
        house.environment, task.tenant, catalog.audience, task.agent, task.task_id, request.call_id
    )
    drifted = house.drift.covers(catalog, method)
    return Envelope(asked, task, catalog, method, arguments, resource, money, digest, step, drifted=drifted)


def check_user(request: DecideRequest, task: Task, user: User | Refusal | None) -> Refusal | None:
    """Check that the token, where one came or one is needed, is the task's own principal's."""
    if isinstance(user, Refusal):
        return user
    if user is None and request.user_token:  # one that is not verified must not look as if it had been
        return Refusal(Reason.PRINCIPAL_INVALID, "the user token was not verified")
    if user is not None and user.principal != task.principal:
        return Refusal(Reason.PRINCIPAL_INVALID, "the task is for somebody else")
    return None


def find_method(request: DecideRequest, house: House) -> tuple[Catalog, Method] | Refusal:
    """Return the one method with exactly this path; the audience may be left out where one tool has it."""
    if request.audience:
        named = house.catalogs.get(request.audience)
        candidates = [named] if named is not None else []
    else:
        candidates = list(house.catalogs.values())
    found = [
        (catalog, versions.current)
        for catalog in candidates
        if (versions := catalog.method(request.method)) is not None
    ]
    if len(found) != 1:
        return Refusal(Reason.METHOD_UNKNOWN, f"{len(found)} tools have the method")
    return found[0]


def _may_ask(request: DecideRequest, method: Method) -> Refusal | None:
    """Check how the method may be asked for: in its codec, and on call only where the catalog allows it."""
    if method.client_streaming:
        return Refusal(Reason.CLIENT_STREAMING)
    if request.codec != method.codec:
        return Refusal(Reason.ARGUMENTS_MALFORMED, "another codec than the catalog's")
    if not request.on_behalf_of:
        return None
    if method.call_class is CallClass.PRIVILEGED or not method.decide_on_call:
        return Refusal(Reason.ON_BEHALF_REFUSED, "the method is not decided on call")
    return None


Content = tuple[Arguments, str, tuple[int, str] | None, bytes]


def content_of(body: bytes, catalog: Catalog, method: Method, house: House) -> Content | Refusal:
    """Return what the exact bytes of a request say: arguments, resource, money, and their digest."""
    arguments = method.arguments(body)
    if isinstance(arguments, Refusal):
        return arguments
    resource = method.resource_of(arguments)
    if isinstance(resource, Refusal):
        return resource
    misleading = next(filter(None, map(misleads, _identifiers(method, arguments))), "")
    if misleading:
        return Refusal(Reason.ARGUMENTS_MALFORMED, f"an identifier may be taken for another: {misleading}")
    money = method.money_of(arguments)
    if money is None and method.money is not None:
        # without this, a large amount in no currency would look like no money at all to every rule
        return Refusal(Reason.ARGUMENT_REFUSED, "an amount or its currency is missing")
    k_tool = house.tool_keys[catalog.audience]
    digest = call_digest(k_tool, method.codec, method.path, method.digest, arguments.encoded)
    return arguments, resource, money, digest


def _identifiers(method: Method, arguments: Arguments) -> Iterator[str]:
    """Yield what a call is about, as its arguments spell it."""
    for value in (method.tenant_of(arguments), *map(arguments.identifier, method.resource.paths)):
        if isinstance(value, str):
            yield value
