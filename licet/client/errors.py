"""What a gated call can end with instead of an answer, as exceptions an agent can tell apart.

What the tool itself answers with stays the `grpc.RpcError` that it is; these are the gate's own words.
"""

from collections.abc import Callable

from licet.v1.decision_pb2 import Decision


class GateError(Exception):
    """Base of everything the gate says.

    `reason` is a name of licet.refusal.Reason, `safe_reason` a sentence that may be shown, `escalate_to` who
    can be asked; empty where nobody is known.
    """

    def __init__(
        self, reason: str, safe_reason: str, *, decision_id: str = "", escalate_to: str = ""
    ) -> None:
        super().__init__(f"{safe_reason} ({reason})")
        self.reason = reason
        self.safe_reason = safe_reason
        self.decision_id = decision_id
        self.escalate_to = escalate_to


class Denied(GateError):  # noqa: N818 - the field's word; it is an answer, not a fault
    """Policy says no, and asking again does not change it."""


class Held(GateError):  # noqa: N818 - as above
    """People must answer first. The same call with the same call id goes on once they have.

    `requirements` are (rule, role, how many); `text` is the catalog's sentence about the call, never the
    model's.
    """

    def __init__(
        self,
        safe_reason: str,
        *,
        hold_id: str,
        text: str,
        requirements: tuple[tuple[str, str, int], ...],
        expires_at_ms: int,
        decision_id: str = "",
        escalate_to: str = "",
        wait: "Callable[[float | None], object] | None" = None,
    ) -> None:
        super().__init__("HELD", safe_reason, decision_id=decision_id, escalate_to=escalate_to)
        self.hold_id, self.text, self.requirements = hold_id, text, requirements
        self.expires_at_ms = expires_at_ms
        self._wait = wait

    def wait(self, timeout_s: float | None = None) -> object:
        """Wait until people have answered; then make the same call again with the same call id.

        An `AsyncClient`'s hold returns an awaitable. Raises `Denied` when somebody rejected or time ran out,
        TimeoutError after `timeout_s` seconds.
        """
        if self._wait is None:
            raise RuntimeError("this hold was not made by a client; ask again with the same call id")
        return self._wait(timeout_s)


class Refused(GateError):  # noqa: N818 - as above
    """The door did not let the call through; `outcome`: how a used-up step ended, where it is known."""

    def __init__(
        self,
        reason: str,
        safe_reason: str,
        *,
        outcome: str = "",
        decision_id: str = "",
        escalate_to: str = "",
    ) -> None:
        super().__init__(reason, safe_reason, decision_id=decision_id, escalate_to=escalate_to)
        self.outcome = outcome
        self.decision: Decision | None = None


class Unavailable(GateError):  # noqa: N818 - as above
    """No decision could be made just now; nothing was sent to the tool. Trying again is safe."""


class OutcomeUnknown(GateError):  # noqa: N818 - as above
    """The call was sent and how it ended is not known; try the same call id, never a new one."""
