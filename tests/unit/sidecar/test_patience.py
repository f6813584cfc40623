import asyncio

import pytest

from sidecar.entrance.patience import within

pytestmark = pytest.mark.asyncio


async def test_what_comes_in_time_is_returned_and_nothing_is_left_running() -> None:
    loop = asyncio.get_running_loop()
    assert await within(60, asyncio.sleep(0, "here")) == "here"
    came = loop.create_future()
    loop.call_soon(came.set_result, 7)
    assert await within(60, came) == 7
    current = asyncio.current_task()
    assert current is not None
    assert not current.cancelling()


async def test_what_does_not_come_is_cancelled_and_the_task_goes_on() -> None:
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError):
        await within(0.01, never)
    assert never.cancelled()
    async with asyncio.timeout(60):  # the task counts as cancelled no more
        await asyncio.sleep(0)


async def test_a_fault_comes_through() -> None:
    async def fail() -> None:
        raise ValueError("as told")

    with pytest.raises(ValueError, match="as told"):
        await within(60, fail())


@pytest.mark.parametrize("seconds", [60, 0])
async def test_whoever_waits_can_be_cancelled(seconds: float) -> None:
    """At 0 both end the wait at once: the cancellation wins, else a stopping task would run on."""
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await within(seconds, asyncio.get_running_loop().create_future())

    task = asyncio.create_task(wait())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
