"""Holds and tasks fill no more of the configuration stream than leaves room for what is to be in force."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from decider.approval.holds import Holds
from decider.task.task_store import TaskStore
from licet.hold import hold_id
from licet.keyfile import read_signing_key
from licet.streams import (
    EMBEDDED_SIZES,
    ConfigStore,
    Publisher,
    StreamsError,
    apply_streams,
    connect,
)
from licet.v1.beacon_pb2 import ActiveConfig
from licet.v1.hold_pb2 import Hold
from licet.v1.statement_pb2 import Signed
from licet.v1.task_pb2 import Task
from tests.worlds.decisions import ENV, Ground

pytestmark = pytest.mark.asyncio

KIB = 1 << 10
ROOM = 2_048 * KIB
ARTIFACT = 300 * KIB


def hold_of(number: int) -> Hold:
    """Make one of another task each time: what a task may have bounds nothing here."""
    made = Hold(version=2, task_id=f"task-{number}", spend_id=f"{number:032x}", facts_json="x" * 32 * KIB)
    made.hold_id = hold_id(made)
    return made


@pytest_asyncio.fixture
async def publisher(ground: Ground) -> AsyncIterator[Publisher]:
    nc = await connect(ground.nats.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=replace(EMBEDDED_SIZES, config_bytes=ROOM))
    await nc.close()
    nc = await connect(ground.nats.settings("decider"), "decider")
    try:
        yield await Publisher.open(nc)
    finally:
        await nc.close()


async def filled(holds: Holds) -> tuple[Hold, str]:
    """Write holds until no more are taken; return the last that was, and why."""
    for number in range(ROOM // KIB):
        try:
            await holds.ensure(hold_of(number))
        except StreamsError as error:
            return hold_of(number - 1), str(error)
    raise AssertionError("holds without end")


async def test_a_flood_of_holds_leaves_room_for_a_revocation_and_for_answers(
    ground: Ground, publisher: Publisher
) -> None:
    holds = Holds(publisher, ENV)
    last, why = await filled(holds)
    assert "kept for" in why
    assert not (await holds.ensure(last))[1], "what is stored is still found"
    tasks = TaskStore(publisher, ENV, read_signing_key(ground.keys_dir / "task.key"))
    with pytest.raises(StreamsError, match="kept for"):
        await tasks.write(Task(task_id="one-more", version=1), 0)
    await tasks.close(Task(task_id="an-old-one", version=1))
    assert await holds.answer(last, "lena", Signed(payload=b"no"))
    await holds.ask(last)  # for people alone, so it may be left out; it fails nothing

    nc = await connect(ground.nats.settings("setup"), "setup")
    try:
        store = ConfigStore(await Publisher.open(nc), ENV)
        await store.put_artifact(Signed(payload=b"revocations", signature=b"s" * ARTIFACT))
        assert await store.activate(ActiveConfig(environment=ENV), 0)
    finally:
        await nc.close()


async def test_below_the_reserve_holds_and_tasks_are_taken(ground: Ground, publisher: Publisher) -> None:
    holds, tasks = (
        Holds(publisher, ENV),
        TaskStore(publisher, ENV, read_signing_key(ground.keys_dir / "task.key")),
    )
    for number in range(3):
        assert (await holds.ensure(hold_of(number)))[1]
    assert await tasks.write(Task(task_id="one", version=1), 0)
