"""Loops: when calls that repeat themselves are stopped. Pure: values in, values out, bounded memory.

A history is of one task. It sees: the very same call, two calls in turn, calls that differ in one field that
does not say what they are about (its resource, its money, its tenant stay), calls in a row that brought
nothing, and denied calls that differ in one value, which is how a ceiling is felt for. A step that is asked
for again under its own call id is no repetition: it has one effect, however often it is asked for.

Not guaranteed: that a loop whose calls differ in two fields at once is seen. Budgets bound what such a loop
costs, and quotas how fast it is.
"""

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from licet.call import Arguments

MAX_ENTRIES: Final = 64
"""Calls of a task that are remembered."""
BUCKETS: Final = 16
"""Fields that are told apart; more share a bucket by their names."""
READ_FACTOR: Final = 4
"""Reads may repeat themselves so many times as often as calls that spend."""

SAME: Final = "loop-same"
ALTERNATING: Final = "loop-alternating"
JUNK: Final = "loop-junk"
PROBES: Final = "loop-probes"
EMPTY: Final = "loop-empty"
"""The rule ids under which loops are stopped."""

_AMOUNT: Final = BUCKETS
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """How often one task may repeat itself within the window; the next call is stopped."""

    window_s: int = 600
    same: int = 5
    alternating: int = 3
    junk: int = 8
    probes: int = 5
    empty: int = 8

    def for_reads(self) -> "LoopLimits":
        """Return the limits of calls that change nothing; probes and empty answers count alike."""
        return replace(
            self,
            same=self.same * READ_FACTOR,
            alternating=self.alternating * READ_FACTOR,
            junk=self.junk * READ_FACTOR,
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """A call as loops see it. `without`: by field that may be junk, or is the amount, all but that field."""

    digest: bytes
    without: tuple[tuple[int, int], ...]


def shape_of(
    method: str, digest: bytes, arguments: Arguments, *, fixed: frozenset[str], amount: str
) -> Shape:
    """Return the shape of a call: `fixed` paths say what it is about, `amount` is its money's."""
    sums: dict[int, int] = {}
    whole = _hash(method, "")
    names = sorted({".".join(path) for path, _ in arguments.leaves()})
    number = {
        name: at if len(names) <= BUCKETS else _hash(name, "") % BUCKETS for at, name in enumerate(names)
    }
    for path, value in arguments.leaves():
        name = ".".join(path)
        part = _hash(name, repr(value))
        whole = (whole + part) & _MASK
        if name in fixed:
            continue
        bucket = _AMOUNT if name == amount else number[name]
        sums[bucket] = (sums.get(bucket, 0) + part) & _MASK
    return Shape(digest, tuple((bucket, (whole - part) & _MASK) for bucket, part in sorted(sums.items())))


def _hash(name: str, value: str) -> int:
    text = f"{len(name)}:{name}{value}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


@dataclass(slots=True)
class _Entry:
    at_ms: int
    call_id: str
    shape: Shape
    permitted: bool = False


@dataclass(slots=True)
class History:
    """What one task has asked for lately."""

    entries: deque[_Entry] = field(default_factory=lambda: deque(maxlen=MAX_ENTRIES))

    def judge(
        self, shape: Shape, call_id: str, limits: LoopLimits, *, now_ms: int, empty: int = 0
    ) -> tuple[str, str] | None:
        """Return rule id and what was seen where the call is a loop's next; else None, and it is noted."""
        while self.entries and now_ms - self.entries[0].at_ms > limits.window_s * 1000:
            self.entries.popleft()
        if self._own(shape, call_id) is not None:
            return None
        found = self._loop(shape, limits, empty)
        if found is None:
            self.entries.append(_Entry(now_ms, call_id, shape))
        return found

    def permitted(self, shape: Shape, call_id: str) -> None:
        """Note that a call that was judged is permitted."""
        entry = self._own(shape, call_id)
        if entry is not None:
            entry.permitted = True

    def refused(self, shape: Shape, call_id: str, now_ms: int) -> None:
        """Note a call that was denied before it could be judged."""
        if self._own(shape, call_id) is None:
            self.entries.append(_Entry(now_ms, call_id, shape))

    def _own(self, shape: Shape, call_id: str) -> _Entry | None:
        mine = (one for one in self.entries if one.call_id == call_id)
        return next((one for one in mine if one.shape.digest == shape.digest), None)

    def _loop(self, shape: Shape, limits: LoopLimits, empty: int) -> tuple[str, str] | None:
        same = sum(one.shape.digest == shape.digest for one in self.entries)
        if same >= limits.same:
            return SAME, f"the same call {same + 1} times within {limits.window_s} s"
        if self._alternates(shape, limits.alternating):
            return ALTERNATING, f"two calls in turn, {limits.alternating} times"
        if empty >= limits.empty:
            return EMPTY, f"{empty} calls in a row brought nothing"
        for bucket, rest in shape.without:
            near = list(self._near(shape, bucket, rest))
            denied = sum(not one.permitted for one in near)
            if denied >= limits.probes:
                return PROBES, f"{denied} denied calls that differ in one value"
            if bucket != _AMOUNT and len(near) >= limits.junk:
                return JUNK, f"{len(near) + 1} calls that differ in one field within {limits.window_s} s"
        return None

    def _near(self, shape: Shape, bucket: int, rest: int) -> Iterator[_Entry]:
        """Yield one entry for each other call that is the same but for this field."""
        seen = {shape.digest}
        for entry in self.entries:
            if entry.shape.digest not in seen and (bucket, rest) in entry.shape.without:
                seen.add(entry.shape.digest)
                yield entry

    def _alternates(self, shape: Shape, pairs: int) -> bool:
        """Tell whether this call ends `pairs` turns of two calls: A-B-A-B-A-B with pairs of 3."""
        wanted = 2 * pairs - 1
        if len(self.entries) < wanted:
            return False
        digests = [one.shape.digest for one in list(self.entries)[-wanted:]] + [shape.digest]
        return digests[-1] != digests[-2] and all(
            digests[at] == digests[at + 2] for at in range(len(digests) - 2)
        )
