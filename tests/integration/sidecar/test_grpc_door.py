"""The gRPC door and the tool's socket over real gRPC; spend and journal are fakes, so that each call is
seen whole.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

import sidecar.entrance.grpc_door
from licet.call import left_out_mark
from licet.event import EventKind
from licet.metadata import DEV_IDENTITY, PERMIT
from licet.v1 import decision_pb2
from sidecar.entrance.grpc_door import SERVER_OPTIONS, GrpcDoor, identify_development
from sidecar.tool.link import SocketTool
from tests.unit.sidecar.conftest import World
from tests.worlds.mint import AGENT, REFUND, SEARCH, Mint, refund

pytestmark = pytest.mark.asyncio

EXECUTED = (("licet-effect", "executed"),)


class EchoTool(grpc.GenericRpcHandler):
    """Answers with what it got; keeps metadata and counts."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.metadata: list[tuple[tuple[str, Any], ...]] = []
        self.trailers: tuple[tuple[str, Any], ...] = EXECUTED
        self.code = grpc.StatusCode.OK
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.left = asyncio.Event()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method == SEARCH:
            return grpc.unary_stream_rpc_method_handler(self.stream)
        return grpc.unary_unary_rpc_method_handler(self.answer)

    def note(self, body: bytes, context: Any) -> None:
        self.bodies.append(body)
        self.metadata.append(tuple(context.invocation_metadata()))
        context.set_trailing_metadata(self.trailers)
        self.entered.set()

    async def answer(self, body: bytes, context: Any) -> bytes:
        self.note(body, context)
        await context.send_initial_metadata((("x-region", "eu"),))
        if self.gate is not None:
            await self.gate.wait()
        if self.code is not grpc.StatusCode.OK:
            context.set_code(self.code)
            context.set_details("the tool says no")
        self.left.set()
        return b"echo:" + body

    async def stream(self, body: bytes, context: Any) -> AsyncIterator[bytes]:
        self.note(body, context)
        for number in range(3):
            yield b"part-%d" % number


class House:
    """A world whose door is on TCP and whose tool is on a socket."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.echo = EchoTool()
        self.socket = directory / "tool.sock"
        self.streams: frozenset[str] = frozenset()

    async def start(self) -> None:
        self.tool_server = aio.server()
        self.tool_server.add_generic_rpc_handlers((self.echo,))
        self.tool_server.add_insecure_port(f"unix:{self.socket}")
        await self.tool_server.start()
        self.tool = SocketTool(self.socket)
        self.tool.start()
        await self.tool.channel.channel_ready()
        self.world.tool = self.tool  # type: ignore[assignment]
        self.world.door = self.world.make_door()
        self.server = aio.server(options=SERVER_OPTIONS)
        door = GrpcDoor(self.world.door.handle, identify_development, streams=lambda: self.streams)
        self.server.add_generic_rpc_handlers((door,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        self.channel = aio.insecure_channel(f"127.0.0.1:{self.port}")

    async def stop(self) -> None:
        await self.channel.close()
        await self.server.stop(0)
        await self.world.door.drain(1_000)
        await self.tool.close()
        await self.tool_server.stop(0)

    async def call(
        self, *pairs: tuple[str, Any], path: str = REFUND, body: bytes | None = None, **rest: Any
    ) -> Any:
        body = refund().SerializeToString() if body is None else body
        metadata = ((DEV_IDENTITY, AGENT), *pairs)
        return await self.channel.unary_unary(path)(body, metadata=metadata, **rest)

    async def refused(self, *pairs: tuple[str, Any], **rest: Any) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(aio.AioRpcError) as caught:
            await self.call(*pairs, **rest)
        return caught.value.code(), reason_of(caught.value)

    @property
    def event(self) -> tuple[EventKind, dict[str, Any]]:
        return self.world.event  # type: ignore[return-value]


def reason_of(error: aio.AioRpcError) -> str:
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    if not isinstance(details, bytes):
        return ""
    info = error_details_pb2.ErrorInfo()
    status_pb2.Status.FromString(details).details[0].Unpack(info)
    assert info.domain == "licet"
    return str(info.reason)


@pytest.fixture(scope="module")
def mint(tmp_path_factory: pytest.TempPathFactory) -> Mint:
    return Mint(tmp_path_factory.mktemp("mint"))


@pytest_asyncio.fixture
async def house(mint: Mint, tmp_path: Path) -> AsyncIterator[House]:
    house = House(World(mint), tmp_path)
    await house.start()
    yield house
    await house.stop()


async def test_a_lawful_call_comes_back_as_the_tool_answered_it(house: House) -> None:
    call = house.channel.unary_unary(REFUND)(
        refund().SerializeToString(), metadata=((DEV_IDENTITY, AGENT), (PERMIT, house.world.mint.permit()))
    )
    assert await call == b"echo:" + refund().SerializeToString(deterministic=True)
    assert dict(await call.initial_metadata())["x-region"] == "eu"
    assert "licet-effect" not in dict(await call.trailing_metadata())


async def test_only_permit_attempt_and_trace_context_go_to_the_tool(house: House) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    permit = house.world.mint.permit()
    await house.call(
        (PERMIT, permit),
        ("authorization", "bearer secret"),
        ("traceparent", parent),
        ("tracestate", "vendor=1"),
        ("baggage", "tenant=t9"),
        ("licet-attempt", "0" * 32),
        ("licet-effect", "executed"),
        ("x-tenant", "t9"),
    )
    got = [pair for pair in house.echo.metadata[0] if pair[0] != "user-agent"]
    assert sorted(key for key, _ in got) == ["licet-attempt", PERMIT, "traceparent", "tracestate"]
    assert dict(got)[PERMIT] == permit
    assert dict(got)["licet-attempt"] == house.event[1]["attempt"] != "0" * 32
    assert dict(got)["traceparent"].startswith("00-4bf92f3577b34da6a3ce929d0e0e4736-")
    assert dict(got)["traceparent"] != parent


@pytest.mark.negative(1)
async def test_no_permit(house: House) -> None:
    assert await house.refused() == (grpc.StatusCode.UNAUTHENTICATED, "NO_PERMIT")
    assert (house.echo.bodies, house.event[1]["reason"]) == ([], "NO_PERMIT")


@pytest.mark.negative(2)
async def test_two_permit_values(house: House) -> None:
    permit = house.world.mint.permit()
    answer = await house.refused((PERMIT, permit), (PERMIT, permit))
    assert answer == (grpc.StatusCode.UNAUTHENTICATED, "PERMIT_AMBIGUOUS")
    assert (house.echo.bodies, house.event[1]["reason"]) == ([], "PERMIT_AMBIGUOUS")


@pytest.mark.negative(10)
@pytest.mark.parametrize(
    "path",
    [
        "fin.v1.Finance/IssueRefund",
        "//fin.v1.Finance/IssueRefund",
        "/fin.v1.Finance/IssueRefund?x=1",
        "/fin.v1.Finance/IssueRefund/",
        "/fin.v1.Finance/issueRefund",
        "/FIN.v1.Finance/IssueRefund",
        "/fin.v1.Finance/IssueRefund%20",
        "/fin.v1.Finance//IssueRefund",
        "/fin.v1.Finance/../fin.v1.Finance/IssueRefund",
    ],
)
async def test_another_spelling_of_a_path_is_another_path(house: House, path: str) -> None:
    answer = await house.refused((PERMIT, house.world.mint.permit()), path=path)
    assert answer == (grpc.StatusCode.UNIMPLEMENTED, "METHOD_UNKNOWN")
    assert (house.echo.bodies, house.event[1]["method"]) == ([], path)


async def test_the_tools_own_error_comes_back_as_it_is(house: House) -> None:
    house.echo.code = grpc.StatusCode.NOT_FOUND
    house.echo.trailers = (("licet-effect", "none"), ("x-hint", "try O2"))
    with pytest.raises(aio.AioRpcError) as caught:
        await house.call((PERMIT, house.world.mint.permit()))
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "the tool says no")
    assert dict(caught.value.trailing_metadata() or ()) == {"x-hint": "try O2"}
    assert house.event[1]["outcome"] == "FAILED_NO_EFFECT"


async def test_half_a_call_ends_by_the_doors_own_limit(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar.entrance.grpc_door, "BODY_TIMEOUT_S", 0.2)

    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    metadata = ((DEV_IDENTITY, AGENT), (PERMIT, house.world.mint.permit()))
    with pytest.raises(aio.AioRpcError) as caught:
        await house.channel.stream_unary(REFUND)(nothing(), metadata=metadata)
    assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE")
    assert (house.world.spend.reserves, house.event[1]["reason"]) == ({}, "DEADLINE")


async def test_half_a_call_ends_by_its_callers_deadline(house: House) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    metadata = ((DEV_IDENTITY, AGENT), (PERMIT, house.world.mint.permit()))
    with pytest.raises(aio.AioRpcError) as caught:
        await house.channel.stream_unary(REFUND)(nothing(), metadata=metadata, timeout=0.3)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await house.world.door.drain(1_000)
    assert (house.world.spend.reserves, house.event[1]["reason"]) == ({}, "DEADLINE")


async def test_a_body_past_the_limit_is_refused_and_one_at_the_limit_is_read(house: House) -> None:
    limit = sidecar.entrance.grpc_door.MAX_REQUEST_BYTES
    assert (await house.refused(body=b"x" * limit))[1] == "NO_PERMIT"
    assert await house.refused(body=b"x" * (limit + 1)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE")
    assert [fields["reason"] for _, fields in house.world.journal.events] == ["NO_PERMIT", "TOO_LARGE"]


async def test_an_argument_of_five_megabytes_leaves_one_event_with_its_size_and_digest(house: House) -> None:
    body = b"x" * (5 << 20)
    assert (await house.refused(body=body))[1] == "TOO_LARGE"
    ((_, fields),) = house.world.journal.events
    assert fields["detail"] == left_out_mark(body, house.world.mint.k_tool)
    assert len(str(fields["detail"])) < 120


async def test_far_too_large_a_body_is_refused_by_the_transport_with_an_event(house: House) -> None:
    code, _ = await house.refused(body=b"x" * (sidecar.entrance.grpc_door.MAX_REQUEST_BYTES * 8))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    await house.world.door.drain(1_000)
    assert house.echo.bodies == []
    assert house.event[1]["reason"] == "DEADLINE"  # no whole request came


async def test_a_callers_cancel_does_not_reach_the_tool(house: House) -> None:
    house.echo.gate = asyncio.Event()
    call = asyncio.create_task(house.call((PERMIT, house.world.mint.permit())))
    await house.echo.entered.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.sleep(0.05)
    house.echo.gate.set()
    await house.world.door.drain(1_000)
    assert house.echo.left.is_set()
    assert (house.event[0], house.event[1]["outcome"]) == (EventKind.DOOR_PASSED, "EXECUTED")
    assert list(house.world.spend.outcomes.values()) == ["EXECUTED"]


async def test_a_callers_deadline_does_not_reach_the_tool(house: House) -> None:
    house.echo.gate = asyncio.Event()
    with pytest.raises(aio.AioRpcError) as caught:
        await house.call((PERMIT, house.world.mint.permit()), timeout=0.3)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    house.echo.gate.set()
    await house.world.door.drain(1_000)
    assert list(house.world.spend.outcomes.values()) == ["EXECUTED"]


async def test_a_tool_that_dies_in_a_call_leaves_its_outcome_unknown(house: House) -> None:
    house.echo.gate = asyncio.Event()
    call = asyncio.create_task(house.refused((PERMIT, house.world.mint.permit())))
    await house.echo.entered.wait()
    await house.tool_server.stop(0)
    assert (await call)[0] in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    assert (house.event[1]["outcome"], house.world.spend.outcomes) == ("UNKNOWN", {})


async def test_a_tool_that_is_not_there_uses_up_no_step(house: House) -> None:
    await house.tool_server.stop(0)
    for _ in range(100):
        if not house.tool.reachable:
            break
        await asyncio.sleep(0.01)
    answer = await house.refused((PERMIT, house.world.mint.permit()))
    assert answer == (grpc.StatusCode.UNAVAILABLE, "TOOL_UNREACHABLE")
    assert house.world.spend.reserves == {}


async def test_a_tool_that_comes_back_is_found_again(house: House) -> None:
    await house.tool_server.stop(0)
    house.tool_server = aio.server()
    house.tool_server.add_generic_rpc_handlers((house.echo,))
    house.tool_server.add_insecure_port(f"unix:{house.socket}")
    await house.tool_server.start()
    assert await house.call((PERMIT, house.world.mint.permit()))


def stream_permit(house: House, **changes: Any) -> bytes:
    house.world.change_catalog(SearchPolicy={"server_streaming": True})
    house.streams = frozenset({SEARCH})
    state = house.world.beacons.state()
    assert state is not None
    versions = state.catalog.method(SEARCH)
    assert versions is not None
    from licet.call import call_digest

    digest = call_digest(
        house.world.mint.k_tool,
        versions.current.codec,
        SEARCH,
        versions.current.digest,
        versions.current.arguments(b"").encoded,  # type: ignore[union-attr]
    )
    method_digest = versions.current.digest
    return house.world.mint.permit(SEARCH, b"", method_digest=method_digest, call_digest=digest, **changes)


async def test_a_stream_reaches_its_caller_part_by_part(house: House) -> None:
    permit = stream_permit(house)
    call = house.channel.unary_stream(SEARCH)(b"", metadata=((DEV_IDENTITY, AGENT), (PERMIT, permit)))
    assert [part async for part in call] == [b"part-0", b"part-1", b"part-2"]
    assert house.event[0] is EventKind.DOOR_PASSED


async def test_a_stream_whose_replies_must_be_masked_is_refused_and_shows_nothing(house: House) -> None:
    mask = decision_pb2.Obligation(id="mask_reply", paths=["tenant"])
    permit = stream_permit(house, obligations=[mask])
    call = house.channel.unary_stream(SEARCH)(b"", metadata=((DEV_IDENTITY, AGENT), (PERMIT, permit)))
    with pytest.raises(aio.AioRpcError) as caught:
        assert [part async for part in call] == []
    assert (reason_of(caught.value), house.echo.bodies) == ("OBLIGATION_UNKNOWN", [])
    assert house.event[1]["reason"] == "OBLIGATION_UNKNOWN"


async def test_a_stream_without_permit_has_no_part(house: House) -> None:
    house.world.change_catalog(SearchPolicy={"server_streaming": True})
    house.streams = frozenset({SEARCH})
    call = house.channel.unary_stream(SEARCH)(b"", metadata=((DEV_IDENTITY, AGENT),))
    with pytest.raises(aio.AioRpcError) as caught:
        assert [part async for part in call] == []
    assert reason_of(caught.value) == "NO_PERMIT"
    assert house.echo.bodies == []


async def test_a_request_that_cannot_be_built_is_denied_and_tells_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("secret internals")

    monkeypatch.setattr(sidecar.entrance.grpc_door, "development_peer", broken)
    with pytest.raises(aio.AioRpcError) as caught:
        await house.call((PERMIT, house.world.mint.permit()))
    assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret" not in str(caught.value)
    assert (house.echo.bodies, house.event[1]["reason"]) == ([], "INTERNAL")


@pytest.mark.parametrize("said", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"PRI * HTT"])
async def test_a_connection_that_never_becomes_one_is_closed(house: House, said: bytes) -> None:
    options = dict(SERVER_OPTIONS)
    assert options["grpc.server_handshake_timeout_ms"] <= 10_000
    options["grpc.server_handshake_timeout_ms"] = 300
    server = aio.server(options=tuple(options.items()))
    server.add_generic_rpc_handlers((GrpcDoor(house.world.door.handle, identify_development),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    async with asyncio.timeout(60):
        while await reader.read(1_024):
            pass
    writer.close()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        permit = house.world.mint.permit()
        pairs = ((DEV_IDENTITY, AGENT), (PERMIT, permit))
        assert await channel.unary_unary(REFUND)(refund().SerializeToString(), metadata=pairs)
    await server.stop(0)


async def test_garbage_on_the_port_does_not_stop_the_door(house: House) -> None:
    for raw in (b"\x00" * 64, b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 512):
        _, writer = await asyncio.open_connection("127.0.0.1", house.port)
        writer.write(raw)
        await writer.drain()
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    assert await house.call((PERMIT, house.world.mint.permit()))
