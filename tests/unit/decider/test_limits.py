"""Limits as one: what is taken before a permit leaves is given back when it does not."""

import asyncio
from typing import Any

import pytest

from decider.decision.limits import Bookings, Limits, Seen, Stop, Wish
from licet.hold import Requirement
from licet.refusal import Reason, Refusal
from licet.v1.decision_pb2 import Decision

STOP = Stop(Refusal(Reason.BUDGET_EXHAUSTED), ("budget",))
WISH: Any = Wish.__new__(Wish)


class Counter:
    """One limit over a real counter: books while there is room, stops or fails as told."""

    def __init__(self, room: int, *, sees: Seen | None = None, fails: bool = False) -> None:
        self.room, self.sees, self.fails = room, sees or Seen(), fails

    async def look(self, wish: Wish) -> Seen:
        del wish
        return self.sees

    async def book(self, wish: Wish, decision: Decision) -> Any:
        del wish, decision
        if self.fails:
            raise ConnectionError
        if not self.room:
            return STOP
        self.room -= 1
        return self

    async def release(self) -> None:
        self.room += 1


def test_all_book_or_none_does() -> None:
    """The second has no room: the first gives back what it took, and the third is not asked."""
    first, second, third = Counter(3), Counter(0), Counter(3)
    assert asyncio.run(Limits([first, second, third]).book(WISH, Decision())) == STOP
    assert (first.room, third.room) == (3, 3)
    second.room = 1
    booked = asyncio.run(Limits([first, second, third]).book(WISH, Decision()))
    assert isinstance(booked, Bookings)
    assert (first.room, second.room, third.room) == (2, 0, 2)
    asyncio.run(booked.release())
    assert (first.room, second.room, third.room) == (3, 1, 3)
    asyncio.run(booked.release())
    assert (first.room, second.room, third.room) == (3, 1, 3), "given back once"


def test_limit_that_fails_leaves_nothing_booked() -> None:
    first = Counter(3)
    with pytest.raises(ConnectionError):
        asyncio.run(Limits([first, Counter(1, fails=True)]).book(WISH, Decision()))
    assert first.room == 3


def test_what_limits_see_is_united_and_the_first_stop_gives_the_reason() -> None:
    need = Requirement("large-spend", "finance-lead", 1)
    other = Stop(Refusal(Reason.LOOP_BROKEN), ("loop",))
    limits = Limits(
        [
            Counter(1, sees=Seen(needs=(need,), context={"session_calls": 3})),
            Counter(1, sees=Seen(stop=STOP, context={"session_amount_minor": 7})),
            Counter(1, sees=Seen(stop=other)),
        ]
    )
    seen = asyncio.run(limits.look(WISH))
    assert (seen.stop, seen.needs) == (STOP, (need,))
    assert seen.context == {"session_calls": 3, "session_amount_minor": 7}
    assert asyncio.run(Limits().look(WISH)) == Seen()
