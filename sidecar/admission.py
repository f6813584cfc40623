"""Check 1: what a caller may ask of this door, and what it may have open here.

Guaranteed: a call takes one token of its caller's quota before any other work, and one more for each
`BYTES_OF_A_TOKEN` of its arguments before they are read, so that a call costs its caller about what it costs
the door; of one caller never more than `EACH` is open at once, of all together never more than `EVERY`, and
what one has takes nothing from another until all is taken. A call is open from here to its answer, also when
its caller has gone. Not guaranteed: anything over several workers of one sidecar, which count each for
itself; that a tool can do so much at once.
"""

from collections.abc import Callable
from typing import Final

from licet.intake import Intake, Share
from licet.refusal import Reason, Refusal
from sidecar.quota import Quota

BYTES_OF_A_TOKEN: Final = 2_048
"""As at a decider (docs/adr/0195)."""

EACH: Final = Share(500, 16 << 20)
"""Calls of one caller, and the bytes of their arguments: three times as many where they are walked."""

EVERY: Final = Share(4_000, 64 << 20)
"""Of all callers: a process has 256 MB where the chart's values stand."""


class Admission:
    """Who has how much open.

    Args:
        quota: Tokens of each caller.
        monotonic_ms: The quota's clock.
    """

    def __init__(self, quota: Quota, monotonic_ms: Callable[[], int]) -> None:
        self._quota, self._monotonic_ms = quota, monotonic_ms
        self._open = Intake(EACH, EVERY)

    def enter(self, bucket: str) -> "Place | Refusal":
        """Take a token and a place, or refuse with QUOTA_EXCEEDED."""
        refusal = self._quota.take(bucket, monotonic_ms=self._monotonic_ms())
        if refusal is not None:
            return refusal
        return Place(self, bucket) if self._open.enter(bucket) else _full("too many open calls")

    def weigh(self, bucket: str, size: int) -> Refusal | None:
        """Take the tokens and the room that `size` bytes of arguments cost, or refuse with QUOTA_EXCEEDED."""
        cost = size // BYTES_OF_A_TOKEN
        refusal = self._quota.take(bucket, monotonic_ms=self._monotonic_ms(), cost=cost) if cost else None
        if refusal is not None:
            return refusal
        return None if self._open.hold(bucket, size) else _full("too many bytes in open calls")

    def leave(self, bucket: str, size: int) -> None:
        """A call is over that entered, and holds `size` bytes by now."""
        self._open.leave(bucket, size)


class Place:
    """One open call's, to be left at its end; made by `Admission.enter`."""

    __slots__ = ("_admission", "_bucket", "_size")

    def __init__(self, admission: Admission, bucket: str) -> None:
        self._admission, self._bucket, self._size = admission, bucket, 0

    def weigh(self, size: int) -> Refusal | None:
        """Answer for the arguments, once."""
        refusal = self._admission.weigh(self._bucket, size)
        if refusal is None:
            self._size = size
        return refusal

    def __enter__(self) -> None:
        """Open from `Admission.enter` on."""

    def __exit__(self, *_: object) -> None:
        """Give the place back."""
        self._admission.leave(self._bucket, self._size)


def _full(detail: str) -> Refusal:
    return Refusal(Reason.QUOTA_EXCEEDED, detail=detail, step=1)
