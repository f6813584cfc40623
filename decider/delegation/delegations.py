"""The registry of delegations in JetStream, shared by all deciders, and what a call may under a chain of it.

Each link lies under a subject of its own in the configuration stream, as its delegator signed it; whatever
lies under its `.revoked` subject revokes it, and that stream deletes nothing. Guarantees: a revocation that
was acknowledged stops the next decision of every decider, for each decision asks the stream's leader for it;
links are verified at each decision, so whoever can write to NATS can take authority away, not make any or
give it back. Without an answer from the leader there is no decision. Permits that are out end by the
revocation list, which doors know.
"""

import asyncio
from collections import OrderedDict
from typing import Final

from decider.decision.envelope import Envelope
from decider.in_force.in_force import InForce
from licet.delegation import MAX_DEPTH, Chain, DelegatedCall, read_chain
from licet.refusal import Reason, Refusal
from licet.statement import canonical, parse_signed
from licet.streams import (
    Connection,
    Publisher,
    list_subjects,
    read_last,
    replace_last,
    stream_config,
    subject_delegation,
    subject_delegation_revoked,
)
from licet.strict import strict_parse
from licet.v1 import delegation_pb2
from licet.v1.statement_pb2 import Signed

MAX_KNOWN: Final = 10_000
"""Links that are remembered as they were signed; whether one is revoked is remembered of none."""

SignedChain = tuple[Signed, ...] | Refusal
"""The links a task rests on, first to last, not yet verified, empty for none; or why there are not."""


class Registry:
    """The links of one environment."""

    def __init__(self, nc: Connection, environment: str) -> None:
        self._nc, self._environment = nc, environment
        self._known: OrderedDict[str, Signed] = OrderedDict()

    async def chain(self, last: str) -> SignedChain:
        """Return the links that end with `last`, first to last; DELEGATION_REVOKED where one is revoked.

        DELEGATION_EXCEEDED where one is not there. Raises `StreamsError`.
        """
        links: list[Signed] = []
        names: list[str] = []
        name = last
        while name:
            if len(links) == MAX_DEPTH:
                return Refusal(Reason.DELEGATION_EXCEEDED, f"more than {MAX_DEPTH} links end with `{last}`")
            link = await self.link(name)
            if link is None:
                return Refusal(Reason.DELEGATION_EXCEEDED, f"delegation `{name}` is not in the registry")
            links.append(link)
            names.append(name)
            name = parent_of(link)
        for name, revoked in zip(names, await asyncio.gather(*map(self.revoked, names)), strict=True):
            if revoked:
                return Refusal(Reason.DELEGATION_REVOKED, f"delegation `{name}`")
        return tuple(reversed(links))

    async def link(self, name: str) -> Signed | None:
        """Return a link as it was signed, None where there is none of that id. Raises `StreamsError`."""
        known = self._known.get(name)
        if known is not None:
            self._known.move_to_end(name)
            return known
        try:
            subject = subject_delegation(self._environment, name)
        except ValueError:
            return None  # no id, so no link has it
        stored = await read_last(self._nc, stream_config(self._environment), subject)
        signed = parse_signed(stored.data) if stored is not None else None
        if signed is None or isinstance(signed, Refusal):
            return None
        message = strict_parse(delegation_pb2.Delegation, signed.payload)
        if isinstance(message, Refusal) or message.delegation_id != name:
            return None
        self._known[name] = signed
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return signed

    async def revoked(self, name: str) -> bool:
        """Say whether a link was revoked, as the leader has it now. Raises `StreamsError`."""
        subject = subject_delegation_revoked(self._environment, name)
        return await read_last(self._nc, stream_config(self._environment), subject) is not None

    async def names(self) -> tuple[str, ...]:
        """Return the ids of all links, revoked ones too. Raises `StreamsError`."""
        pattern = f"licet.config.{self._environment}.delegation.*.link"
        found = await list_subjects(self._nc, stream_config(self._environment), pattern)
        return tuple(subject.split(".")[-2] for subject in found)


async def put_link(publisher: Publisher, environment: str, name: str, signed: Signed) -> bool:
    """Store a link, once; False where one of that id is stored. Raises `StreamsError`."""
    subject = subject_delegation(environment, name)
    return await replace_last(publisher, subject, canonical(signed), 0) is not None


async def put_revoked(publisher: Publisher, environment: str, name: str, said: str) -> None:
    """Revoke a link with all below it, for good. Raises `StreamsError`.

    `said`: for people who look into the stream; whatever it says, the link is revoked.
    """
    await publisher.publish(subject_delegation_revoked(environment, name), said.encode())


def parent_of(signed: Signed) -> str:
    """Return the id of the link that one hangs on, empty for none; of a link that `Registry` returned."""
    return delegation_pb2.Delegation.FromString(signed.payload).parent_id


def check_delegation(
    envelope: Envelope, signed: SignedChain, in_force: InForce, *, now_ms: int
) -> Chain | Refusal | None:
    """Return the links a call rests on, or why it is not within them all.

    A task without a delegation rests on none: the rules alone say what it may.
    """
    if not envelope.task.delegation:
        return None
    if isinstance(signed, Refusal):
        return signed
    chain = read_chain(signed, in_force.keys, now_ms=now_ms)
    if not isinstance(chain, Chain):
        return chain
    if chain.ids[-1] != envelope.task.delegation:
        return Refusal(Reason.DELEGATION_EXCEEDED, "these are the links of another task")
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
