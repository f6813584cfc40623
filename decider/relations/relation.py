"""Who is what to which resource: what a source of relations must do, and how a decision asks it.

Rules see `context.relations`, a set of names, where the schema declares it. A source that cannot answer, in
time or at all, refuses the call; without a source the context has no relations, and such rules fail.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from decider.decision.envelope import Envelope
from decider.in_force.in_force import InForce
from decider.policy.cedar import Value
from licet.refusal import Reason, Refusal

NAME: Final = "relations"
"""The context's field."""
TIMEOUT_S: Final = 2.0


class RelationsUnavailable(Exception):  # noqa: N818 - a state of the source, not a fault of the caller
    """Nobody knows now; `str()` says why."""


class Relations(Protocol):
    """A source of relations."""

    async def between(self, principal: str, resource: str) -> frozenset[str]:
        """Return every relation that a person has to a resource, such as `order:O1`, now; none: empty.

        Raises RelationsUnavailable where that is not known: never an empty set in its place.
        """
        ...


async def related(
    source: Relations | None, envelope: Envelope, in_force: InForce
) -> Mapping[str, Value] | Refusal:
    """Return what the context says of the task's principal and the resource; empty where no rule asks."""
    if source is None or not in_force.bundle.rules.asks_relations:
        return {}
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = await source.between(envelope.task.principal, envelope.resource)
    except (RelationsUnavailable, TimeoutError) as error:
        return Refusal(Reason.FACTS_UNAVAILABLE, f"relations: {str(error) or 'no answer in time'}")
    return {NAME: tuple(sorted(found))}
