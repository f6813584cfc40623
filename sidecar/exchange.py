"""What goes through the door, free of any transport: a request in, a reply out.

Guaranteed: nothing here knows gRPC, HTTP or MCP. A transport turns its own call into a `Request`, and a
`Reply` back into its own answer. Not guaranteed: that a `Request` is honest; only `peer` was authenticated,
by the transport, before it got here.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from licet.call import MAX_REQUEST_BYTES, left_out_mark
from licet.metadata import CALL_ID
from licet.printable import printable
from licet.refusal import Reason, Refusal

Pairs: TypeAlias = tuple[tuple[str, str | bytes], ...]
"""Metadata as it travelled: a multi-map in order; keys ending in `-bin` have bytes, all others text."""

_CALL_ID: Final = re.compile(rb"[\x21-\x7e]{1,128}")
"""As the decider takes it."""

MAX_ECHO: Final = 256
"""Characters kept of what a caller merely claims: a path, a call id, a task id."""

OK: Final = 0
"""The status code of success, as in `google.rpc.Code`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call as a caller sent it.

    Attributes:
        path: The raw path, unchanged; matched exactly and never normalised (CVE-2026-33186).
        metadata: Everything the caller sent beside the body.
        peer: SPIFFE id that the transport authenticated; empty when there was none.
        origin: Network address of a caller without identity, for its quota; empty for one with.
        deadline_ms: Monotonic ms after which the caller no longer waits; None when it gave none.
        receive: Reads the body, once, of any size; a refusal when it never ends, or the caller went away.
        send: Server streaming: hands one message to the caller; does nothing once the caller is gone.
        fault: What went wrong while this request was built; empty for a whole one.
    """

    path: str
    metadata: Pairs
    peer: str
    origin: str
    deadline_ms: int | None
    receive: Callable[[], Awaitable[bytes | Refusal]]
    send: Callable[[bytes], Awaitable[None]] | None = None
    fault: str = ""

    def values(self, key: str) -> tuple[bytes, ...]:
        """Return every value of `key` as bytes, in order."""
        return tuple(
            [
                value if isinstance(value, bytes) else value.encode()
                for name, value in self.metadata
                if name == key
            ]
        )

    def call_id(self) -> str | None:
        """Return the caller's id of the step; empty when it sent none, None when what it sent is no one id.

        Two ids are no id, and what may not stand in metadata could not be told back to its caller.
        """
        found = self.values(CALL_ID)
        if not found:
            return ""
        return found[0].decode("ascii") if len(found) == 1 and _CALL_ID.fullmatch(found[0]) else None

    def value(self, key: str) -> str:
        """Return the one text value of `key`; empty when there is none or more than one."""
        found = self.values(key)
        return found[0].decode("utf-8", "replace") if len(found) == 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What came back from the tool, or that nothing could be sent.

    Attributes:
        code: Status code as in `google.rpc.Code`.
        message: The tool's status message.
        body: The reply; empty on errors and for streams.
        metadata: Initial metadata.
        trailers: Trailing metadata, with the status details.
        effect: The guard's word: `executed`, `stored`, `none`; empty when no guard spoke.
        reason: Reason name of domain `licet` in the status details; empty when there is none.
        sent: False only when it is certain that no byte of the call left this process.
    """

    code: int
    message: str = ""
    body: bytes = b""
    metadata: Pairs = ()
    trailers: Pairs = ()
    effect: str = ""
    reason: str = ""
    sent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The tool's answer as the caller may see it."""

    code: int
    message: str
    body: bytes
    metadata: Pairs
    trailers: Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The door's own answer: why not. `refusal.detail` is for operators and stays here.

    Attributes:
        refusal: The reason and the check that gave it.
        safe: What may be said beside the reason, as ErrorInfo metadata (lowerCamel keys).
        trailers: Metadata to send along.
    """

    refusal: Refusal
    safe: tuple[tuple[str, str], ...] = ()
    trailers: Pairs = ()


Reply: TypeAlias = Answered | Refused
"""How a call ends for its caller."""


def echo(text: str) -> str:
    """Return what a caller claims, cut and made printable: a path forges no line of a log or trace."""
    return printable(text, MAX_ECHO)


async def sized(request: Request, k_tool: bytes, weigh: Callable[[int], Refusal | None]) -> bytes | Refusal:
    """Return the body of a call; of one too large, its size and digest are all that is kept.

    `weigh` has the caller answer for its size, before anything is made of it.
    """
    body = await request.receive()
    if isinstance(body, Refusal):
        return body
    refusal = weigh(len(body))
    if refusal is not None or len(body) <= MAX_REQUEST_BYTES:
        return body if refusal is None else refusal
    return Refusal(Reason.TOO_LARGE, detail=await asyncio.to_thread(left_out_mark, body, k_tool))
