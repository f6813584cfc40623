import asyncio

import pytest

from sidecar import process

pytestmark = pytest.mark.asyncio


async def test_a_task_that_eats_a_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CANCEL_AGAIN_S", 0.02)
    eaten = []

    async def stubborn() -> None:
        while len(eaten) < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                eaten.append(True)
        await asyncio.Event().wait()

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(process._end([task]), 60)
    assert task.cancelled()
    assert len(eaten) == 2


async def test_nothing_to_end_ends_at_once() -> None:
    await asyncio.wait_for(process._end([]), 60)
