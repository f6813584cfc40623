"""What is told of a hold: that it waits, was answered or ran out, and for whom; never what the call is. Pure.

A notice names no amount, no resource, no text of the catalog and no argument: it may lie in mailboxes and
chat rooms. Who is to answer looks the hold up under their own identity.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

from licet.v1.hold_pb2 import Hold


class NoticeKind(StrEnum):
    """What happened to a hold."""

    REQUESTED = "requested"
    VOTED = "voted"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell."""

    kind: NoticeKind
    environment: str
    hold_id: str
    tenant: str
    agent: str
    task_id: str
    method: str
    roles: tuple[str, ...]
    expires_at_ms: int

    def body(self) -> bytes:
        """Return it as it is sent: one JSON object with sorted keys."""
        value = {
            "type": f"hold.{self.kind}",
            "environment": self.environment,
            "hold_id": self.hold_id,
            "tenant": self.tenant,
            "agent": self.agent,
            "task_id": self.task_id,
            "method": self.method,
            "roles": list(self.roles),
            "expires_at_ms": self.expires_at_ms,
        }
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def notice_of(kind: NoticeKind, hold: Hold) -> Notice:
    """Return the notice about a hold."""
    return Notice(
        kind=kind,
        environment=hold.environment,
        hold_id=hold.hold_id,
        tenant=hold.tenant,
        agent=hold.agent,
        task_id=hold.task_id,
        method=hold.method,
        roles=tuple(sorted({need.role for need in hold.requirements})),
        expires_at_ms=hold.expires_at_ms,
    )
