"""The roll of holds: what is stored is shown, newest first, and read once."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from decider.approval import roll
from decider.approval.holds import Holds
from licet.hold import hold_id
from licet.statement import canonical
from licet.streams import EMBEDDED_SIZES, Publisher, apply_streams, connect, list_subjects, stream_config
from licet.v1.hold_pb2 import Hold
from tests.worlds.decisions import ENV, Ground

pytestmark = pytest.mark.asyncio


def hold_of(number: int) -> Hold:
    made = Hold(version=2, task_id=f"task-{number}", spend_id=f"{number:032x}")
    made.hold_id = hold_id(made)
    return made


def records(*numbers: int) -> tuple[bytes, ...]:
    return tuple(canonical(hold_of(number)) for number in numbers)


@pytest_asyncio.fixture
async def publisher(ground: Ground) -> AsyncIterator[Publisher]:
    nc = await connect(ground.nats.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
    try:
        yield await Publisher.open(nc)
    finally:
        await nc.close()


async def test_holds_are_listed_newest_first_and_a_look_reads_on_from_the_one_before(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds = Holds(publisher, ENV)
    assert await holds.listed() == ()
    for number in (3, 1, 2):
        await holds.ensure(hold_of(number))
    assert await holds.listed() == records(2, 1, 3)
    other = Holds(publisher, ENV)
    assert await other.listed() == records(2, 1, 3), "one that starts later reads what is there"

    async def again(*_: object) -> None:
        raise AssertionError("read again")

    for name in ("read_last", "list_subjects"):
        monkeypatch.setattr(roll, name, again)
    await holds.ensure(hold_of(4))
    assert await holds.listed() == await other.listed() == records(4, 2, 1, 3)


async def test_roll_is_bounded_believes_the_newest_record_and_begins_anew_with_an_older_stream(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roll, "MAX_LISTED", 2)
    monkeypatch.setattr(roll, "MAX_KEPT_BYTES", 1)
    holds = Holds(publisher, ENV)
    for number in range(4):
        await holds.ensure(hold_of(number))
        assert await holds.listed() == records(*range(number, max(-1, number - 2), -1))
    [place] = await list_subjects(
        publisher.nc, stream_config(ENV), f"licet.config.*.hold.*.{hold_of(0).hold_id}.record"
    )
    await publisher.publish(place, b"put there")
    assert await holds.listed() == (b"put there", *records(3))
    holds._roll._read_to = 1_000  # as if the stream had been longer
    assert await holds.listed() == (b"put there", *records(3))
