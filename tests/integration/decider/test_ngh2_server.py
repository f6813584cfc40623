"""gRPC over ngh2: calls of real gRPC clients, and what clients that are none may do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import ngh2
import pytest
import pytest_asyncio
from grpc_status import rpc_status

from decider.server import Limits, UnaryServer, connection
from decider.status import status_of
from decider.whole import Whole
from licet.intake import EACH, LOCAL, Intake
from licet.refusal import Reason, Refusal

pytestmark = pytest.mark.asyncio

LIMITS = Limits(message_bytes=100_000, metadata_bytes=4_096)
WITHIN_S = 60.0


@dataclass
class Tool:
    """Handlers, and what became of their calls."""

    begun: int = 0
    cancelled: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def echo(self, body: bytes, context: Any) -> bytes:
        told = dict(context.invocation_metadata())
        return body + told.get("x-key-bin", b"") + context.peer().encode()[:5]

    async def fault(self, _body: bytes, _context: Any) -> bytes:
        raise ValueError("a secret")

    async def refuse(self, _body: bytes, context: Any) -> bytes:
        refusal = Refusal(Reason.QUOTA_EXCEEDED, "too much")
        await context.abort_with_status(rpc_status.to_status(status_of(refusal, "desk@example.com")))
        raise AssertionError

    async def large(self, body: bytes, _context: Any) -> bytes:
        return b"y" * int(body)

    async def wait(self, body: bytes, _context: Any) -> bytes:
        self.begun += 1
        await self._tell()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            await self._tell()
            raise
        return body

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def until(self, *, begun: int = 0, cancelled: int = 0) -> None:
        async with asyncio.timeout(WITHIN_S), self.changed:
            await self.changed.wait_for(lambda: self.begun >= begun and self.cancelled >= cancelled)


@dataclass
class Served:
    """A server, a channel of gRPC's own to it, and its handlers."""

    server: UnaryServer
    port: int
    channel: grpc.aio.Channel
    tool: Tool

    def call(self, name: str, body: bytes = b"hello", **more: Any) -> Any:
        return self.channel.unary_unary(f"/x.Tool/{name}")(
            body, timeout=more.pop("timeout", WITHIN_S), **more
        )

    async def refused(self, name: str, body: bytes = b"hello", **more: Any) -> grpc.aio.AioRpcError:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await self.call(name, body, **more)
        return error.value


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    tool = Tool()
    handlers = {
        name.capitalize(): grpc.unary_unary_rpc_method_handler(getattr(tool, name))
        for name in ("echo", "fault", "refuse", "large", "wait")
    }
    handlers["Stream"] = grpc.unary_stream_rpc_method_handler(tool.echo)
    server = UnaryServer(LIMITS)
    port = server.take_port("127.0.0.1:0")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("x.Tool", handlers),))
    await server.start()
    channel = grpc.aio.insecure_channel(
        f"127.0.0.1:{port}", options=(("grpc.max_receive_message_length", -1),)
    )
    yield Served(server, port, channel, tool)
    await channel.close()
    await server.stop(0)


class Raw:
    """A client that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.http = ngh2.Connection(ngh2.Role.CLIENT)
        self.http.initiate_connection()

    def send(self, path: bytes, *more: tuple[bytes, bytes], body: bytes | None = None) -> int:
        headers = (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path),
            (b":authority", b"x"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
            *more,
        )
        stream_id = self.http.send_request(headers)
        if body is not None:
            self.http.send_data(stream_id, body, end_stream=True)
        self.flush()
        return stream_id

    def flush(self) -> None:
        self.writer.write(self.http.data_to_send())

    async def events(self) -> AsyncIterator[Any]:
        """Yield what comes, answering what HTTP/2 answers by itself, until the server ends the connection."""
        async with asyncio.timeout(WITHIN_S):
            while data := await self.reader.read(65_536):
                self.http.receive_data(data)
                for event in self.http.events():
                    yield event
                self.flush()

    async def status(self, stream_id: int) -> dict[bytes, bytes]:
        """Return the headers of an answer that is a status alone."""
        async for event in self.events():
            if isinstance(event, ngh2.ResponseReceived) and event.stream_id == stream_id:
                return dict(event.headers)
        raise AssertionError("no answer")

    async def ended(self) -> None:
        """Return when the server has ended the connection."""
        with contextlib.suppress(ConnectionError, ngh2.NGH2Error):
            async for _ in self.events():
                pass


@contextlib.asynccontextmanager
async def raw(port: int) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


HELLO = b"\x00\x00\x00\x00\x05hello"


async def test_call_comes_with_its_message_metadata_and_peer(served: Served) -> None:
    assert (
        await served.call("Echo", b"hello", metadata=(("x-key-bin", b"\x00\xff"),)) == b"hello\x00\xffipv4:"
    )


async def test_message_of_no_bytes_is_a_message(served: Served) -> None:
    assert await served.call("Echo", b"") == b"ipv4:"


async def test_answer_larger_than_every_window_arrives_whole(served: Served) -> None:
    assert await served.call("Large", b"20000000") == b"y" * 20_000_000


async def test_three_hundred_calls_at_once_are_each_answered(served: Served) -> None:
    answers = await asyncio.gather(*(served.call("Echo", b"%d," % number) for number in range(300)))
    assert answers == [b"%d,ipv4:" % number for number in range(300)]


async def test_refusal_arrives_with_its_details(served: Served) -> None:
    error = await served.refused("Refuse")
    status = rpc_status.from_call(error)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert status is not None
    assert any(b"QUOTA_EXCEEDED" in detail.value for detail in status.details)


async def test_fault_of_a_handler_tells_nothing_and_ends_no_other_call(served: Served) -> None:
    error = await served.refused("Fault")
    assert (error.code(), "secret" in str(error.details())) == (grpc.StatusCode.UNKNOWN, False)
    assert await served.call("Echo") == b"helloipv4:"


@pytest.mark.parametrize("name", ["Nothing", "Stream", "echo"])
async def test_method_that_is_not_there_is_unimplemented(served: Served, name: str) -> None:
    assert (await served.refused(name)).code() is grpc.StatusCode.UNIMPLEMENTED


async def test_path_that_is_no_text_is_no_method_and_ends_nothing(served: Served) -> None:
    async with raw(served.port) as client:
        odd = await client.status(client.send(b"/x.Tool/Echo\xff", body=HELLO))
        assert odd[b"grpc-status"] == b"12"
        plain = await client.status(client.send(b"/x.Tool/Echo", body=HELLO))
        assert plain == {b":status": b"200", b"content-type": b"application/grpc"}


async def test_largest_message_passes_and_one_byte_more_does_not(served: Served) -> None:
    largest = b"x" * LIMITS.message_bytes
    assert len(await served.call("Echo", largest)) == len(largest) + 5
    assert (await served.refused("Echo", largest + b"x")).code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_unfinished_messages_of_a_connection_are_bounded_together(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_HELD_BYTES", 50_000)
    async with raw(served.port) as client:
        for _ in range(2):
            waiting = client.send(b"/x.Tool/Echo")
            client.http.send_data(waiting, HELLO[:5] + b"x" * 20_000)
            client.flush()
        over = await client.status(client.send(b"/x.Tool/Echo", body=HELLO[:1] + b"x" * 20_000))
        assert over[b"grpc-status"] == b"8"
        client.http.reset_stream(waiting)
        client.flush()
        fits = await client.status(client.send(b"/x.Tool/Echo", body=HELLO))
        assert b"grpc-status" not in fits


async def test_metadata_over_the_limit_refuses_its_call_alone(served: Served) -> None:
    async with raw(served.port) as client:
        over = await client.status(client.send(b"/x.Tool/Echo", (b"x-long", b"x" * 4_096), body=HELLO))
        assert over[b"grpc-status"] == b"8"
        fits = await client.status(client.send(b"/x.Tool/Echo", (b"x-long", b"x" * 2_048), body=HELLO))
        assert b"grpc-status" not in fits


async def test_compressed_message_is_refused(served: Served) -> None:
    error = await served.refused("Echo", b"x" * 10_000, compression=grpc.Compression.Gzip)
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_request_of_a_browser_is_no_call(served: Served) -> None:
    async with raw(served.port) as client:
        assert (await client.status(client.send(b"/x.Tool/Echo", (b"grpc-timeout", b"never"))))[
            b"grpc-status"
        ] == b"13"
        page = client.http.send_request(
            ((b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"x")),
            end_stream=True,
        )
        client.flush()
        assert await client.status(page) == {b":status": b"405"}


async def test_call_that_its_caller_gives_up_is_cancelled(served: Served) -> None:
    call = served.call("Wait")
    await served.tool.until(begun=1)
    call.cancel()
    await served.tool.until(cancelled=1)


async def test_call_past_its_deadline_is_cancelled(served: Served) -> None:
    error = await served.refused("Wait", timeout=0.2)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    if served.tool.begun:  # a busy machine may come to it when its time is up already
        await served.tool.until(cancelled=1)
    served.tool.go_on.set()
    assert await served.call("Wait") == b"hello"


async def test_server_keeps_a_deadline_that_its_caller_does_not(served: Served) -> None:
    async with raw(served.port) as client:
        late = await client.status(client.send(b"/x.Tool/Wait", (b"grpc-timeout", b"50m"), body=HELLO))
        assert late[b"grpc-status"] == b"4"
    await served.tool.until(begun=1, cancelled=1)


async def test_end_of_a_connection_cancels_its_calls_and_no_others(served: Served) -> None:
    kept = asyncio.ensure_future(served.call("Wait"))
    async with raw(served.port) as client:
        client.send(b"/x.Tool/Wait", body=HELLO)
        await served.tool.until(begun=2)
    await served.tool.until(cancelled=1)
    served.tool.go_on.set()
    assert await kept == b"hello"
    assert served.tool.cancelled == 1


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\x00" * 4_000])
async def test_what_is_no_http2_ends_its_connection_alone(served: Served, garbage: bytes) -> None:
    kept = asyncio.ensure_future(served.call("Wait"))
    await served.tool.until(begun=1)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(garbage)
    writer.write_eof()
    async with asyncio.timeout(WITHIN_S):
        with contextlib.suppress(ConnectionError):
            while await reader.read(65_536):
                pass
    writer.close()
    served.tool.go_on.set()
    assert await kept == b"hello"


async def test_flood_of_calls_given_up_ends_its_connection_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RESETS", (20, 1))
    served.tool.go_on.set()
    async with raw(served.port) as client:
        for _ in range(200):
            client.http.reset_stream(client.send(b"/x.Tool/Echo"))
            client.flush()
        await client.ended()
    assert await served.call("Wait") == b"hello"


async def test_quiet_peer_that_answers_pings_stays(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "QUIET_S", 0.05)
    async with raw(served.port) as client:
        client.flush()
        pings = 0
        async for event in client.events():
            pings += isinstance(event, ngh2.PingReceived)
            if pings == 1:
                break
        client.flush()
        assert b"grpc-status" not in await client.status(client.send(b"/x.Tool/Echo", body=HELLO))


async def test_quiet_peer_that_answers_nothing_is_let_go(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "QUIET_S", 0.05)
    monkeypatch.setattr(connection, "GONE_S", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    async with asyncio.timeout(WITHIN_S):
        with contextlib.suppress(ConnectionError):
            while await reader.read(65_536):
                pass
    writer.close()


async def test_stop_lets_open_calls_end_and_takes_no_new_ones(served: Served) -> None:
    open_call = asyncio.ensure_future(served.call("Wait"))
    await served.tool.until(begun=1)
    stopping = asyncio.ensure_future(served.server.stop(WITHIN_S))
    assert (await served.refused("Echo", timeout=10)).code() is grpc.StatusCode.UNAVAILABLE
    served.tool.go_on.set()
    assert await open_call == b"hello"
    await stopping
    assert served.tool.cancelled == 0


async def test_stop_cancels_what_does_not_end_in_time(served: Served) -> None:
    open_call = asyncio.ensure_future(served.refused("Wait"))
    await served.tool.until(begun=1)
    await served.server.stop(0.01)
    await served.tool.until(cancelled=1)
    assert (await open_call).code() is grpc.StatusCode.UNAVAILABLE


@contextlib.asynccontextmanager
async def server_of(kind: str, half_sent_ms: int) -> AsyncIterator[tuple[int, Intake, Tool]]:
    """Yield port, half-sent calls and handlers of a server of either kind."""
    tool = Tool()
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(tool.echo)}
    handlers["Wait"] = grpc.unary_unary_rpc_method_handler(tool.wait)
    methods = grpc.method_handlers_generic_handler("x.Tool", handlers)
    server: Any
    if kind == "ngh2":
        server = UnaryServer(Limits(100_000, 4_096, half_sent_ms))
        intake, port, serving = server.intake, server.take_port("127.0.0.1:0"), methods
    else:
        server, serving = grpc.aio.server(), Whole(methods, half_sent_ms)
        intake, port = serving.intake, server.add_insecure_port("127.0.0.1:0")
    server.add_generic_rpc_handlers((serving,))
    await server.start()
    yield port, intake, tool
    await server.stop(0)


@pytest.mark.parametrize("kind", ["grpcio", "ngh2"])
async def test_half_a_request_and_silence_is_ended_and_holds_no_slot(kind: str) -> None:
    async with server_of(kind, 200) as (port, intake, _), raw(port) as client:
        silent, half = client.send(b"/x.Tool/Echo"), client.send(b"/x.Tool/Echo")
        client.http.send_data(half, HELLO[:7])
        client.flush()
        ended: set[int] = set()
        statuses: dict[int, bytes] = {}
        async for event in client.events():
            if isinstance(event, ngh2.ResponseReceived):
                statuses[event.stream_id] = dict(event.headers)[b"grpc-status"]
            elif isinstance(event, ngh2.StreamClosed | ngh2.StreamReset):
                ended.add(event.stream_id)
            if ended == {silent, half}:
                break
        assert statuses == {silent: b"4", half: b"4"}
        async with asyncio.timeout(WITHIN_S):
            while len(intake):  # noqa: ASYNC110 - grpcio's handler ends after its status is out
                await asyncio.sleep(0.005)


@pytest.mark.parametrize("kind", ["grpcio", "ngh2"])
async def test_whole_request_is_half_sent_no_more_while_it_is_worked_on(kind: str) -> None:
    async with server_of(kind, 60_000) as (port, intake, tool), raw(port) as client:
        waiting = client.send(b"/x.Tool/Wait", body=HELLO)
        await tool.until(begun=1)
        assert len(intake) == 0
        tool.go_on.set()
        assert b"grpc-status" not in await client.status(waiting)


@pytest.mark.parametrize("kind", ["grpcio", "ngh2"])
async def test_half_sent_calls_of_a_peer_are_bounded(kind: str) -> None:
    async with server_of(kind, 60_000) as (port, intake, _), raw(port) as client:
        assert sum(intake.enter(LOCAL) for _ in range(EACH.calls + 1)) == EACH.calls
        over = await client.status(client.send(b"/x.Tool/Echo"))
        assert over[b"grpc-status"] == b"8"
        intake.leave(LOCAL)
        fits = await client.status(client.send(b"/x.Tool/Echo", body=HELLO))
        assert b"grpc-status" not in fits
