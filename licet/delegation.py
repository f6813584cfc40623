"""Delegations: authority handed down, narrower at each link, from a person to an agent and on.

Guarantees: a `Chain` exists only where `read_chain` made it: every link was verified, names its
parent by id and by the SHA-256 of its signed bytes, and lies within it field by field; there are at most
`MAX_DEPTH`. `Chain.check` compares a call with every link, so that what the last link accepts, every link
before it accepts, whatever a registry was talked into. Denials unite downward. Nothing granted is nothing
allowed: an empty set covers nothing.

Does not ask whether the delegator has the rights (rules say so) and does not count how many calls were made
and how much money moved under a link: deciders book that.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from licet.call import Arguments
from licet.dsse import PayloadType
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.revocation import REASON_OF_KIND, RevocationKind, Revocations
from licet.scope import ANY, check_arguments, covers, implied, plain_name, within_names, within_resources
from licet.statement import artifact_sha256, verify
from licet.strict import canonical, strict_parse
from licet.v1 import delegation_pb2
from licet.v1.decision_pb2 import Constraint
from licet.v1.statement_pb2 import Signed

DELEGATION_VERSION: Final = 1
"""Version of the message that is written and read."""
MAX_DEPTH: Final = 4
"""Most links of a chain."""
MAX_LIFE_MS: Final = 30 * 24 * 3_600_000
"""Longest life of a link, in ms."""
MAX_TIER: Final = 5
TIER_OF_AUTONOMY: Final[Mapping[int, int]] = MappingProxyType({1: 1, 2: 2, 3: 3, 4: MAX_TIER})
"""Highest tier of each autonomy mode."""
_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SHA256_BYTES: Final = 32
_SINGLE: Final = (
    *("delegation_id", "parent_id", "parent_sha256", "depth", "tenant", "delegator", "delegatee"),
    *("issued_at_ms", "not_after_ms", "max_tier", "autonomy_max", "max_calls"),
)
_SETS: Final = (
    *("environments", "methods", "operations", "resources"),
    *("denied_methods", "denied_operations", "denied_resources"),
)


@dataclass(frozen=True, slots=True)
class Delegation:
    """One link. Sets that are empty grant nothing; `*` in a set covers all of its kind."""

    delegation_id: str
    parent_id: str
    parent_sha256: bytes
    depth: int
    tenant: str
    delegator: str
    delegatee: str
    issued_at_ms: int
    not_after_ms: int
    environments: frozenset[str]
    methods: frozenset[str]
    operations: frozenset[str]
    resources: frozenset[str]
    max_tier: int
    autonomy_max: int
    max_calls: int
    constraints: Mapping[str, tuple[Constraint, ...]] = field(default_factory=dict)
    """By method."""
    max_cost: Mapping[str, int] = field(default_factory=dict)
    """Minor units by currency."""
    denied_methods: frozenset[str] = frozenset()
    denied_operations: frozenset[str] = frozenset()
    denied_resources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Link:
    """A delegation, the SHA-256 of the bytes in which it was signed, and the id of the key that signed it."""

    delegation: Delegation
    sha256: bytes
    key_id: str = ""


@dataclass(frozen=True, slots=True)
class DelegatedCall:
    """What of a call a delegation speaks of."""

    environment: str
    tenant: str
    principal: str
    agent: str
    method: str
    operation: str
    resource: str
    tier: int
    arguments: Arguments
    money: tuple[int, str] | None = None


def payload_of(delegation: Delegation) -> bytes:
    """Return the payload to sign under PayloadType.DELEGATION."""
    plain: dict[str, Any] = {name: getattr(delegation, name) for name in _SINGLE}
    plain |= {name: sorted(getattr(delegation, name)) for name in _SETS}
    return canonical(
        delegation_pb2.Delegation(
            version=DELEGATION_VERSION,
            **plain,
            constraints=[
                delegation_pb2.MethodConstraints(method=method, constraints=listed)
                for method, listed in sorted(delegation.constraints.items())
            ],
            max_cost=[
                delegation_pb2.MoneyLimit(currency=currency, max_minor=limit)
                for currency, limit in sorted(delegation.max_cost.items())
            ],
        )
    )


def read_delegation(signed: Signed, keys: KeySet, *, now_ms: int) -> Link | Refusal:
    """Return the link that a delegator key signed, or why not. Says nothing of its parent."""
    payload = verify(PayloadType.DELEGATION, signed, keys, now_ms=now_ms)
    if isinstance(payload, Refusal):
        return payload
    message = strict_parse(delegation_pb2.Delegation, payload)
    if isinstance(message, Refusal):
        return message
    if message.version != DELEGATION_VERSION:
        return _malformed(f"version {message.version}")
    constraints = {entry.method: tuple(entry.constraints) for entry in message.constraints}
    costs = {limit.currency: limit.max_minor for limit in message.max_cost}
    if len(constraints) != len(message.constraints) or len(costs) != len(message.max_cost):
        return _malformed("a method or a currency is named twice")
    plain: dict[str, Any] = {name: getattr(message, name) for name in _SINGLE}
    plain |= {name: frozenset(getattr(message, name)) for name in _SETS}
    delegation = Delegation(
        **plain,
        constraints=MappingProxyType(constraints),
        max_cost=MappingProxyType(costs),
    )
    fault = _fault(delegation)
    if not fault and not _speaks_for(keys.keys[signed.key_id].owner, delegation):
        fault = f"key `{signed.key_id}` does not speak for `{delegation.delegator}`"
    return Link(delegation, artifact_sha256(signed), signed.key_id) if not fault else _malformed(fault)


def _speaks_for(owner: str, link: Delegation) -> bool:
    """Say whether a key of `owner` may sign a link: its delegator's own, or the issuer's for a first link.

    The issuer's key has no owner: it is the application's that has authenticated the person. So no agent can
    sign what a person would have had to hand down.
    """
    if not owner:
        return link.depth == 1
    return owner == link.delegator or owner.endswith(f"/agent/{link.delegator}")


def _malformed(detail: str) -> Refusal:
    return Refusal(Reason.DELEGATION_EXCEEDED, f"delegation: {detail}")


def _fault(link: Delegation) -> str:
    """Return what is wrong with a link in itself; empty for nothing."""
    first = not link.parent_id
    faults = (
        (not _ID.fullmatch(link.delegation_id), "its id is not 32 lower hex digits"),
        (not 1 <= link.depth <= MAX_DEPTH, f"depth {link.depth}, at most {MAX_DEPTH}"),
        (first != (link.depth == 1), "only the first link has no parent"),
        (len(link.parent_sha256) != (0 if first else _SHA256_BYTES), "its parent is not named by SHA-256"),
        (
            not (link.tenant and link.delegator and link.delegatee),
            "tenant, delegator or delegatee is missing",
        ),
        (link.delegator == link.delegatee, "nobody delegates to themselves"),
        (not 0 < link.not_after_ms - link.issued_at_ms <= MAX_LIFE_MS, "it never holds, or for too long"),
        (link.max_tier > MAX_TIER, f"tier {link.max_tier}"),
        (link.autonomy_max not in TIER_OF_AUTONOMY, f"autonomy mode {link.autonomy_max}"),
        (ANY in link.constraints, "constraints of no one method"),
        (any(limit < 0 for limit in link.max_cost.values()), "a money limit below 0"),
        (
            not all(scope == ANY or plain_name(scope) for scope in link.resources | link.denied_resources),
            "a resource that no path may have",
        ),
    )
    return next((what for wrong, what in faults if wrong), "")


def check_narrowing(parent: Link, child: Delegation) -> Refusal | None:
    """Return why a delegation does not lie within its parent, or None. Field by field."""
    above = parent.delegation
    checks = (
        (child.parent_id == above.delegation_id and child.parent_sha256 == parent.sha256, "parent"),
        (child.depth == above.depth + 1, "depth"),
        (child.tenant == above.tenant, "tenant"),
        (child.delegator == above.delegatee, "delegator"),
        (child.issued_at_ms >= above.issued_at_ms, "issued_at"),
        (child.not_after_ms <= above.not_after_ms, "not_after"),
        (child.environments <= above.environments, "environments"),
        (within_names(child.methods, above.methods), "methods"),
        (within_names(child.operations, above.operations), "operations"),
        (within_resources(child.resources, above.resources), "resources"),
        (child.max_tier <= above.max_tier, "max_tier"),
        (child.autonomy_max <= above.autonomy_max, "autonomy_max"),
        (child.max_calls <= above.max_calls, "max_calls"),
        (_costs_within(child.max_cost, above.max_cost), "max_cost"),
        (_constraints_within(child, above), "constraints"),
        (above.denied_methods <= child.denied_methods, "denied_methods"),
        (above.denied_operations <= child.denied_operations, "denied_operations"),
        (within_resources(above.denied_resources, child.denied_resources), "denied_resources"),
    )
    wider = next((name for holds, name in checks if not holds), None)
    return None if wider is None else _malformed(f"`{wider}` is not within its parent's")


def _costs_within(narrow: Mapping[str, int], wide: Mapping[str, int]) -> bool:
    return all(currency in wide and limit <= wide[currency] for currency, limit in narrow.items())


def _constraints_within(child: Delegation, above: Delegation) -> bool:
    """A method that the child does not grant needs no constraints."""
    return all(
        implied(constraint, child.constraints.get(method, ()))
        for method, listed in above.constraints.items()
        if method in child.methods or ANY in child.methods
        for constraint in listed
    )


@dataclass(frozen=True, slots=True)
class Chain:
    """Links, first to last, each within the one before. Made by `read_chain` alone."""

    links: tuple[Link, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, first to last: what a decision names as its `delegations`."""
        return tuple(link.delegation.delegation_id for link in self.links)

    def check_next(self, child: Delegation) -> Refusal | None:
        """Return why `child` may not be signed as the next link, or None."""
        fault = _fault(child)
        return _malformed(fault) if fault else check_narrowing(self.links[-1], child)

    def check(
        self,
        call: DelegatedCall,
        *,
        now_ms: int,
        revocations: Revocations,
    ) -> Refusal | None:
        """Return why a call is not within every link, or None.

        DELEGATION_REVOKED, KEY_REVOKED, AGENT_REVOKED or PRINCIPAL_REVOKED where a link is revoked, the key
        that signed it, or somebody it is from or to; DELEGATION_EXCEEDED for everything else.
        """
        first, last = self.links[0].delegation, self.links[-1].delegation
        if first.delegator != call.principal or last.delegatee != call.agent:
            return _malformed("it is not from this principal to this agent")
        for link in self.links:
            refusal = _check_revoked(link, revocations)
            if refusal is None:
                refusal = check_link(link.delegation, call, now_ms=now_ms)
            if refusal is not None:
                return refusal
        return None


def _check_revoked(link: Link, revocations: Revocations) -> Refusal | None:
    """Return what a link hangs on that is revoked, or None.

    Whoever has a revoked key dates links as they like, so older ones end with it, too. What somebody who is
    revoked handed down or was handed leads nowhere any more.
    """
    said = link.delegation
    touched = (
        (RevocationKind.DELEGATION, said.delegation_id),
        (RevocationKind.KEY, link.key_id),
        *((RevocationKind.AGENT, name) for name in (said.delegator, said.delegatee)),
        *((RevocationKind.PRINCIPAL, name) for name in (said.delegator, said.delegatee)),
    )
    for kind, name in touched:
        if revocations.names(kind, name):
            return Refusal(REASON_OF_KIND[kind], f"{kind} `{name}`, on which `{said.delegation_id}` hangs")
    return None


def check_link(link: Delegation, call: DelegatedCall, *, now_ms: int) -> Refusal | None:
    """Return why a call is not within one link, or None. Does not look at revocations.

    Holds the call alone against `max_calls` and `max_cost`: deciders book what came before it.
    """
    checks = (
        (link.issued_at_ms <= now_ms < link.not_after_ms, "time"),
        (call.tenant == link.tenant, "tenant"),
        (call.environment in link.environments, "environments"),
        (within_names((call.method,), link.methods), "methods"),
        (within_names((call.operation,), link.operations), "operations"),
        (any(covers(scope, call.resource) for scope in link.resources), "resources"),
        (call.tier <= min(link.max_tier, TIER_OF_AUTONOMY[link.autonomy_max]), "max_tier"),
        (link.max_calls > 0, "max_calls"),
        (_affordable(link.max_cost, call.money), "max_cost"),
        (not _denied(link, call), "denied"),
    )
    outside = next((name for holds, name in checks if not holds), None)
    if outside is not None:
        return _malformed(f"`{outside}` of `{link.delegation_id}`")
    return check_arguments(link.constraints.get(call.method, ()), call.arguments)


def _affordable(limits: Mapping[str, int], money: tuple[int, str] | None) -> bool:
    if money is None:
        return True
    amount, currency = money
    return amount >= 0 and currency in limits and amount <= limits[currency]


def _denied(link: Delegation, call: DelegatedCall) -> bool:
    return (
        not {call.method, ANY}.isdisjoint(link.denied_methods)
        or not {call.operation, ANY}.isdisjoint(link.denied_operations)
        or any(covers(scope, call.resource) for scope in link.denied_resources)
    )


def read_chain(signed: Sequence[Signed], keys: KeySet, *, now_ms: int) -> Chain | Refusal:
    """Return the chain of these links, first to last, or why it is none."""
    if not 1 <= len(signed) <= MAX_DEPTH:
        return _malformed(f"{len(signed)} links, at most {MAX_DEPTH}")
    links: list[Link] = []
    for each in signed:
        link = read_delegation(each, keys, now_ms=now_ms)
        if isinstance(link, Refusal):
            return link
        refusal = check_narrowing(links[-1], link.delegation) if links else _first(link.delegation)
        if refusal is not None:
            return refusal
        links.append(link)
    return Chain(tuple(links))


def _first(link: Delegation) -> Refusal | None:
    return None if link.depth == 1 else _malformed("it begins with a link that hangs on another")
