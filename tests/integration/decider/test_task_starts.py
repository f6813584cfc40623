"""A task of the tasks file does not get its time again when a decider is started again, or another is."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from decider.settings import DeciderSettings
from decider.task.starts import FirstStarts
from decider.task.tasks import HOUR_MS, Tasks, read_tasks
from licet.clock import wall_ms
from licet.identity import TRUST_DOMAIN_DEV
from licet.keyfile import read_secret
from licet.streams import EMBEDDED_SIZES, Publisher, apply_streams, connect, read_last, stream_config
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from tests.worlds.decisions import ENV, Ground, furnish

pytestmark = pytest.mark.asyncio

TASK = (
    '  task_789: {caller: agent/refund-bot, agent: refund-bot, principal: "ana@t1.example.com", tenant: t1,'
)
SUBJECT = f"licet.config.{ENV}.started.{hashlib.sha256(b'task_789').hexdigest()[:32]}"


def listed(ground: Ground, ends: str, now_ms: int) -> Tasks:
    path = ground.policy / "tasks.yaml"
    path.write_text(f"tasks:\n{TASK} {ends}}}\n")
    return read_tasks(path, trust_domain=TRUST_DOMAIN_DEV, environment=ENV, now_ms=now_ms)


@contextlib.asynccontextmanager
async def deciders_store(ground: Ground, *, master: bytes = b"") -> AsyncIterator[FirstStarts]:
    """Open the records as a decider does; with a master key of one's own as somebody else does."""
    nc = await connect(ground.nats.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
    try:
        publisher = await Publisher.open(nc)
        yield FirstStarts(publisher, ENV, master or read_secret(ground.keys_dir / "master.key"))
    finally:
        await nc.close()


async def begun(ground: Ground, hours_ago: float) -> None:
    """Leave what a decider has left that was started so long ago, with a task of two hours."""
    then_ms = wall_ms() - int(hours_ago * HOUR_MS)
    async with deciders_store(ground) as starts:
        tasks = await starts.kept(listed(ground, "hours: 2", then_ms), then_ms)
    assert tasks["task_789"].not_after_ms == then_ms + 2 * HOUR_MS


async def test_restart_gives_a_task_that_is_over_no_more_time(ground: Ground) -> None:
    await begun(ground, hours_ago=2.5)
    house = await furnish(ground)
    try:
        response = await house.decide()
        assert (response.decision, response.refusal.reason) == (DECISION_TYPE_DENY, "TASK_CLOSED")
    finally:
        await house.close()


async def test_restart_leaves_a_task_the_time_it_has(ground: Ground) -> None:
    await begun(ground, hours_ago=1.5)
    house = await furnish(ground)
    try:
        assert (await house.decide()).decision == DECISION_TYPE_ALLOW
    finally:
        await house.close()


async def test_task_begins_anew_at_each_start_where_development_wants_it(ground: Ground) -> None:
    await begun(ground, hours_ago=2.5)
    house = await furnish(ground, tasks_begin_anew=True)
    try:
        assert (await house.decide()).decision == DECISION_TYPE_ALLOW
    finally:
        await house.close()


async def test_deciders_started_at_once_agree_when_a_task_began(ground: Ground) -> None:
    tasks = listed(ground, "hours: 2", wall_ms())
    async with deciders_store(ground) as starts:
        found = await asyncio.gather(*(starts.kept(tasks, wall_ms() + number) for number in range(5)))
    assert len({one["task_789"].not_after_ms for one in found}) == 1


@pytest.mark.parametrize("ends", ["not_after: 2099-01-01T00:00:00Z", "started: 2026-01-01T00:00:00Z"])
async def test_task_that_says_when_it_began_or_ends_is_taken_at_its_word(ground: Ground, ends: str) -> None:
    tasks = listed(ground, ends, wall_ms())
    async with deciders_store(ground) as starts:
        assert await starts.kept(tasks, wall_ms()) == tasks
        assert await read_last(starts._publisher.nc, stream_config(ENV), SUBJECT) is None


async def test_start_that_no_decider_wrote_ends_the_task(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever may write to the stream can end a task's work, not lengthen it."""
    tasks = listed(ground, "hours: 2", wall_ms())
    async with deciders_store(ground, master=b"x" * 32) as another:
        await another.kept(tasks, wall_ms() + HOUR_MS)
    async with deciders_store(ground) as starts:
        assert (await starts.kept(tasks, wall_ms()))["task_789"].not_after_ms == 0
    assert {"task.start_forged", "task.over"} <= {record.getMessage() for record in caplog.records}


async def test_beginning_anew_is_for_development_alone(ground: Ground, tmp_path: Path) -> None:
    tls = {f"tls_{name}_file": tmp_path / "x.pem" for name in ("certificate", "key", "ca")}
    with pytest.raises(ValidationError, match="is for development"):
        ground.settings("", dev_identity=False, tasks_begin_anew=True, **tls)
    assert isinstance(ground.settings("", tasks_begin_anew=True), DeciderSettings)
