"""Letters just put, kept in memory so that sending them need not read the disk.

Guaranteed: at most `RECENT_BYTES` of them, and those in the order of their `put`. Not guaranteed: that a
letter is here; whoever misses one reads it from the spool, where all of them are.
"""

from collections import deque
from typing import Final, Generic, TypeVar

RECENT_BYTES: Final = 4 << 20
"""How many bytes of letters are kept; while that many wait, further ones are on disk only."""

L = TypeVar("L")


class Recent(Generic[L]):
    """A row of letters by where they begin in the spool."""

    def __init__(self) -> None:
        self._row: deque[tuple[int, int, L]] = deque()
        self._bytes = 0

    def put(self, begin: int, end: int, letter: L) -> None:
        """Keep a letter that lies from `begin` to `end`, if there is room."""
        if self._bytes + end - begin <= RECENT_BYTES:
            self._row.append((begin, end, letter))
            self._bytes += end - begin

    def at(self, begin: int) -> tuple[int, L] | None:
        """Return (end, letter) of the letter that begins there, None where it is not kept.

        Letters before it are let go of: they are sent in order.
        """
        row = self._row
        while row and row[0][0] < begin:
            first = row.popleft()
            self._bytes -= first[1] - first[0]
        return row[0][1:] if row and row[0][0] == begin else None
