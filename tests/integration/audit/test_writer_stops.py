"""A writer that is asked to stop stops, whatever arrives at that moment; one that is slow gets its batch."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from audit.writing import tail as under_test
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


def slow_answer(tail: Tail, messages: int, every_s: float) -> Any:
    """A server, or a machine, that takes its time: `messages` come, one each `every_s` seconds."""

    async def publish(*_: Any, **__: Any) -> None:
        loop = asyncio.get_running_loop()
        for number in range(1, messages + 1):
            reply = f"$JS.ACK.S.c.1.{number}.{number}.1790000000000000000.0".encode()
            loop.call_at(loop.time() + number * every_s, tail._take, b"s", reply, b"body", b"")

    return publish


@pytest.mark.asyncio
async def test_batch_that_comes_slowly_is_read_to_its_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(under_test, "GRACE_S", 0.3)
    tail = Tail(SimpleNamespace(), "S")  # type: ignore[arg-type] # as above
    tail._nc.publish = slow_answer(tail, 5, 0.2)  # type: ignore[method-assign] # as above
    assert [message.seq for message in await tail._ask(5, wait_s=0)] == [1, 2, 3, 4, 5]


@pytest.mark.asyncio
async def test_batch_that_stops_coming_is_given_up(monkeypatch: Any) -> None:
    monkeypatch.setattr(under_test, "GRACE_S", 0.3)
    tail = Tail(SimpleNamespace(), "S")  # type: ignore[arg-type] # as above
    tail._nc.publish = slow_answer(tail, 2, 0.05)  # type: ignore[method-assign] # as above
    with pytest.raises(TimeoutError):
        await tail._ask(5, wait_s=0)
