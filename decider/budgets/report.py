"""What the book of budgets says, as rows for people: every balance, and whether bookings add up to it."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from decider.budgets.book import BudgetBook


@dataclass(frozen=True, slots=True)
class Row:
    """One balance. `held` is what open bookings hold of it: what `booked` must be."""

    account: str
    booked: int
    settled: int
    held: int
    ends_ms: int

    @property
    def adds_up(self) -> bool:
        """Whether the balance is the sum of its bookings."""
        return self.booked == self.held

    def shown(self) -> dict[str, Any]:
        """Return the row as JSON types."""
        ends = datetime.fromtimestamp(self.ends_ms / 1000, UTC).isoformat(timespec="seconds")
        return {
            "account": self.account,
            "booked": self.booked,
            "settled": self.settled,
            "used": self.booked + self.settled,
            "ends_at": ends,
            "adds_up": self.adds_up,
        }


async def rows_of(book: BudgetBook) -> tuple[Row, ...]:
    """Return every balance, by name. While deciders book, one read between two batches may not add up.

    So what does not is read again, once. Raises `StreamsError`.
    """
    rows = await _once(book)
    return rows if all(row.adds_up for row in rows) else await _once(book)


async def _once(book: BudgetBook) -> tuple[Row, ...]:
    held: Counter[str] = Counter()
    for booking in await book.every_booking():
        held.update(booking.held)
    found = [
        Row(one.account.text, one.booked, one.settled, held[one.account.account_id], one.account.ends_ms)
        for one in await book.every_balance()
    ]
    return tuple(sorted(found, key=lambda row: (row.account, row.ends_ms)))
