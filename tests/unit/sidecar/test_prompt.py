import asyncio

import pytest

from licet.journal import Letter, SpoolBroken
from licet.streams import PubAck, StoreRefused, StoreUnavailable
from sidecar.store import prompt
from sidecar.store.prompt import PromptQueue
from sidecar.store.spend import LIMIT_REACHED, USED_UP, is_used_up

pytestmark = pytest.mark.asyncio


class Disk:
    def __init__(self) -> None:
        self.kept: list[Letter] = []
        self.synced = 0
        self.broken = False

    @property
    def depth(self) -> int:
        return len(self.kept)

    def put(self, letter: Letter) -> int:
        if self.broken:
            raise SpoolBroken("disk")
        self.kept.append(letter)
        return len(self.kept)

    def sync_soon(self) -> None:
        self.synced += 1

    async def close(self, drain_s: float = 5.0) -> bool:
        return not self.kept


class Wire:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str | None]] = []
        self.answer: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.silent = False

    async def begin(
        self, subject: str, body: bytes, *, msg_id: str | None = None
    ) -> "asyncio.Future[PubAck]":
        self.sent.append((subject, msg_id))
        if self.gate is not None:
            await self.gate.wait()
        ack: asyncio.Future[PubAck] = asyncio.get_running_loop().create_future()
        if self.silent:
            return ack
        if isinstance(self.answer, StoreUnavailable):
            raise self.answer
        if self.answer is not None:
            ack.set_exception(self.answer)
        else:
            ack.set_result(PubAck("S", len(self.sent)))
        return ack


def queue(disk: Disk, wire: Wire) -> PromptQueue:
    return PromptQueue(disk, wire, lambda _, refused: is_used_up(refused))


def letter(number: int = 0) -> Letter:
    return Letter(f"licet.spend.dev.finance.{number}", f"{number:032x}", b"record")


async def test_what_is_acked_never_touches_the_disk() -> None:
    disk, wire = Disk(), Wire()
    one = queue(disk, wire)
    one.put(letter())
    assert one.depth == 1
    assert await one.close()
    assert (disk.kept, wire.sent, one.depth) == ([], [(letter().subject, letter().msg_id)], 0)


@pytest.mark.parametrize(
    "error", [StoreUnavailable("away"), StoreRefused(LIMIT_REACHED, "maximum bytes exceeded")]
)
async def test_what_is_not_acked_goes_to_disk_under_the_same_id(error: Exception) -> None:
    disk, wire = Disk(), Wire()
    wire.answer = error
    one = queue(disk, wire)
    one.put(letter(7))
    assert not await one.close()
    assert (disk.kept, disk.synced, one.lost) == ([letter(7)], 1, 0)


async def test_what_nobody_answers_goes_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "ACK_S", 0.05)
    disk, wire = Disk(), Wire()
    wire.silent = True
    one = queue(disk, wire)
    one.put(letter())
    assert not await one.close()
    assert disk.kept == [letter()]


async def test_what_has_no_ack_at_the_stop_goes_to_disk() -> None:
    disk, wire = Disk(), Wire()
    wire.silent = True
    one = queue(disk, wire)
    one.put(letter(1))
    await asyncio.sleep(0)
    one.put(letter(2))
    assert not await one.close(0)
    assert disk.kept == [letter(1), letter(2)]


async def test_an_outcome_that_is_there_already_is_settled() -> None:
    disk, wire = Disk(), Wire()
    wire.answer = StoreRefused(LIMIT_REACHED, USED_UP)
    one = queue(disk, wire)
    one.put(letter())
    assert await one.close()
    assert disk.kept == []


async def test_a_dead_store_does_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "MAX_ON_WAY", 3)
    disk, wire = Disk(), Wire()
    wire.gate = asyncio.Event()
    one = queue(disk, wire)
    for number in range(5):
        one.put(letter(number))
    assert (len(disk.kept), one.depth) == (2, 5)
    wire.gate.set()
    await one.close()


async def test_what_nothing_takes_is_counted() -> None:
    disk, wire = Disk(), Wire()
    disk.broken, wire.answer = True, StoreUnavailable("away")
    one = queue(disk, wire)
    one.put(letter())
    await one.close()
    assert one.lost == 1
