"""A writer that is asked to stop stops, whatever arrives at that very moment."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from audit.writing.tail import Tail


@pytest.mark.asyncio
async def test_cancel_that_meets_an_arriving_message_is_not_swallowed() -> None:
    """Message and cancel in one turn of the loop: `wait_for` of Python 3.11 would return as if nothing."""

    async def publish(*_: Any, **__: Any) -> None:
        return None

    tail = Tail(SimpleNamespace(publish=publish), "S")  # type: ignore[arg-type] # all that `_ask` uses of it
    asking = asyncio.create_task(tail._ask(1, wait_s=1.0))
    await asyncio.sleep(0.01)
    tail._done.set()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.asyncio
async def test_message_alone_ends_the_wait() -> None:
    async def publish(*_: Any, **__: Any) -> None:
        tail._done.set()

    tail = Tail(SimpleNamespace(publish=publish), "S")  # type: ignore[arg-type] # as above
    assert await tail._ask(1, wait_s=1.0) == []
