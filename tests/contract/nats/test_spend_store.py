"""What the spend client relies on, asked of the real store and of the fake alike."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from licet.streams import Publishing, StoreRefused, StoreUnavailable, stream_spend, subject_spend
from sidecar.store.spend import is_used_up
from tests.worlds.mint import ENVIRONMENT
from tests.worlds.nats import nats_world
from tests.worlds.store import FakeStore

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture(params=["real", "fake"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Publishing]:
    if request.param == "fake":
        yield FakeStore()
        return
    async with nats_world(tmp_path / "nats") as world:
        yield await world.sidecar()


def reserve(number: int) -> str:
    return subject_spend(ENVIRONMENT, "finance", f"{number:032x}", 0, "reserve")


async def test_a_subject_takes_one_message(store: Publishing) -> None:
    ack = await store.publish(reserve(1), b"mine", msg_id="a")
    assert (ack.stream, ack.seq, ack.duplicate) == (stream_spend(ENVIRONMENT), 1, False)
    with pytest.raises(StoreRefused) as refused:
        await store.publish(reserve(1), b"mine", msg_id="b")
    assert is_used_up(refused.value)


async def test_a_retry_with_its_msg_id_is_a_duplicate_of_the_first(store: Publishing) -> None:
    first = await store.publish(reserve(1), b"mine", msg_id="a")
    again = await store.publish(reserve(1), b"mine", msg_id="a")
    assert (again.seq, again.duplicate) == (first.seq, True)


async def test_a_msg_id_is_known_on_every_subject(store: Publishing) -> None:
    await store.publish(reserve(1), b"mine", msg_id="a")
    assert (await store.publish(reserve(2), b"mine", msg_id="a")).duplicate
    assert not (await store.publish(reserve(2), b"mine", msg_id="b")).duplicate


async def test_sequences_rise_by_one(store: Publishing) -> None:
    acks = [await store.publish(reserve(number), b"x", msg_id=f"{number}") for number in range(5)]
    assert [ack.seq for ack in acks] == [1, 2, 3, 4, 5]


async def test_of_many_at_once_one_is_stored(store: Publishing) -> None:
    tries = [store.publish(reserve(1), b"%d" % number, msg_id=f"{number}") for number in range(50)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(not isinstance(answer, BaseException) for answer in answers) == 1
    assert all(is_used_up(answer) for answer in answers if isinstance(answer, StoreRefused))


async def test_begin_returns_before_the_ack(store: Publishing) -> None:
    futures = [await store.begin(reserve(number), b"x", msg_id=f"{number}") for number in range(20)]
    assert [(await future).seq for future in futures] == list(range(1, 21))


async def test_it_is_connected(store: Publishing) -> None:
    assert store.connected


async def test_without_an_ack_whether_it_is_stored_is_open() -> None:
    store = FakeStore()
    store.faults.append("lose_message")
    with pytest.raises(StoreUnavailable) as lost:
        await store.publish(reserve(1), b"mine", msg_id="a")
    assert lost.value.maybe_stored
