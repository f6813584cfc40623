"""Refusals that come too fast to be told one by one: counted, and told once a second.

Whoever is within its quota has a share of refusals that are told one by one, `Alone`; past it they are
counted as well, so that no caller fills the record with its own refusals.

Guaranteed: of one bucket and reason the first refusal is told at once, and no more than one event a second
after it; the numbers told add up to the refusals, none invented; memory and events are bounded by
`MAX_WINDOWS` whatever a flood claims, past it refusals are counted together under `OTHERS`. A number whose
event could not be kept is told with the next. Not guaranteed: the last second's numbers of a process that
is killed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from licet.event import EventKind
from licet.refusal import Reason

WINDOW_MS: Final = 1_000
"""Between two events of one bucket and reason, in ms."""

MAX_WINDOWS: Final = 100
"""Buckets and reasons that are told apart at once."""

OTHERS: Final = "others"
"""The bucket of those that are not told apart; no caller and no address has this name."""


ALONE_BURST: Final = 1_000
"""Refusals of one bucket that are told one by one at once …"""

ALONE_PER_SECOND: Final = 5.0
"""… and each second after it: 18,000 events an hour, whatever the bucket's quota."""

MAX_ALONE: Final = 10_000
"""Buckets whose share is remembered; past it, newcomers are counted until one has its whole share again."""


@dataclass(frozen=True, slots=True)
class Count:
    """What is to be told: so many calls of a bucket were refused with a reason since the event before."""

    bucket: str
    reason: Reason
    number: int

    @property
    def detail(self) -> str:
        """How an event's `detail` says it."""
        calls = "1 call" if self.number == 1 else f"{self.number} calls"
        return f"{calls} of `{self.bucket}` refused"


@dataclass(slots=True)
class _Window:
    began_ms: int
    untold: int = 0


class RefusalCounts:
    """Counts by bucket and reason; says what to tell and when. Does no I/O."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, Reason], _Window] = {}

    def refused(self, bucket: str, reason: Reason, *, monotonic_ms: int) -> Count | None:
        """Count one refusal; return what to tell now, or None while its second lasts."""
        key = bucket, reason
        if key not in self._windows and len(self._windows) >= MAX_WINDOWS:
            key = OTHERS, reason
        window = self._windows.get(key)
        if window is None:
            self._windows[key] = _Window(monotonic_ms)
            return Count(*key, 1)
        window.untold += 1
        return self._told(key, window, monotonic_ms) if _over(window, monotonic_ms) else None

    def due(self, *, monotonic_ms: int, last: bool = False) -> tuple[Count, ...]:
        """Return what is to be told of seconds that are over, of all when it is the `last` time."""
        counts = []
        for key, window in list(self._windows.items()):
            if not (last or _over(window, monotonic_ms)):
                continue
            if window.untold:
                counts.append(self._told(key, window, monotonic_ms))
            else:
                del self._windows[key]
        return tuple(counts)

    def give_back(self, count: Count, *, monotonic_ms: int) -> None:
        """Take back what could not be told, to tell it with the next."""
        window = self._windows.setdefault((count.bucket, count.reason), _Window(monotonic_ms))
        window.untold += count.number

    def _told(self, key: tuple[str, Reason], window: _Window, monotonic_ms: int) -> Count:
        count = Count(*key, window.untold)
        window.began_ms, window.untold = monotonic_ms, 0
        return count


def _over(window: _Window, monotonic_ms: int) -> bool:
    return monotonic_ms - window.began_ms >= WINDOW_MS


@dataclass(slots=True)
class _Left:
    number: float
    at_ms: int


class Alone:
    """What may still be told one by one, by bucket. Does no I/O."""

    def __init__(self, burst: int = ALONE_BURST, per_second: float = ALONE_PER_SECOND) -> None:
        self._burst, self._per_ms = float(burst), per_second / 1_000
        self._left: dict[str, _Left] = {}

    def take(self, bucket: str, *, monotonic_ms: int) -> bool:
        """Take one of a bucket's share; False where it is used up."""
        left = self._left.get(bucket)
        if left is None:
            if len(self._left) >= MAX_ALONE:
                self._forget(monotonic_ms)
            if len(self._left) >= MAX_ALONE:
                return False
            left = self._left[bucket] = _Left(self._burst, monotonic_ms)
        self._fill(left, monotonic_ms)
        if left.number < 1:
            return False
        left.number -= 1
        return True

    def _fill(self, left: _Left, monotonic_ms: int) -> None:
        earned = max(0, monotonic_ms - left.at_ms) * self._per_ms
        left.number, left.at_ms = min(self._burst, left.number + earned), monotonic_ms

    def _forget(self, monotonic_ms: int) -> None:
        for bucket, left in list(self._left.items()):
            self._fill(left, monotonic_ms)
            if left.number >= self._burst:
                del self._left[bucket]


EventOf = Callable[[Count], tuple[EventKind, dict[str, Any]]]
"""Makes the event of a count."""


class FloodRecord:
    """Tells counts as events.

    Args:
        append: Of the process's journal.
        event_of: Makes the event of a count.
        monotonic_ms: The clock of the seconds.
    """

    def __init__(
        self, append: Callable[..., Awaitable[str]], event_of: EventOf, monotonic_ms: Callable[[], int]
    ) -> None:
        self._append, self._event_of, self._monotonic_ms = append, event_of, monotonic_ms
        self._counts = RefusalCounts()
        self._alone = Alone()

    def alone(self, bucket: str) -> bool:
        """Take one of the refusals of `bucket` that are told one by one; False where they are used up."""
        return self._alone.take(bucket, monotonic_ms=self._monotonic_ms())

    async def refused(self, bucket: str, reason: Reason, known: dict[str, Any]) -> None:
        """Count one refusal. `known` are the fields of this very call, for an event that tells of it alone.

        Raises what `append` raises; the refusal is counted all the same.
        """
        count = self._counts.refused(bucket, reason, monotonic_ms=self._monotonic_ms())
        if count is not None:
            await self._tell(count, known if count.number == 1 else {})

    async def tell(self, *, last: bool = False) -> None:
        """Tell what is due. To be called every second, and once more at the `last`.

        Raises what `append` raises; nothing counted is lost by it.
        """
        due = self._counts.due(monotonic_ms=self._monotonic_ms(), last=last)
        for number, count in enumerate(due):
            try:
                await self._tell(count, {})
            except BaseException:
                for untold in due[number + 1 :]:
                    self._counts.give_back(untold, monotonic_ms=self._monotonic_ms())
                raise

    async def _tell(self, count: Count, known: dict[str, Any]) -> None:
        kind, fields = self._event_of(count)
        try:
            await self._append(kind, **known | fields)
        except BaseException:  # a cancel too: whatever came in between, the number is not lost
            self._counts.give_back(count, monotonic_ms=self._monotonic_ms())
            raise
