"""Quotas: a flood uses up its own caller's share and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from decider.quota import MAX_CALLERS, Quota, cost_of, cost_of_reading


def test_burst_then_the_rate_then_full_again() -> None:
    quota = Quota(10, 3)
    assert [quota.take("a", 0) for _ in range(4)] == [True, True, True, False]
    assert [quota.take("a", 100) for _ in range(2)] == [True, False]
    assert [quota.take("a", 10_000) for _ in range(4)] == [True, True, True, False]


def test_one_callers_flood_takes_nothing_from_another() -> None:
    quota = Quota(1, 1)
    assert quota.take("flood", 0)
    assert not any(quota.take("flood", 0) for _ in range(100))
    assert quota.take("other", 0)


def test_many_callers_are_remembered_only_while_they_matter() -> None:
    quota = Quota(1, 1)
    assert all(quota.take(str(number), 0) for number in range(MAX_CALLERS))
    assert not quota.take("one more", 0)
    assert quota.take("one more", 1_000)


@given(st.lists(st.integers(min_value=0, max_value=500), max_size=60))
def test_never_more_than_burst_and_rate_allow(pauses: list[int]) -> None:
    quota, now, taken = Quota(5, 4), 0, 0
    for pause in pauses:
        now += pause
        taken += quota.take("a", now)
        assert taken <= 4 + now * 5 / 1_000 + 1e-6


def test_large_requests_use_up_a_quota_as_fast_as_many_small_ones() -> None:
    quota = Quota(10, 100)
    assert sum(quota.take("large", 0, cost_of(64 << 10)) for _ in range(10)) == 3
    assert sum(quota.take("small", 0, cost_of(500)) for _ in range(200)) == 100


def test_largest_request_passes_with_a_full_bucket_and_not_twice() -> None:
    quota = Quota(10, 100)
    assert [quota.take("a", at_ms, cost_of(6 << 20)) for at_ms in (0, 9_000, 10_000)] == [True, False, True]


def test_what_a_call_turned_out_to_cost_is_taken_from_later_ones_and_is_bounded() -> None:
    quota = Quota(10, 5)
    assert cost_of_reading(16 << 10) == 0
    assert quota.take("a", 0)
    quota.owe("a", cost_of_reading(3 << 20))
    quota.owe("nobody", 9)
    assert not quota.take("a", 500)
    assert quota.take("a", 600)
    assert quota.take("b", 0)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 9), st.integers(0, 9)), max_size=60))
def test_never_more_work_than_burst_and_rate_allow_and_one_burst_owed(
    calls: list[tuple[int, int, int]],
) -> None:
    quota, now, worked = Quota(5, 9), 0, 0
    for pause, cost, more in calls:
        now += pause
        if quota.take("a", now, cost):
            worked += cost
            quota.owe("a", more)
        assert worked <= 9 + now * 5 / 1_000 + 1e-6
