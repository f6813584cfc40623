"""What the door may rely on, held against the real part and against the fake that stands in for it in unit
tests.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from licet.embedded.nats_accounts import SETUP, sidecar_user
from licet.embedded.nats_server import NatsServer
from licet.event import EventKind
from licet.journal import Journal
from licet.permit import Permit, Presented, examine
from licet.refusal import Reason, Refusal
from licet.streams import EMBEDDED_SIZES, Publisher, apply_streams, connect, subject_audit
from licet.tracing import TraceContext
from sidecar.clock import SystemClock
from sidecar.exchange import ToolAnswer
from sidecar.knowledge import Knowledge
from sidecar.outcome import Outcome
from sidecar.parts import Beacons, Clock, Forward, Reserved, Spend, Tool
from sidecar.parts import Journal as JournalPart
from sidecar.store.spend import SpendClient
from sidecar.tool.http2_link import Http2Tool
from sidecar.tool.link import SocketTool, signed_bytes
from tests.unit.sidecar.conftest import World
from tests.unit.sidecar.test_knowledge import Scene
from tests.worlds.fakes import FakeBeacons, FakeClock, FakeJournal, FakeSpend, FakeTool, request
from tests.worlds.mint import AGENT, ENVIRONMENT, REFUND, TOOL, Mint, now_ms, refund

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("sidecar_parts")]
TOOLS: dict[str, type[SocketTool]] = {"real": SocketTool, "ngh2": Http2Tool}
BOTH = pytest.mark.parametrize("kind", ["real", "fake"])


class Parts:
    """Makes each part, real or fake."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mint = Mint(directory)
        self.nats = NatsServer(directory / "nats", environment=ENVIRONMENT, tools=(TOOL,))
        self.closing: list[Any] = []
        self.tool_calls: list[bytes] = []

    async def start(self) -> None:
        await asyncio.to_thread(self.nats.start)
        setup = await connect(self.nats.settings(SETUP), "setup")
        await apply_streams(setup, ENVIRONMENT, sizes=EMBEDDED_SIZES)
        await setup.close()
        self.connection = await connect(self.nats.settings(sidecar_user(TOOL)), "sidecar")
        self.publisher = await Publisher.open(self.connection)

    async def stop(self) -> None:
        for close in reversed(self.closing):
            await close()
        await self.publisher.close()
        await self.connection.close()
        await asyncio.to_thread(self.nats.stop)

    def world(self) -> World:
        return World(self.mint)

    def permit(self, **changes: Any) -> Permit:
        state = self.world().beacons.state()
        assert state is not None
        presented = Presented(
            path=REFUND,
            permits=(self.mint.permit(**changes),),
            approvals=(),
            body=refund().SerializeToString(),
            peer=AGENT,
        )
        held = state.beacon
        assert held is not None
        permit = examine(presented, state, now_ms=now_ms(), monotonic_ms=held.received_at_ms)
        assert not isinstance(permit, Refusal), permit
        return permit

    async def spend(self, kind: str) -> Spend:
        if kind == "fake":
            return FakeSpend()
        state = self.world().beacons.state()
        assert state is not None
        client = await SpendClient.open(
            self.directory / f"outcome-{len(self.closing)}",
            environment=ENVIRONMENT,
            tool=TOOL,
            sidecar="spiffe://licet.local/dev/sidecar/finance",
            publisher=self.publisher,
            spend_key=self.mint.key("spend-finance"),
            beacon=lambda: state.beacon,
        )
        self.closing.append(client.close)
        return client

    async def journal(self, kind: str) -> JournalPart:
        if kind == "fake":
            return FakeJournal()
        journal = await Journal.open(
            self.directory / f"journal-{len(self.closing)}",
            source="spiffe://licet.local/dev/sidecar/finance",
            environment=ENVIRONMENT,
            subject=subject_audit(ENVIRONMENT, "sidecar", TOOL),
            checkpoint_key=self.mint.key("checkpoint-sidecar-finance"),
            publisher=self.publisher,
        )
        self.closing.append(journal.close)
        return journal

    async def tool(self, kind: str, code: grpc.StatusCode, effect: str) -> Tool:
        if kind == "fake":
            fake = FakeTool()
            body = b"done" if code is grpc.StatusCode.OK else b""
            fake.answer = ToolAnswer(code=code.value[0], body=body, effect=effect, message="as told")
            return fake

        async def answer(body: bytes, context: Any) -> bytes:
            context.set_trailing_metadata((("licet-effect", effect),))
            context.set_details("as told")
            context.set_code(code)
            return b"done"

        class Handler(grpc.GenericRpcHandler):
            def service(self, details: grpc.HandlerCallDetails) -> Any:
                return grpc.unary_unary_rpc_method_handler(answer)

        path = self.directory / f"{len(self.closing)}.sock"
        server = aio.server()
        server.add_generic_rpc_handlers((Handler(),))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        tool = TOOLS[kind](path)
        tool.start()
        self.closing += [lambda: server.stop(0), tool.close]
        return tool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def parts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Parts]:
    parts = Parts(tmp_path_factory.mktemp("parts"))
    await parts.start()
    yield parts
    await parts.stop()


@BOTH
async def test_a_clock_gives_ms_and_its_monotonic_side_never_goes_back(kind: str) -> None:
    clock: Clock = SystemClock() if kind == "real" else FakeClock(now_ms())
    readings = [clock.monotonic_ms() for _ in range(100)]
    assert readings == sorted(readings)
    assert abs(clock.now_ms() - now_ms()) < 60_000


async def beacons(parts: Parts, kind: str) -> tuple[Beacons, Any]:
    if kind == "fake":
        world = parts.world()
        fake = FakeBeacons(world.state())

        async def another() -> None:
            fake.set(world.state())

        return fake, another
    scene = Scene(parts.mint)
    await scene.first()

    async def another() -> None:
        await scene.take(parts.mint.beacon(issued_at_ms=now_ms() + 100))

    knowledge: Knowledge = scene.knowledge
    return knowledge, another


@BOTH
async def test_who_waits_for_a_newer_state_hears_of_it_and_of_nothing_else(parts: Parts, kind: str) -> None:
    part, another = await beacons(parts, kind)
    state = part.state()
    assert state is not None
    assert part.state() is state
    assert not await part.newer(state, timeout_ms=20)
    waiting = asyncio.create_task(part.newer(state, timeout_ms=2_000))
    await asyncio.sleep(0.01)
    await another()
    assert await waiting
    assert part.state() is not state
    assert await part.newer(state, timeout_ms=20)


@BOTH
async def test_a_step_is_used_up_once(parts: Parts, kind: str) -> None:
    spend = await parts.spend(kind)
    permit = parts.permit()
    first = await spend.reserve(permit, attempt="a" * 32)
    assert isinstance(first, Reserved)
    again = await spend.reserve(permit, attempt="b" * 32)
    assert isinstance(again, Refusal)
    assert again.reason is Reason.SPENT


@BOTH
async def test_of_many_at_once_one_has_the_step(parts: Parts, kind: str) -> None:
    spend = await parts.spend(kind)
    permit = parts.permit()
    answers = await asyncio.gather(*(spend.reserve(permit, attempt=f"{one:032x}") for one in range(16)))
    assert sum(isinstance(answer, Reserved) for answer in answers) == 1


@BOTH
async def test_a_new_permit_for_the_step_changes_nothing_and_a_new_round_does(
    parts: Parts, kind: str
) -> None:
    spend = await parts.spend(kind)
    call_id = f"step-{kind}"
    assert isinstance(await spend.reserve(parts.permit(call_id=call_id), attempt="a" * 32), Reserved)
    assert isinstance(await spend.reserve(parts.permit(call_id=call_id), attempt="b" * 32), Refusal)
    assert isinstance(await spend.reserve(parts.permit(call_id=call_id, round=1), attempt="c" * 32), Reserved)


@BOTH
async def test_sequences_of_reserves_rise(parts: Parts, kind: str) -> None:
    spend = await parts.spend(kind)
    reserved = [await spend.reserve(parts.permit(), attempt="a" * 32) for _ in range(3)]
    seqs = [one.seq for one in reserved if isinstance(one, Reserved)]
    assert len(seqs) == 3
    assert seqs == sorted(set(seqs))


@BOTH
async def test_an_outcome_is_taken_without_waiting(parts: Parts, kind: str) -> None:
    spend = await parts.spend(kind)
    permit = parts.permit()
    await spend.reserve(permit, attempt="a" * 32)
    spend.outcome(permit, attempt="a" * 32, outcome=Outcome.EXECUTED, status_code=0)
    spend.outcome(permit, attempt="a" * 32, outcome=Outcome.FAILED_NO_EFFECT, status_code=9)


@BOTH
async def test_each_event_has_an_id_of_its_own(parts: Parts, kind: str) -> None:
    journal = await parts.journal(kind)
    assert not journal.full
    ids = [await journal.append(EventKind.DOOR_REFUSED, reason="NO_PERMIT") for _ in range(3)]
    ids += [journal.spool(EventKind.DOOR_REFUSED, reason="NO_PERMIT") for _ in range(3)]
    assert len(set(ids)) == 6
    assert all(len(one) == 32 and not one.strip("0123456789abcdef") for one in ids)


@BOTH
@pytest.mark.parametrize("fields", [{"no_such_field": "x"}, {"round": -1}, {"tier": 1 << 40}])
async def test_an_event_with_what_no_event_has_is_refused(parts: Parts, kind: str, fields: Any) -> None:
    journal = await parts.journal(kind)
    with pytest.raises(ValueError, match=r".+"):
        await journal.append(EventKind.DOOR_REFUSED, **fields)
    with pytest.raises(ValueError, match=r".+"):
        journal.spool(EventKind.DOOR_REFUSED, **fields)


def forward(permit: Permit) -> Forward:
    return Forward(
        permit=permit,
        attempt="a" * 32,
        trace=TraceContext("1" * 32, "2" * 16),
        timeout_ms=2_000,
        request=request(REFUND, b"", peer=AGENT),
    )


@pytest.mark.parametrize("kind", [*TOOLS, "fake"])
@pytest.mark.parametrize(
    ("code", "effect"),
    [
        (grpc.StatusCode.OK, "executed"),
        (grpc.StatusCode.NOT_FOUND, "none"),
        (grpc.StatusCode.INTERNAL, "stored"),
    ],
)
async def test_a_tool_answers_and_never_raises(parts: Parts, kind: str, code: Any, effect: str) -> None:
    tool = await parts.tool(kind, code, effect)
    assert await tool.ready()
    answer = await tool.call(forward(parts.permit()))
    assert (answer.code, answer.effect, answer.sent) == (code.value[0], effect, True)
    assert answer.body == (b"done" if code is grpc.StatusCode.OK else b"")


@pytest.mark.parametrize("kind", TOOLS)
async def test_a_tool_that_is_not_there_is_not_ready_and_gets_nothing(
    parts: Parts, tmp_path: Path, kind: str
) -> None:
    tool = TOOLS[kind](tmp_path / "none.sock")
    tool.start()
    assert not await tool.ready()
    answer = await tool.call(forward(parts.permit()))
    assert not answer.sent
    await tool.close()


def echo_server(path: Path) -> aio.Server:
    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> Any:
            return grpc.unary_unary_rpc_method_handler(self.answer)

        async def answer(self, body: bytes, context: Any) -> bytes:
            sent = [(key, value) for key, value in context.invocation_metadata() if key.startswith("licet-")]
            context.set_trailing_metadata((*(("seen-" + key, value) for key, value in sent),))
            return body

    server = aio.server()
    server.add_generic_rpc_handlers((Handler(),))
    server.add_insecure_port(f"unix:{path}")
    return server


@pytest.mark.parametrize("kind", TOOLS)
async def test_a_tool_gets_what_was_verified_and_is_found_again_after_it_was_away(
    parts: Parts, tmp_path: Path, kind: str
) -> None:
    tool = TOOLS[kind](tmp_path / "tool.sock")
    tool.start()
    permit = parts.permit()
    for _ in range(2):
        server = echo_server(tmp_path / "tool.sock")
        await server.start()
        async with asyncio.timeout(60):
            while not await tool.ready():
                pass
        answer = await tool.call(forward(permit))
        assert (answer.code, answer.body) == (0, permit.arguments.canonical)
        assert dict(answer.trailers) == {
            "seen-licet-permit-bin": signed_bytes(permit.signed),
            "seen-licet-attempt": "a" * 32,
        }
        await server.stop(0)
        async with asyncio.timeout(60):
            while tool.reachable:  # noqa: ASYNC110 # what is waited for is the kernel's
                await asyncio.sleep(0.01)
    await tool.close()
