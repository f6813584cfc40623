"""How long one wait may last, cheaper than by `asyncio.timeout`: every call reads its body with it."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float, waited: Awaitable[T]) -> T:
    """Return what `waited` gives.

    Raises:
        TimeoutError: it gave nothing within `seconds`; it was cancelled. A cancellation of the waiting task
            itself goes on as one, also when both come at once.
    """
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("nobody waits outside a task")
    late = False

    def expire() -> None:
        nonlocal late
        late = True
        task.cancel()

    timer = task.get_loop().call_later(seconds, expire)
    try:
        return await waited
    except asyncio.CancelledError:
        if late and not task.uncancel():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
