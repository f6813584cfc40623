"""Health and reflection at a real door, asked with the standard's own clients."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

import sidecar.entrance.probe
from licet.metadata import DEV_IDENTITY, PERMIT
from sidecar.process import Sidecar
from tests.worlds.mint import AGENT, GET_ORDER
from tests.worlds.rig import Rig

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("sidecar_probe")]

SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
SERVICE = "fin.v1.Finance"
REFLECTION = "/grpc.reflection.{}.ServerReflection/ServerReflectionInfo"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    await rig.start(sidecars=1)
    await rig.add_sidecar(reflection=True)
    yield rig
    await rig.stop()


def health(rig: Rig, door: Sidecar | None = None) -> Any:
    return health_pb2_grpc.HealthStub(rig.channel((door or rig.sidecars[0]).port))


async def asked(rig: Rig, service: str = "", door: Sidecar | None = None) -> int | grpc.StatusCode:
    try:
        answer = await health(rig, door).Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
    except aio.AioRpcError as error:
        return error.code()
    return int(answer.status)


async def test_health_is_readiness_for_the_door_and_for_each_service_of_the_catalog(rig: Rig) -> None:
    calls = rig.calls()
    assert [await asked(rig), await asked(rig, SERVICE)] == [SERVING, SERVING]
    assert await asked(rig, "licet.v1.GuardService") is grpc.StatusCode.NOT_FOUND
    assert await asked(rig, "fin.v1.finance") is grpc.StatusCode.NOT_FOUND
    assert rig.calls() == calls


async def test_a_watch_hears_of_a_tool_that_goes_and_comes_back(rig: Rig) -> None:
    watch = health(rig).Watch(health_pb2.HealthCheckRequest(service=SERVICE))
    unknown = health(rig).Watch(health_pb2.HealthCheckRequest(service="no.such.Service"))
    assert (await unknown.read()).status == SERVICE_UNKNOWN
    assert (await watch.read()).status == SERVING
    await asyncio.to_thread(rig.stop_tool)
    assert (await watch.read()).status == NOT_SERVING
    assert await asked(rig) == NOT_SERVING
    await asyncio.to_thread(rig.start_tool)
    assert (await watch.read()).status == SERVING
    watch.cancel()
    unknown.cancel()
    await rig.until(lambda: not rig.sidecars[0]._probe._watches)


async def test_a_drain_does_not_wait_for_a_watch_and_tells_it(rig: Rig) -> None:
    door = Sidecar(rig.settings(drain_ms=600_000))
    await door.start()
    await rig.until(lambda: not any(door.reasons().values()), lambda: str(door.reasons()))
    watch = health(rig, door).Watch(health_pb2.HealthCheckRequest())
    assert (await watch.read()).status == SERVING
    async with asyncio.timeout(60):
        assert await door.stop() == 0
    assert (await watch.read()).status == NOT_SERVING
    assert await watch.code() is grpc.StatusCode.UNAVAILABLE


async def test_questions_are_bounded_by_the_callers_quota_and_watches_by_their_number(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar.entrance.probe, "MAX_WATCHES", 1)
    door = await rig.add_sidecar(quota_per_second=0.001, quota_burst=3)
    first = health(rig, door).Watch(health_pb2.HealthCheckRequest())
    assert (await first.read()).status == SERVING
    second = health(rig, door).Watch(health_pb2.HealthCheckRequest())
    assert await second.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await asked(rig, door=door) == SERVING
    assert await asked(rig, door=door) is grpc.StatusCode.RESOURCE_EXHAUSTED
    first.cancel()


async def test_the_watches_of_one_caller_leave_room_for_those_of_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load balancer that may not watch takes the door for one that is not well."""
    monkeypatch.setattr(sidecar.entrance.probe, "WATCHES_EACH", 1)
    as_agent = ((DEV_IDENTITY, AGENT),)
    first = health(rig).Watch(health_pb2.HealthCheckRequest(), metadata=as_agent)
    assert (await first.read()).status == SERVING
    second = health(rig).Watch(health_pb2.HealthCheckRequest(), metadata=as_agent)
    assert await second.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    balancer = health(rig).Watch(health_pb2.HealthCheckRequest())
    assert (await balancer.read()).status == SERVING
    first.cancel()
    balancer.cancel()
    await rig.until(lambda: not rig.sidecars[0]._probe._watches)


async def test_a_half_sent_question_and_garbage_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar.entrance.probe, "IDLE_S", 0.2)
    channel = rig.channel(rig.sidecars[1].port)

    check, watch = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
    reflect = REFLECTION.format("v1")
    calls = (
        channel.stream_unary(check)(),
        channel.stream_stream(watch)(),
        channel.stream_stream(reflect)(),
        channel.unary_unary(check)(b"\xff\xff\xff"),
        channel.unary_stream(reflect)(b"\xff\xff\xff"),
    )
    async with asyncio.timeout(60):
        codes = [await call.code() for call in calls]
    deadline, invalid = grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INVALID_ARGUMENT
    assert codes == [deadline, deadline, deadline, invalid, invalid]


async def test_reflection_is_off_by_default(rig: Rig) -> None:
    for version in ("v1", "v1alpha"):
        await rig.mark()
        question = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
        call = rig.channel(rig.sidecars[0].port).stream_stream(REFLECTION.format(version))(iter([question]))
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
        events = await rig.door_events()
        assert [(event.kind, event.reason) for event in events] == [("door.refused", "METHOD_UNKNOWN")]


def described(rig: Rig) -> tuple[list[str], Any]:
    """What the standard client reads of the door: services, and a call it builds from what it read."""
    with grpc.insecure_channel(f"127.0.0.1:{rig.sidecars[1].port}") as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = descriptor_pool.DescriptorPool(database)
        services = list(database.get_services())
        method = pool.FindServiceByName(SERVICE).FindMethodByName("GetOrder")
        asks = message_factory.GetMessageClass(method.input_type)
        body = json_format.Parse('{"orderId": "O1"}', asks()).SerializeToString(deterministic=True)
        pairs = ((DEV_IDENTITY, AGENT), (PERMIT, rig.mint.permit(GET_ORDER, body)))
        raw = channel.unary_unary(GET_ORDER)(body, metadata=pairs, timeout=30)
        return services, message_factory.GetMessageClass(method.output_type).FromString(raw)


async def test_a_client_that_knows_nothing_reads_the_catalogs_services_and_makes_a_call(rig: Rig) -> None:
    services, order = await asyncio.to_thread(described, rig)
    assert services == [SERVICE]
    assert (order.order_id, order.tenant) == ("O1", "t1")


async def reflected(rig: Rig, version: str, **question: Any) -> reflection_pb2.ServerReflectionResponse:
    raw = reflection_pb2.ServerReflectionRequest(**question).SerializeToString()
    call = rig.channel(rig.sidecars[1].port).stream_stream(REFLECTION.format(version))(iter([raw]))
    return reflection_pb2.ServerReflectionResponse.FromString(await call.read())


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_nothing_but_the_catalog_is_shown(rig: Rig, version: str) -> None:
    for symbol in (
        "licet.v1.Decision",
        "licet.v1.GuardService",
        "grpc.health.v1.Health",
        "fin.v1.Nothing",
        "",
    ):
        answer = await reflected(rig, version, file_containing_symbol=symbol)
        assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    for file in ("licet/v1/decision.proto", "google/protobuf/descriptor.proto", "/etc/passwd"):
        answer = await reflected(rig, version, file_by_filename=file)
        assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    answer = await reflected(rig, version)
    assert answer.error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    answer = await reflected(rig, version, file_containing_symbol=f"{SERVICE}.IssueRefund")
    assert len(answer.file_descriptor_response.file_descriptor_proto) == 2


async def test_another_spelling_of_a_probes_path_is_the_doors_matter(rig: Rig) -> None:
    for path in ("//grpc.health.v1.Health/Check", "/grpc.health.v1.Health/check", "/grpc.health.v1.Health/"):
        assert await rig.call(body=b"", path=path) == "METHOD_UNKNOWN"
