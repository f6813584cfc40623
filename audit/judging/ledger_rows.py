"""How far each tool's ledger was read, and the rows whose step is not concluded yet. Pure.

Guarantees: `safe` never passes a row that a finding may still come of: whoever begins again there, after a
kill at whatever moment, reads it again. A row may so be read twice; what was said of it is not said twice
(audit.judging.announce).
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from audit.judging.findings import Change


@dataclass(frozen=True, slots=True)
class _Waiting:
    change: Change
    first: int


class LedgerRows:
    """The rows of all ledgers that one reconciler looks at."""

    def __init__(self, cursors: Mapping[str, int]) -> None:
        self._read = dict(cursors)
        self._waiting: dict[str, _Waiting] = {}

    def cursor(self, tool: str) -> int:
        """Return up to which row a ledger was read in this run."""
        return self._read.get(tool, 0)

    def passed(self, tool: str, cursor: int) -> None:
        """The row is read: judged, or waiting with its step."""
        self._read[tool] = cursor

    def wait(self, step: str, change: Change, cursor: int) -> None:
        """Keep a row until its step is concluded: the newest is judged, the first is where to begin."""
        before = self._waiting.get(step)
        first = (
            min(before.first, cursor) if before is not None and before.change.tool == change.tool else cursor
        )
        self._waiting[step] = _Waiting(change, first)

    def of(self, step: str) -> Change | None:
        """Return the row that waits with a step."""
        waiting = self._waiting.get(step)
        return None if waiting is None else waiting.change

    def conclude(self, open_steps: Container[str]) -> None:
        """Let go of the rows whose step is not open any more."""
        for step in [step for step in self._waiting if step not in open_steps]:
            del self._waiting[step]

    def safe(self) -> dict[str, int]:
        """Return where the next run may begin, by tool."""
        found = dict(self._read)
        for waiting in self._waiting.values():
            tool = waiting.change.tool
            found[tool] = min(found.get(tool, 0), waiting.first - 1)
        return found
