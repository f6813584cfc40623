"""The registry of delegations: a directory of signed links, one file each, `<id>.delegation`.

What lies there is verified at each decision, so whoever can write there can take authority away but not make
any. A directory that changed is read again at the next decision: a link that was taken out stops the tasks
that rest on it at once. Permits that are out already end by the revocation list, which doors know.

How many calls were made and how much money moved under a link is not counted here: each call alone is held
against `max_calls` and `max_cost`.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from decider.decision.envelope import Envelope
from decider.in_force.in_force import InForce
from licet.delegation import MAX_DEPTH, Chain, DelegatedCall, read_chain
from licet.keyfile import KeyFileError, read_signed
from licet.log import log
from licet.refusal import Reason, Refusal
from licet.strict import strict_parse
from licet.v1 import delegation_pb2
from licet.v1.statement_pb2 import Signed

logger = logging.getLogger(__name__)

SUFFIX: Final = ".delegation"
MAX_LINKS: Final = 100_000

Links = Mapping[str, Signed]
"""Signed links by id, not yet verified."""


class Registry:
    """The links of a directory; without one there are none."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._read_at_ns = -1
        self._links: Links = MappingProxyType({})

    @property
    def links(self) -> Links:
        """What lies in the directory now; what cannot be read is not there, and logged."""
        if self._directory is None:
            return self._links
        changed_ns = self._directory.stat().st_mtime_ns
        if changed_ns != self._read_at_ns:
            self._links, faults = read_links(self._directory)
            self._read_at_ns = changed_ns
            for fault in faults:
                log(logger, logging.ERROR, "delegation.unreadable", detail=fault)
        return self._links


def read_links(directory: Path) -> tuple[Links, tuple[str, ...]]:
    """Return the links of a directory by id, and what is wrong with files that are none."""
    links: dict[str, Signed] = {}
    faults: list[str] = []
    for path in sorted(directory.glob(f"*{SUFFIX}"))[:MAX_LINKS]:
        try:
            signed = read_signed(path)
        except KeyFileError as error:
            faults.append(str(error))
            continue
        message = strict_parse(delegation_pb2.Delegation, signed.payload)
        if isinstance(message, Refusal) or message.delegation_id != path.name.removesuffix(SUFFIX):
            faults.append(f"`{path}` is no delegation of that id")
            continue
        links[message.delegation_id] = signed
    return MappingProxyType(links), tuple(faults)


def signed_chain(links: Links, last: str) -> tuple[Signed, ...] | Refusal:
    """Return the signed links that end with `last`, first to last, or DELEGATION_EXCEEDED."""
    chain: list[Signed] = []
    name = last
    while name:
        if name not in links:
            return Refusal(Reason.DELEGATION_EXCEEDED, f"delegation `{name}` is not in the registry")
        if len(chain) == MAX_DEPTH:
            return Refusal(Reason.DELEGATION_EXCEEDED, f"more than {MAX_DEPTH} links end with `{last}`")
        chain.append(links[name])
        name = delegation_pb2.Delegation.FromString(links[name].payload).parent_id
    return tuple(reversed(chain))


def check_delegation(
    envelope: Envelope, links: Links, in_force: InForce, *, now_ms: int
) -> Chain | Refusal | None:
    """Return the links a call rests on, or why it is not within them all.

    A task without a delegation rests on none: the rules alone say what it may.
    """
    if not envelope.task.delegation:
        return None
    signed = signed_chain(links, envelope.task.delegation)
    if isinstance(signed, Refusal):
        return signed
    chain = read_chain(signed, in_force.keys, now_ms=now_ms)
    if not isinstance(chain, Chain):
        return chain
    refusal = chain.check(_call(envelope, in_force), now_ms=now_ms, revocations=in_force.revocations)
    return chain if refusal is None else refusal


def _call(envelope: Envelope, in_force: InForce) -> DelegatedCall:
    task, method = envelope.task, envelope.method
    return DelegatedCall(
        environment=in_force.config.environment,
        tenant=task.tenant,
        principal=task.principal,
        agent=task.agent,
        method=method.path,
        operation=method.operation,
        resource=envelope.resource or f"tool:{envelope.catalog.tool}",
        tier=method.tier,
        arguments=envelope.arguments,
        money=envelope.money,
    )
