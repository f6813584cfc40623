"""Counted refusals: a flood is bounded on record, and every refusal of it is counted once."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.event import EventKind
from licet.flood import MAX_ALONE, MAX_WINDOWS, OTHERS, Alone, Count, FloodRecord, RefusalCounts
from licet.refusal import Reason

QUOTA = Reason.QUOTA_EXCEEDED


def test_the_first_refusal_is_told_at_once_and_a_flood_once_a_second() -> None:
    counts = RefusalCounts()
    told = [counts.refused("a", QUOTA, monotonic_ms=at) for at in (0, 1, 999, 1_000, 1_500)]
    assert told == [Count("a", QUOTA, 1), None, None, Count("a", QUOTA, 3), None]
    assert counts.due(monotonic_ms=1_999) == ()
    assert counts.due(monotonic_ms=2_000) == (Count("a", QUOTA, 1),)


def test_a_quiet_bucket_is_forgotten_and_told_at_once_again() -> None:
    counts = RefusalCounts()
    assert counts.refused("a", QUOTA, monotonic_ms=0) == Count("a", QUOTA, 1)
    assert counts.due(monotonic_ms=1_000) == ()
    assert counts.refused("a", QUOTA, monotonic_ms=1_001) == Count("a", QUOTA, 1)


def test_a_flood_under_many_names_makes_a_bounded_number_of_events() -> None:
    counts = RefusalCounts()
    told = [counts.refused(str(name), QUOTA, monotonic_ms=0) for name in range(5_000)]
    kept = [count for count in told if count is not None]
    assert len(kept) == MAX_WINDOWS + 1
    rest = counts.due(monotonic_ms=1_000)
    assert [count.bucket for count in rest] == [OTHERS]
    assert sum(count.number for count in (*kept, *rest)) == 5_000


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from([QUOTA, Reason.NO_PERMIT]),
            st.integers(0, 700),
            st.sampled_from(["refuse", "refuse", "refuse", "due"]),
            st.booleans(),
        ),
        max_size=80,
    )
)
def test_every_refusal_is_counted_and_none_invented(steps: list[tuple[str, Reason, int, str, bool]]) -> None:
    counts, now, refused = RefusalCounts(), 0, 0
    told: dict[tuple[str, Reason], list[tuple[int, int]]] = {}
    for bucket, reason, pause, what, lost in steps:
        now += pause
        if what == "refuse":
            refused += 1
            found = counts.refused(bucket, reason, monotonic_ms=now)
            due = () if found is None else (found,)
        else:
            due = counts.due(monotonic_ms=now)
        for count in due:
            if lost:
                counts.give_back(count, monotonic_ms=now)
            else:
                told.setdefault((count.bucket, count.reason), []).append((now, count.number))
    for count in counts.due(monotonic_ms=now, last=True):
        told.setdefault((count.bucket, count.reason), []).append((now + 1_000, count.number))
    assert sum(number for entries in told.values() for _, number in entries) == refused
    assert all(number > 0 for entries in told.values() for _, number in entries)
    for entries in told.values():
        assert all(later - before >= 1_000 for (before, _), (later, _) in pairwise(entries))


class Spool:
    """Keeps events; refuses while `full`."""

    def __init__(self) -> None:
        self.full = False
        self.events: list[dict[str, Any]] = []

    async def append(self, kind: EventKind, **fields: Any) -> str:
        if self.full:
            raise OSError("full")
        self.events.append({"kind": kind, **fields})
        return ""


def record(spool: Spool, now: list[int]) -> FloodRecord:
    def event_of(count: Count) -> tuple[EventKind, dict[str, Any]]:
        return EventKind.DOOR_REFUSED, {"caller": count.bucket, "detail": count.detail}

    return FloodRecord(spool.append, event_of, lambda: now[0])


def test_an_event_of_one_call_says_which_and_of_many_says_how_many() -> None:
    spool, now = Spool(), [0]
    flood = record(spool, now)

    async def run() -> None:
        for call in range(4):
            await flood.refused("a", QUOTA, {"call_id": str(call)})
        now[0] = 1_000
        await flood.tell()

    asyncio.run(run())
    assert [(e.get("call_id"), e["detail"]) for e in spool.events] == [
        ("0", "1 call of `a` refused"),
        (None, "3 calls of `a` refused"),
    ]


def test_a_record_gives_a_caller_its_share_by_its_own_clock() -> None:
    spool, now = Spool(), [0]
    flood = record(spool, now)
    taken = 0
    while flood.alone("a"):
        taken += 1
        assert taken < 100_000
    now[0] = 60_000
    assert taken > 0
    assert flood.alone("a")


def test_what_a_full_spool_refuses_is_told_with_the_next() -> None:
    spool, now = Spool(), [0]
    flood = record(spool, now)

    async def run() -> None:
        spool.full = True
        for bucket in "abba":
            try:
                await flood.refused(bucket, QUOTA, {})
            except OSError:
                continue
        now[0] = 1_000
        with pytest.raises(OSError, match="full"):
            await flood.tell()
        spool.full = False
        now[0] = 2_000
        await flood.tell()

    asyncio.run(run())
    assert sorted(e["detail"] for e in spool.events) == ["2 calls of `a` refused", "2 calls of `b` refused"]


def test_a_callers_own_refusals_are_told_one_by_one_up_to_its_share() -> None:
    alone = Alone(burst=3, per_second=2)
    assert [alone.take("flood", monotonic_ms=0) for _ in range(5)] == [True] * 3 + [False] * 2
    assert alone.take("other", monotonic_ms=0), "another's share is its own"
    assert [alone.take("flood", monotonic_ms=500) for _ in range(2)] == [True, False]
    assert sum(alone.take("flood", monotonic_ms=60_000) for _ in range(9)) == 3


def test_a_flood_under_very_many_names_is_counted_until_a_share_is_whole_again() -> None:
    alone = Alone(burst=1, per_second=1)
    assert all(alone.take(str(name), monotonic_ms=0) for name in range(MAX_ALONE))
    assert not alone.take("one more", monotonic_ms=0)
    assert alone.take("one more", monotonic_ms=1_000)
