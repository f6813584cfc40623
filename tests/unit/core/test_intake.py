"""Half-sent calls: nobody holds more than a share, and a share is free again with the call's end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.intake import LOCAL, UNREADABLE, Intake, Share, bucket_of


def test_one_callers_half_sent_calls_take_no_slot_of_another() -> None:
    intake = Intake(Share(2, 100), Share(3, 200))
    assert [intake.enter("flood") for _ in range(3)] == [True, True, False]
    assert intake.enter("other")
    assert not intake.enter("one more than all")
    intake.leave("flood")
    assert intake.enter("one more than all")


def test_bytes_are_held_within_a_callers_share_and_that_of_all() -> None:
    intake = Intake(Share(5, 100), Share(9, 150))
    assert intake.enter("flood")
    assert intake.enter("other")
    assert [intake.hold("flood", size) for size in (60, 41, 40)] == [True, False, True]
    assert [intake.hold("other", size) for size in (51, 50)] == [False, True]
    intake.leave("flood", 100)
    assert intake.hold("other", 50)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), max_size=60))
def test_what_ended_is_forgotten_whole(calls: list[tuple[str, int]]) -> None:
    intake = Intake(Share(4, 100), Share(8, 200))
    held = [(bucket, size) for bucket, size in calls if intake.enter(bucket)]
    for bucket, size in held:
        intake.leave(bucket, size if intake.hold(bucket, size) else 0)
    assert len(intake) == 0
    assert [intake.enter("a") for _ in range(5)] == [True] * 4 + [False]
    assert intake.hold("a", 100)


@pytest.mark.parametrize(
    ("origins", "bucket"),
    [
        (("ipv4:192.0.2.7:1", "ipv4:192.0.2.7:65535", "ipv6:%5B::ffff:192.0.2.7%5D:9"), "192.0.2.7"),
        (("ipv6:%5B2001:db8::1%5D:1", "ipv6:[2001:db8::ffff:2]:2"), "2001:db8::/64"),
        (("ipv6:%5Bfe80::1%25eth0%5D:1", "ipv6:%5Bfe80::2%25eth0%5D:2"), "fe80::/64"),
        (("unix:", "unix:/run/a", "unix-abstract:b", "ipv4:127.0.0.1:1", "ipv6:%5B::1%5D:2"), LOCAL),
        (("", "ipv4:", "ipv4:999.1.1.1:1", "vsock:3:1", "spiffe://licet.local/dev/agent/a"), UNREADABLE),
    ],
)
def test_new_source_ports_buy_no_new_bucket(origins: tuple[str, ...], bucket: str) -> None:
    assert {bucket_of("", origin) for origin in origins} == {bucket}


def test_two_addresses_and_two_identities_have_a_bucket_each() -> None:
    assert bucket_of("", "ipv4:192.0.2.7:1") != bucket_of("", "ipv4:192.0.2.8:1")
    assert bucket_of("", "ipv6:%5B2001:db8::1%5D:1") != bucket_of("", "ipv6:%5B2001:db8:0:1::1%5D:1")
    assert bucket_of("spiffe://licet.local/dev/agent/a", "ipv4:192.0.2.7:1").startswith("spiffe://")
