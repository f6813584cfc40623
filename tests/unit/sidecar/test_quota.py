import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.refusal import Reason, Refusal
from sidecar.quota import Quota


def refused(result: Refusal | None) -> bool:
    return isinstance(result, Refusal) and result.reason is Reason.QUOTA_EXCEEDED


def test_a_burst_passes_and_one_more_is_refused() -> None:
    quota = Quota(per_second=10, burst=3)
    taken = [quota.take("agent", monotonic_ms=0) for _ in range(4)]
    assert [refused(one) for one in taken] == [False, False, False, True]


def test_tokens_come_back_with_time() -> None:
    quota = Quota(per_second=10, burst=1)
    assert quota.take("agent", monotonic_ms=0) is None
    assert refused(quota.take("agent", monotonic_ms=99))
    assert quota.take("agent", monotonic_ms=199) is None


def test_a_clock_that_stands_still_or_goes_back_earns_nothing() -> None:
    quota = Quota(per_second=10, burst=1)
    assert quota.take("agent", monotonic_ms=1_000) is None
    assert refused(quota.take("agent", monotonic_ms=0))
    assert refused(quota.take("agent", monotonic_ms=50))


def test_one_peers_flood_does_not_take_anothers_tokens() -> None:
    quota = Quota(per_second=1, burst=1)
    quota.take("flood", monotonic_ms=0)
    assert refused(quota.take("flood", monotonic_ms=0))
    assert quota.take("calm", monotonic_ms=0) is None


def test_a_flood_of_names_does_not_grow_memory() -> None:
    quota = Quota(per_second=1, burst=1, max_peers=100)
    for number in range(10_000):
        quota.take(f"peer-{number}", monotonic_ms=0)
    assert len(quota) == 100


def test_a_peer_in_use_is_not_the_one_that_is_forgotten() -> None:
    quota = Quota(per_second=1, burst=1, max_peers=2)
    quota.take("busy", monotonic_ms=0)
    for number in range(10):
        assert refused(quota.take("busy", monotonic_ms=0))
        quota.take(f"peer-{number}", monotonic_ms=0)


@pytest.mark.parametrize(("rate", "burst", "peers"), [(0, 1, 1), (-1, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_quota_that_lets_nothing_through_is_a_mistake(rate: float, burst: int, peers: int) -> None:
    with pytest.raises(ValueError, match="positive rate"):
        Quota(per_second=rate, burst=burst, max_peers=peers)


@given(st.lists(st.integers(0, 10_000), max_size=200), st.integers(1, 20), st.integers(1, 50))
def test_never_more_than_the_burst_and_what_time_gave(steps: list[int], burst: int, rate: int) -> None:
    quota = Quota(per_second=rate, burst=burst)
    passed, now = 0, 0
    for step in steps:
        now += step
        passed += quota.take("agent", monotonic_ms=now) is None
    assert passed <= burst + now * rate / 1000 + 1e-6
