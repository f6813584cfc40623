"""The connection to a tool without grpcio, against a tool that says on the wire whatever it likes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import ngh2
import pytest
import pytest_asyncio

from sidecar.tool import http2
from sidecar.tool.http2 import UNTAKEN_BYTES, Link, Rpc

pytestmark = pytest.mark.asyncio

REQUEST = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a.B/C"), (b":authority", b"tool")]
HEAD = [(b":status", b"200"), (b"content-type", b"application/grpc")]
OK = [(b"grpc-status", b"0")]
UNKNOWN, DEADLINE, EXHAUSTED, INTERNAL, UNAVAILABLE = 2, 4, 8, 13, 14


def framed(body: bytes, compressed: int = 0) -> bytes:
    return bytes([compressed]) + len(body).to_bytes(4, "big") + body


class Peer(asyncio.Protocol):
    """A tool: `said` answers each request; what it raises ends the connection."""

    def __init__(self, said: "Callable[[Peer, int], None]") -> None:
        self.said = said
        self.http = ngh2.Connection(ngh2.Role.SERVER)
        self.transport: Any = None
        self.requests: list[int] = []
        self.reset: list[int] = []
        self.bodies: dict[int, bytes] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.http.initiate_connection()
        self.flush()

    def data_received(self, data: bytes) -> None:
        self.http.receive_data(data)
        for event in self.http.events():
            match event:
                case ngh2.DataReceived():
                    self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                    if event.end_stream:
                        self.requests.append(event.stream_id)
                        self.said(self, event.stream_id)
                case ngh2.StreamReset():
                    self.reset.append(event.stream_id)
                case _:
                    pass
        self.flush()

    def flush(self) -> None:
        self.transport.write(self.http.data_to_send())

    def reply(self, stream: int, *bodies: bytes, trailers: Any = OK, head: Any = HEAD) -> None:
        self.http.send_response(stream, head)
        for body in bodies:
            self.http.send_data(stream, body)
        if trailers:
            self.http.send_trailers(stream, trailers)


class House:
    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "tool.sock")
        self.peers: list[Peer] = []
        self.link: Link

    async def start(self, said: Callable[[Peer, int], None]) -> Link:
        def made() -> Peer:
            self.peers.append(Peer(said))
            return self.peers[-1]

        loop = asyncio.get_running_loop()
        self.server = await loop.create_unix_server(made, self.path)
        _, self.link = await loop.create_unix_connection(Link, self.path)
        await asyncio.wait_for(self.link.ready, 30)
        return self.link

    async def stop(self) -> None:
        self.link.close()
        self.server.close()
        await asyncio.wait_for(self.link.lost, 30)


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    await house.stop()


async def ended(rpc: Rpc) -> Rpc:
    async with asyncio.timeout(30):
        while not rpc.ended:
            await rpc.moved()
    return rpc


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 # what is waited for is another's state
            await asyncio.sleep(0.01)


async def test_a_reply_comes_with_its_head_body_and_trailers(house: House) -> None:
    trailers = [*OK, (b"licet-effect", b"executed"), (b"x-bin", b"AAE,AAI="), (b"grpc-message", b"a%20b")]
    link = await house.start(
        lambda peer, stream: peer.reply(
            stream, framed(b"body"), trailers=trailers, head=[*HEAD, (b"a", b"b")]
        )
    )
    rpc = await ended(link.begin(REQUEST, b"asked", streaming=False))
    assert (rpc.code, rpc.message, list(rpc.messages)) == (0, "a b", [b"body"])
    assert rpc.initial == (("a", "b"),)
    assert rpc.trailing == (("licet-effect", "executed"), ("x-bin", b"\0\1"), ("x-bin", b"\0\2"))
    assert house.peers[0].bodies[1] == framed(b"asked")


async def test_a_status_alone_is_a_whole_answer(house: House) -> None:
    def said(peer: Peer, stream: int) -> None:
        peer.http.send_response(stream, [*HEAD, (b"grpc-status", b"5"), (b"k", b"v")], end_stream=True)

    rpc = await ended((await house.start(said)).begin(REQUEST, b"", streaming=False))
    assert (rpc.code, rpc.trailing) == (5, (("k", "v"),))


def _reset(peer: Peer, stream: int) -> None:
    peer.http.send_response(stream, HEAD)
    peer.http.reset_stream(stream, ngh2.ErrorCode.INTERNAL_ERROR)


def _no_status(peer: Peer, stream: int) -> None:
    peer.http.send_response(stream, HEAD)
    peer.http.send_data(stream, framed(b"body"), end_stream=True)


def _closes(peer: Peer, stream: int) -> None:
    peer.reply(stream, framed(b"body"), trailers=None)
    peer.flush()
    peer.transport.close()


LIES: dict[str, tuple[Callable[[Peer, int], None], int]] = {
    "ends the stream by a reset": (_reset, INTERNAL),
    "ends the stream without a status": (_no_status, UNKNOWN),
    "ends the connection after the body": (_closes, UNAVAILABLE),
    "sends no message": (lambda peer, stream: peer.reply(stream), INTERNAL),
    "sends half a message": (lambda peer, stream: peer.reply(stream, framed(b"body")[:-1]), INTERNAL),
    "sends two messages": (lambda peer, stream: peer.reply(stream, framed(b"a") + framed(b"b")), INTERNAL),
    "sends a compressed message": (lambda peer, stream: peer.reply(stream, framed(b"a", 1)), INTERNAL),
    "sends too long a message": (
        lambda peer, stream: peer.reply(stream, b"\0\xff\xff\xff\xff", trailers=None),
        EXHAUSTED,
    ),
    "sends another encoding": (
        lambda peer, stream: peer.reply(stream, head=[*HEAD, (b"grpc-encoding", b"gzip")]),
        INTERNAL,
    ),
    "says that it is no page": (
        lambda peer, stream: peer.reply(stream, head=[(b":status", b"404")]),
        UNKNOWN,
    ),
    "says a status that is no number": (
        lambda peer, stream: peer.reply(stream, framed(b""), trailers=[(b"grpc-status", b"zero")]),
        UNKNOWN,
    ),
    "says a status that is none": (
        lambda peer, stream: peer.reply(stream, framed(b""), trailers=[(b"grpc-status", b"77")]),
        UNKNOWN,
    ),
    "sends bytes that are no base64": (
        lambda peer, stream: peer.reply(stream, framed(b""), trailers=[*OK, (b"a-bin", b"A")]),
        INTERNAL,
    ),
}


@pytest.mark.parametrize("lie", LIES)
async def test_no_lie_of_a_tool_becomes_a_success(house: House, lie: str) -> None:
    said, code = LIES[lie]

    def once(peer: Peer, stream: int) -> None:
        if stream == 1:
            said(peer, stream)
        else:
            peer.reply(stream, framed(b"good"))

    link = await house.start(once)
    assert (await ended(link.begin(REQUEST, b"", streaming=False))).code == code
    if code != UNAVAILABLE:
        assert (await ended(link.begin(REQUEST, b"", streaming=False))).code == 0


async def test_what_speaks_no_http2_ends_the_connection_and_every_call_on_it(house: House) -> None:
    def said(peer: Peer, stream: int) -> None:
        if len(peer.requests) == 2:
            peer.transport.write(b"\xff" * 64)

    link = await house.start(said)
    calls = [link.begin(REQUEST, b"", streaming=False) for _ in range(2)]
    assert [(await ended(rpc)).code for rpc in calls] == [UNAVAILABLE] * 2
    assert link.lost.done()


async def test_a_tool_that_says_nothing_is_left_at_the_deadline_and_told_so(house: House) -> None:
    link = await house.start(lambda _peer, _stream: None)
    rpc = link.begin(REQUEST, b"", streaming=False)
    rpc.expire_in(0.05)
    assert (await ended(rpc)).code == DEADLINE
    await until(lambda: house.peers[0].reset == [rpc.stream_id])


async def test_a_tool_that_says_goodbye_ends_its_open_calls_and_gets_no_new_one(house: House) -> None:
    def said(peer: Peer, stream: int) -> None:
        peer.http.send_goaway()
        peer.reply(stream, framed(b"last"))

    link = await house.start(said)
    rpc = await ended(link.begin(REQUEST, b"", streaming=False))
    assert (rpc.code, list(rpc.messages), link.lost.done()) == (0, [b"last"], True)


async def test_calls_at_once_have_each_its_own_answer(house: House) -> None:
    link = await house.start(lambda peer, stream: peer.reply(stream, peer.bodies[stream]))
    calls = [link.begin(REQUEST, b"%d" % number, streaming=False) for number in range(300)]
    answers = [(await ended(rpc)).messages[0] for rpc in calls]
    assert answers == [b"%d" % number for number in range(300)]


async def test_a_large_request_and_a_large_reply_pass_whole(house: House) -> None:
    link = await house.start(lambda peer, stream: peer.reply(stream, peer.bodies[stream]))
    body = bytes(range(256)) * 4_096  # as large as a request may be
    rpc = await ended(link.begin(REQUEST, body, streaming=False))
    assert rpc.messages[0] == body


async def test_a_stream_nobody_takes_holds_back_its_tool_and_no_other_call(house: House) -> None:
    part = framed(bytes(64 * 1024))

    def said(peer: Peer, stream: int) -> None:
        peer.reply(stream, *([part] * 100 if stream == 1 else [framed(b"other")]))

    link = await house.start(said)
    stream = link.begin(REQUEST, b"", streaming=True)
    await until(lambda: stream.owed > 0)
    other = await ended(link.begin(REQUEST, b"", streaming=False))
    assert (other.code, stream.ended) == (0, False)
    assert stream.untaken <= UNTAKEN_BYTES + http2.STREAM_WINDOW
    taken = 0
    async with asyncio.timeout(30):
        while not stream.ended or stream.messages:
            if stream.messages:
                taken += len(stream.take())
            else:
                await stream.moved()
    assert (taken, stream.code) == (100 * 64 * 1024, 0)


async def test_a_call_that_is_abandoned_changes_nothing_for_the_next(house: House) -> None:
    link = await house.start(
        lambda peer, stream: peer.reply(stream, framed(b"x" * 1_000), trailers=OK if stream > 1 else None)
    )
    first = link.begin(REQUEST, b"", streaming=False)
    first.abandon(1, "nobody waits")
    first.abandon(2, "again")
    assert ((await ended(first)).code, (await ended(link.begin(REQUEST, b"", streaming=False))).code) == (
        1,
        0,
    )


async def test_a_link_that_ended_takes_no_call(house: House) -> None:
    link = await house.start(lambda peer, stream: peer.reply(stream, framed(b"")))
    link.close()
    await asyncio.wait_for(link.lost, 30)
    with pytest.raises(ngh2.NGH2Error):
        link.begin(REQUEST, b"", streaming=False)
