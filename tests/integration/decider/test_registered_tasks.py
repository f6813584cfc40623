"""Tasks registered over the wire: by an application, seen by every decider at once, closed for good."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from typer.testing import CliRunner

from decider.task.cli import tasks_app
from licet.identity import TRUST_DOMAIN_DEV, agent_id
from licet.metadata import DEV_IDENTITY
from licet.streams import Publisher, connect, read_last, stream_config
from licet.streams.api import call
from licet.v1 import task_pb2, task_pb2_grpc
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW
from tests.integration.decider.test_decide import reason_of
from tests.unit.decider.test_registration import APP, MANIFEST, OPS, TEMPLATES, asked
from tests.worlds.decisions import (
    ENV,
    GET_ORDER,
    REFUND_BOT,
    SUPPORT_BOT,
    TYPES,
    Ground,
    House,
    furnish,
    start_house,
)

pytestmark = pytest.mark.asyncio

REGISTRARS = {"app/desk": frozenset({"t1"}), "app/ops": frozenset({"*"})}
UNBOUND = TEMPLATES.replace("      approve: [refund]\n", "")


def tasks_of(house: House) -> Any:
    return task_pb2_grpc.TaskServiceStub(house.channel)


async def register(house: House, peer: str = APP, **changes: Any) -> task_pb2.Task:
    answer = await tasks_of(house).RegisterTask(
        asked(**changes), metadata=((DEV_IDENTITY, peer),), timeout=20
    )
    task: task_pb2.Task = answer.task
    return task


@pytest_asyncio.fixture
async def two(ground: Ground) -> AsyncIterator[tuple[House, House]]:
    manifest = ground.policy / "bundle.yaml"
    manifest.write_text(MANIFEST + UNBOUND)
    first = await furnish(ground, registrars=REGISTRARS)
    spool = {"spool_dir": ground.directory / "spool-1", "instance": "1"}
    second = await start_house(ground, first.finance, registrars=REGISTRARS, **spool)
    yield first, second
    await second.channel.close()
    await second.process.stop()
    await first.close()


async def test_a_registered_task_is_known_to_every_decider_and_over_when_it_is_closed(
    two: tuple[House, House],
) -> None:
    first, second = two
    assert (await second.decide(task_id="task_901")).refusal.reason == "TASK_UNKNOWN"
    task = await register(first)
    assert (await register(second)).registered_at_ms == task.registered_at_ms  # a retry, elsewhere
    permitted = await second.decide(task_id="task_901")
    assert permitted.decision == DECISION_TYPE_ALLOW
    permit = second.permit(permitted)
    assert (permit.tenant, permit.principal, permit.task_id) == ("t1", "ana@t1.example.com", "task_901")
    body = TYPES("GetOrderRequest")(order_id="O1").SerializeToString()
    other = await second.decide(body, method=GET_ORDER, task_id="task_901", peer=SUPPORT_BOT)
    assert other.refusal.reason == "TASK_UNKNOWN"  # not its task
    # outside the contract: the template allows no search
    search = TYPES("SearchPolicyRequest")(query="refunds").SerializeToString()
    outside = await first.decide(
        search, method="/fin.v1.Finance/SearchPolicy", task_id="task_901", call_id="s"
    )
    assert outside.refusal.reason == "CONTRACT_REFUSED"
    assert (
        await first.decide(search, method="/fin.v1.Finance/SearchPolicy", call_id="s2")
    ).decision == DECISION_TYPE_ALLOW  # the lawful twin: a task without a contract
    close = task_pb2.CloseTaskRequest(task_id="task_901")
    for _ in range(2):
        closed = await tasks_of(second).CloseTask(close, metadata=((DEV_IDENTITY, APP),), timeout=20)
        assert closed.task.closed_by == APP
    assert (await first.decide(task_id="task_901", call_id="late")).refusal.reason == "TASK_CLOSED"
    with pytest.raises(grpc.aio.AioRpcError) as error:  # asking again does not open it
        await register(first)
    assert reason_of(error.value) == "TASK_EXISTS"
    kinds = [event.kind for event in await first.events() if event.kind.startswith("task.")]
    assert kinds == ["task.registered", "task.registered", "task.closed", "task.closed"]


async def test_a_task_s_own_budget_holds_over_both_deciders(two: tuple[House, House]) -> None:
    await register(two[0])
    answers = [await two[at % 2].decide(task_id="task_901", call_id=f"call-{at}") for at in range(3)]
    assert [one.decision == DECISION_TYPE_ALLOW for one in answers] == [True, True, False]
    assert answers[2].refusal.reason == "BUDGET_EXHAUSTED"
    await register(two[0], task_id="task_902")
    assert (await two[1].decide(task_id="task_902")).decision == DECISION_TYPE_ALLOW


async def test_an_agent_cannot_register_close_or_look_at_a_task(two: tuple[House, House]) -> None:
    """An agent that could would write its own contract."""
    house = two[0]
    await register(house, OPS)
    stub = tasks_of(house)
    for peer in (REFUND_BOT, SUPPORT_BOT, ""):
        metadata = ((DEV_IDENTITY, peer),) if peer else ()
        for method, request in (
            (stub.RegisterTask, asked(task_id="mine")),
            (stub.CloseTask, task_pb2.CloseTaskRequest(task_id="task_901")),
            (stub.GetTask, task_pb2.GetTaskRequest(task_id="task_901")),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await method(request, metadata=metadata, timeout=20)
            assert reason_of(error.value) == ("REGISTRATION_REFUSED" if peer else "CALLER_UNKNOWN")
    assert (await house.decide(task_id="mine")).refusal.reason == "TASK_UNKNOWN"
    assert (await house.decide(task_id="task_901")).decision == DECISION_TYPE_ALLOW


async def test_an_application_reaches_no_other_tenants_tasks(two: tuple[House, House]) -> None:
    await register(two[0], OPS, tenant="t2", task_id="of-t2")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await tasks_of(two[0]).CloseTask(
            task_pb2.CloseTaskRequest(task_id="of-t2"), metadata=((DEV_IDENTITY, APP),), timeout=20
        )
    assert reason_of(error.value) == "REGISTRATION_REFUSED"
    with pytest.raises(grpc.aio.AioRpcError):
        await register(two[0], OPS, task_id="task_789")  # of the tasks file
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await register(two[0], task_id="of-t2")  # an id that another tenant's task has
    assert reason_of(error.value) == "TASK_EXISTS"


async def test_a_task_that_nats_made_up_is_no_task(two: tuple[House, House], ground: Ground) -> None:
    """Who can write to NATS copies a record to another id, or writes one of its own."""
    await register(two[0])
    nc = await connect(ground.nats.settings("decider"), "attacker")
    publisher = await Publisher.open(nc)
    [subject] = [name for name in await _subjects(nc) if name.startswith(f"licet.config.{ENV}.task.")]
    stored = await read_last(nc, stream_config(ENV), subject)
    assert stored is not None
    elsewhere = f"licet.config.{ENV}.task.{hashlib.sha256(b'task_902').hexdigest()[:32]}"
    await publisher.publish(elsewhere, stored.data)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await two[0].decide(task_id="task_902")
    assert reason_of(error.value) == "STORE_UNAVAILABLE"
    spoilt = bytearray(stored.data)
    spoilt[20] ^= 1
    await publisher.publish(subject, bytes(spoilt))
    with pytest.raises(grpc.aio.AioRpcError):
        await two[1].decide(task_id="task_901")
    await nc.close()


async def test_an_older_record_of_a_closed_task_that_is_put_back_does_not_open_it(
    two: tuple[House, House], ground: Ground
) -> None:
    await register(two[0])
    nc = await connect(ground.nats.settings("decider"), "attacker")
    publisher = await Publisher.open(nc)
    [subject] = [name for name in await _subjects(nc) if name.startswith(f"licet.config.{ENV}.task.")]
    opened = await read_last(nc, stream_config(ENV), subject)
    assert opened is not None
    close = task_pb2.CloseTaskRequest(task_id="task_901")
    told = (await tasks_of(two[0]).CloseTask(close, metadata=((DEV_IDENTITY, APP),), timeout=20)).task
    for again in (False, True):
        await publisher.publish(subject, opened.data)
        for house in two:
            assert (await house.decide(task_id="task_901")).refusal.reason == "TASK_CLOSED"
        if not again:
            closed = await tasks_of(two[1]).CloseTask(close, metadata=((DEV_IDENTITY, OPS),), timeout=20)
            assert (closed.task.closed_at_ms, closed.task.closed_by) == (told.closed_at_ms, APP)
    await publisher.publish(f"{subject}.closed", b"whatever")
    assert (await two[1].decide(task_id="task_901")).refusal.reason == "TASK_CLOSED"
    await nc.close()


async def _subjects(nc: Any) -> list[str]:
    info = await call(nc, f"STREAM.INFO.{stream_config(ENV)}", {"subjects_filter": ">"})
    return sorted(info["state"]["subjects"])


async def test_the_command_line_registers_shows_and_closes(two: tuple[House, House]) -> None:
    def run(*words: str, identity: str = APP) -> Any:
        common = ("--decider", f"127.0.0.1:{two[0].process.port}", "--identity", identity)
        return CliRunner().invoke(tasks_app, [*words, *common])

    named = {"template": "answer-refund-request", "agent": "refund-bot", "tenant": "t1"}
    who = {"caller": agent_id(TRUST_DOMAIN_DEV, ENV, "refund-bot"), "principal": "ana@t1.example.com"}
    words = [word for name, value in (named | who).items() for word in (f"--{name}", value)]
    bound = ("--value", "refund.order_id=O1", "--minutes", "5", "--json")
    made = await asyncio.to_thread(run, "register", "task_903", *words, *bound)
    assert made.exit_code == 0, made.output
    row = json.loads(made.stdout)
    assert (row["state"], row["values"][0]["values"]) == ("open", ["O1"])
    shown = await asyncio.to_thread(run, "show", "task_903")
    assert "answer-refund-request" in shown.stdout
    assert (await two[1].decide(task_id="task_903")).decision == DECISION_TYPE_ALLOW
    closed = await asyncio.to_thread(run, "close", "task_903", "--json")
    assert json.loads(closed.stdout)["state"] == "closed"
    refused = await asyncio.to_thread(run, "close", "task_903", identity=SUPPORT_BOT)
    assert refused.exit_code == 1
    assert "PERMISSION_DENIED" in refused.stderr
