"""What stands in the guard's place when nobody gates: the same refund, no permit, no proof."""

import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self


def require_unguarded(book: sqlite3.Connection) -> None:
    """Raise ValueError when this ledger is, or was, guarded: the demonstration needs a copy of its own."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'licet_spend'"
    if book.execute(query).fetchone() is not None:
        raise ValueError("this ledger is guarded: the ungated tool needs a ledger of its own")


class LooseStep:
    """One transaction that asks nobody. Every call is a new step, so a repeat pays again."""

    def __init__(self, book: sqlite3.Connection) -> None:
        self._book = book
        self._entries = 0
        self.spend_id = uuid.uuid4().hex

    def __enter__(self) -> Self:
        self._book.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._book.execute("COMMIT" if error is None else "ROLLBACK")

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """Run one statement."""
        return self._book.execute(statement, parameters)

    def check(self, *, tenant: str, facts: Mapping[str, int | str | bool | bytes]) -> None:
        """Check nothing."""

    def entry(self, *, account: str, amount_minor: int, currency: str) -> int:
        """Count the ledger rows; nobody is told of them."""
        del account, amount_minor, currency
        self._entries += 1
        return self._entries
