"""What an attacker can write on the wire himself, at a real sidecar process: nothing of it reaches the tool,
and after all of it the next caller is served.
"""

import asyncio
import gzip
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from licet.metadata import DEV_IDENTITY, PERMIT
from tests.integration.sidecar.test_process import Served
from tests.worlds import http2
from tests.worlds.http2 import Wire, binary, frame
from tests.worlds.mint import AGENT, REFUND, refund
from tests.worlds.rig import AMOUNT, Rig, answer_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("sidecar_hostile_wire")]

MOST_GROWTH = 28 << 20
"""Bytes; a door that kept the 32 MiB would grow by more."""
LOCAL_OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


class Target:
    """A sidecar in a process of its own, a tool that counts, and an order for each attack."""

    def __init__(self, rig: Rig, served: Served) -> None:
        self.rig, self.served = rig, served

    @property
    def memory(self) -> int:
        """What the sidecar has in memory, bytes."""
        pages = Path(f"/proc/{self.served.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4_096

    async def lawful(self, order: str | None = None, **options: Any) -> str:
        """What a caller on a connection of its own gets."""
        order = order or self.rig.order()
        body, permit = refund(order).SerializeToString(), self.rig.permit(refund(order))
        address = f"127.0.0.1:{self.served.port}"
        async with aio.insecure_channel(address, options=LOCAL_OPTIONS, **options) as channel:
            pairs = ((DEV_IDENTITY, AGENT), (PERMIT, permit))
            try:
                await channel.unary_unary(REFUND)(body, metadata=pairs, timeout=60, wait_for_ready=True)
            except aio.AioRpcError as error:
                return answer_of(error)
        return "passed"

    async def wire(self) -> Wire:
        return await Wire.open(self.served.port)

    async def untouched(self, calls: int, order: str | None = None) -> None:
        """Nothing came to the tool, nothing to the ledger; the next caller is served."""
        assert self.rig.calls() == calls
        assert order is None or self.rig.refunded(order) == 0
        assert await self.lawful() == "passed"
        assert self.rig.calls() == calls + 1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    await rig.start(sidecars=0)
    served = await Served.start(rig)
    yield Target(rig, served)
    assert served.process.returncode is None, "the sidecar ended"
    await rig.stop()


PATHS: Mapping[str, bytes] = {
    "no UTF-8": b"\xff\xfe/fin.v1.Finance/IssueRefund",
    "half a character": b"/fin.v1.Finance/IssueRefund\xc3",
    "a surrogate": b"/fin.v1.Finance/IssueRefund\xed\xa0\x80",
    "empty": b"",
    "a star": b"*",
    "space after": b"/fin.v1.Finance/IssueRefund ",
    "space before": b" /fin.v1.Finance/IssueRefund",
    "fragment": b"/fin.v1.Finance/IssueRefund#a",
    "parameter": b"/fin.v1.Finance/IssueRefund;a=b",
    "whole URL": b"http://door/fin.v1.Finance/IssueRefund",
    "percent": b"/fin.v1.Finance/%49ssueRefund",
    "dots": b"/./fin.v1.Finance/IssueRefund",
    "two slashes": b"//fin.v1.Finance/IssueRefund",
    "slash after": b"/fin.v1.Finance/IssueRefund/",
    "no slash": b"fin.v1.Finance/IssueRefund",
    "case": b"/fin.v1.finance/issuerefund",
    "full width": "/fin.v1.Finance/\uff29ssueRefund".encode(),
    "zero width": "/fin.v1.Finance/IssueRefund\u200b".encode(),
}


@pytest.mark.negative(10)
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
async def test_no_other_spelling_of_a_path_reaches_the_tool_or_stops_the_door(
    target: Target, path: bytes
) -> None:
    rig, order = target.rig, target.rig.order()
    calls = rig.calls()
    await rig.mark()
    wire = await target.wire()
    pairs = ((DEV_IDENTITY, AGENT), (PERMIT, binary(rig.permit(refund(order)))))
    stream = await wire.call(path, refund(order).SerializeToString(), *pairs)
    assert await wire.closed(stream)
    (event,) = await rig.door_events(1, within_s=60)
    assert (event.kind, event.reason) == ("door.refused", "METHOD_UNKNOWN")
    await wire.close()
    await target.untouched(calls, order)
    assert len(await rig.door_events(2, within_s=60)) == 2


Lines = tuple[tuple[str, str], ...]


def permits(first: str, second: str) -> Mapping[str, Lines]:
    """Ways to bring a permit that are not: exactly one binary value."""
    return {
        "two values": ((PERMIT, first), (PERMIT, second)),
        "the same value twice": ((PERMIT, first), (PERMIT, first)),
        "two in one line": ((PERMIT, f"{first},{second}"),),
        "the same twice in one line": ((PERMIT, f"{first},{first}"),),
        "an empty one beside": ((PERMIT, f"{first},"),),
        "an empty one before": ((PERMIT, f",{first}"),),
        "as text": (("licet-permit", first),),
        "in capitals": (("Licet-Permit-Bin", first),),
        "no base64": ((PERMIT, "%%%%"),),
        "with spaces": ((PERMIT, f" {first} "),),
        "empty": ((PERMIT, ""),),
        "in a pseudo field's place": ((":licet-permit-bin", first),),
        "who asks, twice": ((PERMIT, first), (DEV_IDENTITY, AGENT)),
    }


@pytest.mark.negative(2)
@pytest.mark.parametrize("name", permits("", ""))
async def test_a_permit_is_exactly_one_binary_value_however_it_is_written(target: Target, name: str) -> None:
    rig, order = target.rig, target.rig.order()
    first, second = (binary(rig.permit(refund(order))) for _ in range(2))
    calls = rig.calls()
    await rig.mark()
    wire = await target.wire()
    lines = permits(first, second)[name]
    stream = await wire.call(REFUND, refund(order).SerializeToString(), (DEV_IDENTITY, AGENT), *lines)
    assert await wire.closed(stream)
    await wire.close()
    assert rig.calls() == calls
    assert await target.lawful(order) == "passed"
    assert rig.refunded(order) == AMOUNT
    kinds = sorted(event.kind for event in await rig.door_events(2, within_s=5))
    assert kinds.count("door.passed") == 1


ZEROS = b"\0" * (60 << 20)
BOMBS: Mapping[str, bytes] = {"gzip": gzip.compress(ZEROS), "deflate": zlib.compress(ZEROS)}


@pytest.mark.parametrize("encoding", BOMBS)
async def test_a_message_that_grows_when_unpacked_costs_what_it_weighs(target: Target, encoding: str) -> None:
    calls, before = target.rig.calls(), target.memory
    raw = BOMBS[encoding]
    assert len(raw) < 65_000 < len(ZEROS)
    sent = struct.pack(">BI", 1, len(raw)) + raw
    for _ in range(8):
        wire = await target.wire()
        more = ((DEV_IDENTITY, AGENT), ("grpc-encoding", encoding))
        stream = await wire.call(REFUND, sent, *more, raw=True)
        assert await wire.closed(stream)
        await wire.close()
    assert target.memory - before < len(ZEROS) // 2
    await target.untouched(calls)


async def test_a_packed_call_of_ordinary_size_passes(target: Target) -> None:
    order = target.rig.order()
    assert await target.lawful(order, compression=grpc.Compression.Gzip) == "passed"
    assert target.rig.refunded(order) == AMOUNT


def opening(wire: Wire, *more: tuple[str, str], flags: int = http2.END_HEADERS) -> tuple[int, bytes]:
    stream = wire.next_stream()
    return stream, frame(http2.HEADERS, flags, stream, http2.call_headers(REFUND, *more))


async def test_calls_that_are_reset_as_soon_as_they_begin(target: Target) -> None:
    """HTTP/2 rapid reset (CVE-2023-44487)."""
    calls, before = target.rig.calls(), target.memory
    wire = await target.wire()
    for _ in range(50):
        burst = b""
        for _ in range(100):
            stream, begun = opening(wire)
            burst += begun + frame(http2.RST_STREAM, 0, stream, http2.CANCEL.to_bytes(4, "big"))
        await wire.send(burst)
    assert await target.lawful() == "passed"
    await wire.close()
    assert target.memory - before < 64 << 20
    await target.untouched(calls + 1)


async def test_a_header_that_never_ends(target: Target) -> None:
    """CONTINUATION flood (CVE-2024-27316): 32 MiB of header, in pieces."""
    calls, before = target.rig.calls(), target.memory
    wire = await target.wire()
    stream, begun = opening(wire, flags=0)
    await wire.send(begun)
    piece = http2.block((f"x-{number}", "y" * 100) for number in range(130))
    for _ in range(2_000):
        await wire.send(frame(http2.CONTINUATION, 0, stream, piece))
        if wire.ended.is_set():
            break
    assert target.memory - before < MOST_GROWTH
    await wire.close()
    await target.untouched(calls)


async def test_headers_that_grow_when_unpacked(target: Target) -> None:
    """HPACK bomb: one indexed field of 3,900 bytes, named 16,000 times in each of ten calls."""
    calls, before = target.rig.calls(), target.memory
    wire = await target.wire()
    stream, begun = opening(wire)
    big = b"\x40\x05x-big" + b"\x7f" + bytes(((3_900 - 127) % 128 + 128, (3_900 - 127) // 128)) + b"z" * 3_900
    block = begun[9:] + big
    await wire.send(frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream, block))
    for _ in range(10):
        stream, begun = opening(wire)
        block = begun[9:] + b"\xbe" * 16_000
        await wire.send(frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream, block))
    assert await target.lawful() == "passed"
    assert target.memory - before < 64 << 20
    await wire.close()
    await target.untouched(calls + 1)


@pytest.mark.parametrize("size", [7_000, 20_000, 60_000])
async def test_metadata_past_its_limit(target: Target, size: int) -> None:
    rig, order = target.rig, target.rig.order()
    calls = rig.calls()
    wire = await target.wire()
    pairs = ((DEV_IDENTITY, AGENT), ("x-large", "y" * size))
    stream, block = wire.next_stream(), http2.call_headers(REFUND, *pairs)
    pieces = [block[start : start + http2.MOST] for start in range(0, len(block), http2.MOST)]
    for number, piece in enumerate(pieces):
        kind = http2.CONTINUATION if number else http2.HEADERS
        await wire.send(frame(kind, http2.END_HEADERS * (number == len(pieces) - 1), stream, piece))
    await wire.send(
        frame(http2.DATA, http2.END_STREAM, stream, http2.message(refund(order).SerializeToString()))
    )
    assert await wire.closed(stream)
    await wire.close()
    await target.untouched(calls, order)


@pytest.mark.parametrize("kind", [http2.PING, http2.SETTINGS], ids=["ping", "settings"])
async def test_questions_whose_answers_nobody_reads(target: Target, kind: int) -> None:
    calls, before = target.rig.calls(), target.memory
    wire = await Wire.open(target.served.port, reads=False)
    payload = b"12345678" if kind == http2.PING else b""
    for _ in range(100):
        try:
            async with asyncio.timeout(2):
                await wire.send(frame(kind, 0, 0, payload) * 1_000)
        except TimeoutError:  # the door takes no more of it, which is what it should do
            break
    assert await target.lawful() == "passed"
    assert target.memory - before < 64 << 20
    await wire.close()
    await target.untouched(calls + 1)


@pytest.mark.parametrize("value", ["caf\xe9".encode("latin-1"), b"\xff\xff", b"a\0b", b"a\rb"])
async def test_metadata_that_is_no_text(target: Target, value: bytes) -> None:
    calls = target.rig.calls()
    wire = await target.wire()
    stream = await wire.call(REFUND, b"", (DEV_IDENTITY, value), ("x-any", value), ("traceparent", value))
    assert await wire.closed(stream)
    await wire.close()
    await target.untouched(calls)


@pytest.mark.parametrize(
    "timeout", ["", "1", "-1S", "99999999H", "1e3S", "0n", "S", "1S1S", "999999999999999999999S"]
)
async def test_a_deadline_that_is_none(target: Target, timeout: str) -> None:
    calls = target.rig.calls()
    wire = await target.wire()
    stream = await wire.call(REFUND, b"", (DEV_IDENTITY, AGENT), ("grpc-timeout", timeout))
    assert await wire.closed(stream)
    await wire.close()
    await target.untouched(calls)
