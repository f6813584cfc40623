"""Quotas: a flood uses up its own caller's share and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from decider.quota import MAX_CALLERS, Quota


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
