"""What is revoked: decisions, keys, tasks, agents, principals, delegations, tools, whole environments.

Guarantees: a decision that touches a revoked name is refused, and a list never loses an entry within a
generation of the stores (`succeeds`). How soon a revocation is heard of is the beacon's matter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from licet.dsse import PayloadType
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.statement import verify
from licet.strict import canonical, strict_parse
from licet.v1 import keys_pb2
from licet.v1.decision_pb2 import Decision
from licet.v1.statement_pb2 import Signed

REVOCATIONS_VERSION = 1
"""Version of the message RevocationList that is read."""


class RevocationKind(StrEnum):
    """What kind of thing is revoked."""

    DECISION = "DECISION"
    KEY = "KEY"
    TASK = "TASK"
    AGENT = "AGENT"
    PRINCIPAL = "PRINCIPAL"
    DELEGATION = "DELEGATION"
    TOOL = "TOOL"
    ENVIRONMENT = "ENVIRONMENT"


_KINDS: Mapping[int, RevocationKind] = {
    keys_pb2.RevocationKind.Value(f"REVOCATION_KIND_{kind}"): kind for kind in RevocationKind
}

_NUMBERS: Mapping[RevocationKind, keys_pb2.RevocationKind.ValueType] = {
    kind: keys_pb2.RevocationKind.Value(f"REVOCATION_KIND_{kind}") for kind in RevocationKind
}

REASON_OF_KIND: Mapping[RevocationKind, Reason] = {
    RevocationKind.DECISION: Reason.DECISION_REVOKED,
    RevocationKind.KEY: Reason.KEY_REVOKED,
    RevocationKind.TASK: Reason.TASK_REVOKED,
    RevocationKind.AGENT: Reason.AGENT_REVOKED,
    RevocationKind.PRINCIPAL: Reason.PRINCIPAL_REVOKED,
    RevocationKind.DELEGATION: Reason.DELEGATION_REVOKED,
    RevocationKind.TOOL: Reason.TOOL_STOPPED,
    RevocationKind.ENVIRONMENT: Reason.ENVIRONMENT_STOPPED,
}
"""With which reason a call is refused that touches a revoked thing of each kind; total."""


@dataclass(frozen=True, slots=True)
class Revocations:
    """Everything that is revoked in an environment: pairs of a kind and an id."""

    seq: int
    environment: str
    entries: frozenset[tuple[RevocationKind, str]]

    def names(self, kind: RevocationKind, name: str) -> bool:
        """Say whether this very thing is revoked."""
        return (kind, name) in self.entries

    def check(self, decision: Decision, key_id: str) -> Refusal | None:
        """Return why a decision signed by `key_id` no longer holds, or None. Widest first."""
        if not self.entries:
            return None
        touched = [
            (RevocationKind.ENVIRONMENT, decision.environment),
            (RevocationKind.TOOL, decision.audience),
            (RevocationKind.KEY, key_id),
            (RevocationKind.DECISION, decision.decision_id),
            (RevocationKind.TASK, decision.task_id),
            (RevocationKind.AGENT, decision.agent),
            (RevocationKind.PRINCIPAL, decision.principal),
            *((RevocationKind.DELEGATION, delegation) for delegation in decision.delegations),
        ]
        for kind, name in touched:
            if (kind, name) in self.entries:
                return Refusal(REASON_OF_KIND[kind], f"revoked: {kind} `{name}`")
        return None


NONE = Revocations(0, "", frozenset())
"""Nothing was ever revoked."""


def read_revocations(signed: Signed, keys: KeySet, *, environment: str, now_ms: int) -> Revocations | Refusal:
    """Return the revocation list that a decider key signed for `environment`, or why not.

    An entry of an unknown kind refuses the whole list: it may name the very thing that is about to be used.
    """
    payload = verify(PayloadType.REVOCATIONS, signed, keys, now_ms=now_ms)
    if isinstance(payload, Refusal):
        return payload
    message = strict_parse(keys_pb2.RevocationList, payload)
    if isinstance(message, Refusal):
        return message
    if message.environment != environment:
        return Refusal(
            Reason.ENVIRONMENT_MISMATCH, f"the revocation list is for environment `{message.environment}`"
        )
    if message.version != REVOCATIONS_VERSION or message.revocations_seq < 1:
        what = f"version {message.version}, seq {message.revocations_seq}"
        return Refusal(Reason.PERMIT_MALFORMED, f"revocation list: {what}")
    entries = set()
    for entry in message.revocations:
        kind = _KINDS.get(entry.kind)
        if kind is None or not entry.id:
            return Refusal(Reason.PERMIT_MALFORMED, f"revocation list: kind {entry.kind}, id `{entry.id}`")
        entries.add((kind, entry.id))
    return Revocations(message.revocations_seq, environment, frozenset(entries))


def with_revocations(
    listed: keys_pb2.RevocationList,
    revoked: Iterable[tuple[RevocationKind, str]],
    *,
    lifted: Iterable[tuple[RevocationKind, str]] = (),
    now_ms: int,
) -> bytes:
    """Return the payload of the list that follows `listed`, for a decider key to sign.

    What stands in it stays, but for `lifted`: doors take that in a new generation of the stores only.
    """
    gone = {(_NUMBERS[kind], name) for kind, name in lifted}
    following = keys_pb2.RevocationList(
        version=REVOCATIONS_VERSION,
        revocations_seq=listed.revocations_seq + 1,
        environment=listed.environment,
        revocations=[entry for entry in listed.revocations if (entry.kind, entry.id) not in gone],
    )
    known = {(entry.kind, entry.id) for entry in following.revocations}
    for kind, name in revoked:
        if (_NUMBERS[kind], name) not in known:
            following.revocations.add(kind=_NUMBERS[kind], id=name, revoked_at_ms=now_ms)
            known.add((_NUMBERS[kind], name))
    return canonical(following)


def succeeds(previous: Revocations, new: Revocations) -> Refusal | None:
    """Return why `new` may not replace `previous` within one generation, or None. Lists only grow."""
    if new.seq < previous.seq:
        return Refusal(Reason.BEACON_STALE, f"revocation list {new.seq} after {previous.seq}")
    lost = previous.entries - new.entries
    if lost:
        kind, name = min(lost)
        return Refusal(Reason.BEACON_STALE, f"revocation list {new.seq} lost {kind} `{name}`")
    if new.seq == previous.seq and new.entries != previous.entries:
        return Refusal(Reason.BEACON_STALE, f"two revocation lists with the number {new.seq}")
    return None
