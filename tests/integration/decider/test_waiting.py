"""A decider that cannot decide yet stays, permits nothing, says whom to ask, and goes on by itself."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2, status_pb2

import decider.process
from decider.in_force.first import connected
from decider.process import DeciderProcess, StartError
from licet.embedded.nats_server import NatsServer
from licet.metadata import DEV_IDENTITY
from licet.streams import EMBEDDED_SIZES, CredentialsRefused, NatsSettings, apply_streams, connect
from licet.v1 import decider_pb2, decider_pb2_grpc
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW
from tests.integration.decider.test_decide import reason_of
from tests.worlds.decisions import ENV, REFUND_BOT, TYPES, Finance, Ground, House, order

pytestmark = pytest.mark.asyncio

ASK = "on-call@example.com"
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a start return at once, whatever it still waits for."""
    monkeypatch.setattr(decider.process, "READY_WITHIN_S", 0.0)


async def prepare(ground: Ground) -> None:
    nc = await connect(ground.nats.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
    await nc.close()


async def begin(ground: Ground, **more: Any) -> House:
    """Start a decider that has nothing to decide by yet."""
    finance = Finance(ground.keys, {"O1": order()}, types=TYPES)
    await finance.start()
    process = DeciderProcess(ground.settings(f"finance=127.0.0.1:{finance.port}", **more))
    await process.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{process.port}")
    return House(ground, process, finance, channel, decider_pb2_grpc.DeciderServiceStub(channel))


async def health(house: House) -> bytes:
    check: Any = house.channel.unary_unary("/grpc.health.v1.Health/Check")
    answer: bytes = await check(b"", timeout=60)
    return answer


async def refusal(house: House, **fields: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await house.decide(**fields)
    return error.value


def told(error: grpc.aio.AioRpcError) -> dict[str, str]:
    status = status_pb2.Status.FromString(dict(error.trailing_metadata() or ())["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return dict(info.metadata)


async def decided(house: House, **fields: Any) -> Any:
    """Ask until there is a decision, as a client does."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await house.decide(**fields)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
            await asyncio.sleep(0.05)


async def test_decider_started_while_nats_is_away_permits_nothing_and_goes_on_when_it_comes(
    ground: Ground,
) -> None:
    await prepare(ground)
    await ground.activate()
    ground.nats.stop()
    house = await begin(ground, escalate_to=ASK)
    try:
        error = await refusal(house)
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAVAILABLE, "BEACON_STALE")
        assert told(error) == {"escalateTo": ASK}
        assert await health(house) == NOT_SERVING
        ground.nats.start()
        response = await decided(house)
        assert response.decision == DECISION_TYPE_ALLOW
        assert await health(house) == SERVING
        await house.process.opened()
        kinds = [event.kind for event in await house.decisions()]
        assert kinds[0] == "decision.failed", "what was asked while it waited is on record"
        assert kinds[-1] == "decision.allowed"
    finally:
        await house.close()


async def test_port_file_of_the_process_before_does_not_call_a_waiting_decider_ready(
    ground: Ground, tmp_path: Path
) -> None:
    """The chart's readiness is this file, and /tmp outlives a container that restarts in its pod."""
    port_file = tmp_path / "decides"
    port_file.write_text("8443\n")
    await prepare(ground)
    await ground.activate()
    ground.nats.stop()
    house = await begin(ground, port_file=port_file)
    try:
        assert await health(house) == NOT_SERVING
        assert not port_file.exists()
        ground.nats.start()
        assert (await decided(house)).decision == DECISION_TYPE_ALLOW
        await house.process.opened()
        assert port_file.read_text() == f"{house.process.port}\n"
    finally:
        await house.close()


async def test_decider_without_a_configuration_waits_for_one_and_every_method_says_so(ground: Ground) -> None:
    house = await begin(ground)  # no streams yet, either
    try:
        me = ((DEV_IDENTITY, REFUND_BOT),)
        for call in (
            house.stub.Decide(decider_pb2.DecideRequest(), metadata=me, timeout=60),
            house.stub.GetBeacon(decider_pb2.GetBeaconRequest(), timeout=60),
            house.stub.ListVisibleMethods(decider_pb2.ListVisibleMethodsRequest(), metadata=me, timeout=60),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call
            assert (error.value.code(), reason_of(error.value)) == (
                grpc.StatusCode.UNAVAILABLE,
                "BEACON_STALE",
            )
        assert reason_of(await refusal(house, peer="")) == "CALLER_UNKNOWN"
        await prepare(ground)
        await ground.activate()
        assert (await decided(house)).decision == DECISION_TYPE_ALLOW
    finally:
        await house.close()


async def test_quota_holds_while_a_decider_waits(ground: Ground) -> None:
    ground.nats.stop()
    house = await begin(ground, quota_per_second=0.01, quota_burst=2)
    try:
        reasons = [reason_of(await refusal(house, call_id=f"c{number}")) for number in range(4)]
        assert reasons == ["BEACON_STALE", "BEACON_STALE", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"]
    finally:
        await house.close()


async def test_decider_that_loses_nats_names_a_person_and_goes_on_when_it_is_back(ground: Ground) -> None:
    await prepare(ground)
    await ground.activate()
    house = await begin(ground, escalate_to="nobody asks them")
    try:
        assert (await decided(house)).decision == DECISION_TYPE_ALLOW
        ground.nats.stop()
        error = await refusal(house, call_id="away")
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert told(error) == {"escalateTo": "finance-desk@example.com"}, (
            "as the bundle said that was in force"
        )
        ground.nats.start()
        assert (await decided(house, call_id="away")).decision == DECISION_TYPE_ALLOW
        assert await health(house) == SERVING
        assert {event.kind for event in await house.decisions("away")} == {
            "decision.failed",
            "decision.allowed",
        }
    finally:
        await house.close()


async def test_what_waiting_does_not_mend_ends_the_start(ground: Ground) -> None:
    await prepare(ground)
    ground.nats.password_file("decider").write_text("another")
    process = DeciderProcess(ground.settings(""))
    await process.start()
    try:
        with pytest.raises(StartError, match="does not accept user `decider`"):
            await process.opened()
    finally:
        await process.stop()


async def test_connecting_tells_why_it_waits_and_does_not_wait_with_a_wrong_password(
    nats_away: NatsServer,
) -> None:
    heard = asyncio.Event()
    why: list[str] = []

    def hear(text: str) -> None:
        why.append(text)
        heard.set()

    settings = nats_away.settings("decider")
    waiting = asyncio.ensure_future(connected(settings, "test", hear, within_s=0.5))
    async with asyncio.timeout(60):
        await heard.wait()
    assert "no nats server" in why[0]
    nats_away.start()
    async with asyncio.timeout(60):
        await (await waiting).close()
    wrong = NatsSettings(nats_away.url, "decider", nats_away.password_file("setup"))
    with pytest.raises(CredentialsRefused):
        await connected(wrong, "test", hear)


@pytest.fixture
def nats_away(ground: Ground) -> NatsServer:
    ground.nats.stop()
    return ground.nats
