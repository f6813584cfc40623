"""A sidecar as it is started: settings, readiness, drain, outbox, fence."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from licet.embedded.nats_accounts import sidecar_user
from licet.identity import reconciler_id
from licet.metadata import DEV_IDENTITY
from licet.spend import reserve_payload
from licet.statement import PayloadType, canonical
from licet.streams import (
    Publisher,
    connect,
    read_last,
    read_seq,
    stream_info,
    stream_ledger,
    stream_spend,
    subject_spend,
)
from licet.v1 import decision_pb2, guard_pb2, spend_pb2
from licet.v1.statement_pb2 import Signed
from sidecar.core import FENCE_PATH
from sidecar.process import Sidecar
from sidecar.settings import SidecarSettings
from tests.integration.sidecar.test_negatives import locked_ledger, passes, refused
from tests.worlds.mint import AGENT, ENVIRONMENT, GET_ORDER, TOOL, now_ms, refund
from tests.worlds.rig import Rig, answer_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("sidecar_process")]

RECONCILER = reconciler_id("licet.local", ENVIRONMENT)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    await rig.start(sidecars=2)
    yield rig
    await rig.stop()


class Served:
    """`licet sidecar serve` in a process of its own."""

    def __init__(
        self, rig: Rig, settings: SidecarSettings, process: Any, log: Path, ports: tuple[int, int]
    ) -> None:
        self.rig, self.settings, self.process, self.log = rig, settings, process, log
        self.port, self.health_port = ports

    @classmethod
    async def start(cls, rig: Rig, **changes: Any) -> "Served":
        *files, log = [rig.directory / f"{name}-{os.urandom(4).hex()}" for name in ("port", "health", "log")]
        settings = rig.settings(port_file=files[0], health_port_file=files[1], **changes)
        command = (sys.executable, "-m", "licet", "sidecar", "serve")
        with log.open("wb") as stderr:  # a pipe that nobody reads would stop a door that says much
            process = await asyncio.create_subprocess_exec(
                *command, env=environment_of(settings), stderr=stderr
            )
        rig.served.append(process)
        deadline = time.monotonic() + 60
        while not all(file.exists() for file in files):
            assert process.returncode is None, log.read_text()
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        port, health_port = (int(file.read_text()) for file in files)
        served = cls(rig, settings, process, log, (port, health_port))
        while not (await served.ready())["ready"]:
            assert time.monotonic() < deadline, await served.ready()
            await asyncio.sleep(0.05)
        return served

    async def ready(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._ready)

    def _ready(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/ready", timeout=30) as answer:
                return dict(json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            return dict(json.loads(error.read()))

    async def ended(self) -> tuple[int, list[dict[str, Any]]]:
        """Wait for its end; return exit status and log lines."""
        await asyncio.wait_for(self.process.wait(), 60)
        lines = self.log.read_text().splitlines()
        return self.process.returncode, [json.loads(line) for line in lines if line.startswith("{")]


def environment_of(settings: SidecarSettings) -> dict[str, str]:
    values = {
        f"LICET_{name.upper()}": str(value)
        for name, value in settings.model_dump().items()
        if value is not None
    }
    return {**{name: value for name, value in os.environ.items() if not name.startswith("LICET_")}, **values}


async def test_every_bad_setting_is_named_at_once() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licet", "sidecar", "serve"),
        env={
            "PATH": os.environ["PATH"],
            "LICET_ENVIRONMENT": "dev.*",
            "LICET_LISTEN": "nowhere",
            "LICET_QUOTA_BURST": "0",
            "LICET_SPEND_KEY_FILE": "/x",
        },
        stderr=asyncio.subprocess.PIPE,
    )
    _, text = await process.communicate()
    lines = text.decode().splitlines()
    assert process.returncode == 2
    for name in ("ENVIRONMENT", "LISTEN", "QUOTA_BURST", "TOOL", "TOOL_SOCKET", "DECIDER", "NATS_URL"):
        assert sum(line.startswith(f"LICET_{name}:") for line in lines) == 1, lines
    assert "/x" not in text.decode()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dev_identity": False}, "callers would have no identity"),
        ({"listen": "0.0.0.0:8443"}, "holds on loopback only"),
        ({"tls_key_file": Path("/k")}, "mTLS needs all of"),
    ],
)
async def test_no_setting_opens_the_door(rig: Rig, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        rig.settings(**changes)
    assert rig.settings().dev_identity


async def test_the_development_setting_is_loud_and_the_log_holds_no_payloads(rig: Rig) -> None:
    served = await Served.start(rig)
    order = rig.order()
    permit = rig.permit(refund(order))
    pairs = ((DEV_IDENTITY, AGENT), ("licet-permit-bin", permit))
    rig.made += 1
    async with aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        await channel.unary_unary("/fin.v1.Finance/IssueRefund")(
            refund(order).SerializeToString(), metadata=pairs
        )
    served.process.send_signal(signal.SIGTERM)
    status, lines = await served.ended()
    assert status == 0
    warnings = [line["event"] for line in lines if line["level"] == "warning"]
    assert "sidecar.development_identities" in warnings
    assert order not in json.dumps(lines)


async def test_a_drain_ends_open_calls_with_their_events_and_refuses_new_ones(rig: Rig) -> None:
    served = await Served.start(rig)
    order = rig.order()
    permit = rig.permit(refund(order))
    calls = rig.calls()
    await rig.mark()
    async with aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        method = channel.unary_unary("/fin.v1.Finance/IssueRefund")
        pairs = ((DEV_IDENTITY, AGENT), ("licet-permit-bin", permit))
        with locked_ledger(rig):
            open_call = asyncio.ensure_future(method(refund(order).SerializeToString(), metadata=pairs))
            await rig.until(lambda: rig.calls() == calls + 1)
            served.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.3)
            with pytest.raises(aio.AioRpcError) as caught:
                async with aio.insecure_channel(f"127.0.0.1:{served.port}") as late:
                    await late.unary_unary("/fin.v1.Finance/IssueRefund")(b"", metadata=pairs, timeout=1)
            assert caught.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
        assert await open_call
    status, _ = await served.ended()
    events = await rig.door_events()
    assert (status, [(event.kind, event.outcome) for event in events]) == (0, [("door.passed", "EXECUTED")])
    assert rig.refunded(order) == 5_000


async def test_a_flood_is_counted_and_told_to_its_last_second_when_the_door_is_stopped(rig: Rig) -> None:
    served = await Served.start(rig, quota_per_second=0.01, quota_burst=2)
    await rig.mark()
    async with aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        method = channel.unary_unary("/fin.v1.Finance/IssueRefund")
        for _ in range(14):
            with pytest.raises(aio.AioRpcError):
                await method(b"", metadata=((DEV_IDENTITY, AGENT),))
    served.process.send_signal(signal.SIGTERM)
    assert (await served.ended())[0] == 0
    events = await rig.door_events(4, within_s=1)
    flood = [event for event in events if event.reason == "QUOTA_EXCEEDED"]
    assert [event.reason for event in events if event not in flood] == ["NO_PERMIT"] * 2
    assert sum(int(event.detail.split()[0]) for event in flood) == 12
    assert len(flood) <= 3
    assert {event.caller for event in flood} == {AGENT}


async def test_readiness_names_what_is_missing(rig: Rig) -> None:
    sidecar = rig.sidecars[0]
    assert set(sidecar.reasons()) == {"keys", "beacon", "store", "tool", "guard", "spool", "door"}
    await asyncio.to_thread(rig.stop_tool)
    await rig.until(lambda: sidecar.reasons()["tool"] != "")
    order = rig.order()
    await rig.mark()
    assert (
        await rig.call(rig.permit(refund(order)), body=refund(order).SerializeToString())
        == "TOOL_UNREACHABLE"
    )
    await asyncio.to_thread(rig.start_tool)
    await rig.until(lambda: not any(sidecar.reasons().values()), lambda: str(sidecar.reasons()))
    await passes(rig, rig.permit(refund(order)), order=order)


async def test_the_guard_of_a_tool_that_restarted_gets_its_keys_again(rig: Rig) -> None:
    await asyncio.to_thread(rig.stop_tool)
    await asyncio.to_thread(rig.start_tool)
    order = rig.order()
    await rig.until(lambda: not any(rig.sidecars[0].reasons().values()))
    await asyncio.sleep(0.7)
    await passes(rig, rig.permit(refund(order)), order=order)


async def test_a_door_that_opens_while_nats_is_away_lets_reads_through_and_finds_it_later(rig: Rig) -> None:
    await asyncio.to_thread(rig.nats.stop)
    sidecar = Sidecar(rig.settings())
    await sidecar.start()
    rig.sidecars.append(sidecar)
    await rig.until(lambda: sidecar.reasons()["beacon"] == "" and sidecar.reasons()["tool"] == "")
    await rig.until(lambda: "no nats server" in sidecar.reasons()["store"])
    order = rig.order()
    body = b"\n" + bytes([len(order)]) + order.encode()
    assert (
        await rig.call(rig.mint.permit(GET_ORDER, body), body=body, path=GET_ORDER, sidecar=sidecar)
        == "passed"
    )
    permit = rig.permit(refund(order))
    assert (
        await rig.call(permit, body=refund(order).SerializeToString(), sidecar=sidecar) == "STORE_UNAVAILABLE"
    )
    await asyncio.to_thread(rig.nats.start)
    await rig.until(lambda: not any(any(one.reasons().values()) for one in rig.sidecars))
    await passes(rig, permit, order=order, sidecar=sidecar)


@pytest.mark.parametrize("name", ["port_file", "health_port_file"])
async def test_port_file_of_the_process_before_is_gone_until_the_door_listens(
    rig: Rig, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    file.write_text("8443\n")
    taken = Sidecar(rig.settings(**{name: file}, metrics_listen="192.0.2.1:1"))  # an address of nobody here
    with pytest.raises(OSError, match=r"192\.0\.2\.1|assign"):
        await taken.start()
    assert not file.exists()
    file.write_text("8443\n")
    sidecar = Sidecar(rig.settings(**{name: file}))
    await sidecar.start()
    try:
        listening = {"port_file": sidecar.port, "health_port_file": sidecar.health_port}
        assert file.read_text() == f"{listening[name]}\n"
    finally:
        assert await sidecar.stop() == 0


async def test_workers_share_one_port_and_one_that_is_killed_comes_back(rig: Rig) -> None:
    served = await Served.start(rig, workers=2)
    workers = await asyncio.to_thread(children, served.process.pid)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while workers[0] in (now := await asyncio.to_thread(children, served.process.pid)) or len(now) < 2:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    order = rig.order()
    pairs = ((DEV_IDENTITY, AGENT), ("licet-permit-bin", rig.permit(refund(order))))
    answer = "BEACON_STALE"
    while answer == "BEACON_STALE":  # the new worker may not have heard a beacon yet
        answer = await call_fresh(served.port, refund(order).SerializeToString(), pairs)
        rig.made += 1
    assert answer == "passed"
    assert rig.refunded(order) == 5_000
    served.process.send_signal(signal.SIGTERM)
    status, _ = await served.ended()
    assert status == 0
    assert await asyncio.to_thread(children, served.process.pid) == []


async def call_fresh(port: int, body: bytes, pairs: tuple[tuple[str, Any], ...]) -> str:
    """Call once on a connection of its own."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        try:
            await channel.unary_unary("/fin.v1.Finance/IssueRefund")(body, metadata=pairs, timeout=30)
        except aio.AioRpcError as error:
            await asyncio.sleep(0.1)
            return answer_of(error)
    return "passed"


def children(pid: int) -> list[int]:
    """Return the live children of a process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.parent.name))
    return sorted(found)


async def ledger_rows(rig: Rig) -> list[guard_pb2.LedgerChange]:
    info = await stream_info(rig.setup, stream_ledger(ENVIRONMENT))
    assert info is not None
    rows = []
    for seq in range(1, int(info["state"]["last_seq"]) + 1):
        message = await read_seq(rig.setup, stream_ledger(ENVIRONMENT), seq)
        assert message is not None
        rows.append(guard_pb2.LedgerChange.FromString(message.data))
        assert message.subject.endswith(f".{rows[-1].outbox_seq}")
    return rows


async def test_each_ledger_row_reaches_the_stream_once_though_two_relays_carry_it(rig: Rig) -> None:
    order = rig.order()
    permit = rig.permit(refund(order))
    await passes(rig, permit, order=order)
    deadline = time.monotonic() + 60
    rows: list[guard_pb2.LedgerChange] = []
    while time.monotonic() < deadline and not rows:
        rows = [row for row in await ledger_rows(rig) if row.resource == f"order:{order}"]
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.6)
    every = await ledger_rows(rig)
    assert len({row.outbox_seq for row in every}) == len(every) == max(row.outbox_seq for row in every)
    mine = [row for row in every if row.spend_id == rows[0].spend_id]
    assert sorted(row.entry for row in mine) == [1, 2]
    assert sum(row.amount_minor for row in mine) == 0


def reserve_of(rig: Rig, permit: bytes, attempt: str) -> Signed:
    """The record of a sidecar that had the permit in hand."""
    payload = reserve_payload(
        environment=ENVIRONMENT,
        permit=Signed.FromString(permit),
        attempt=attempt,
        sidecar="spiffe://licet.local/dev/sidecar/finance",
        reserved_at_ms=now_ms(),
        call_digest=b"d" * 32,
    )
    return rig.mint.key("spend-finance").sign(PayloadType.SPEND, payload)


async def reserve(rig: Rig, permit: bytes, attempt: str) -> Signed:
    """Store a reserve, as a sidecar that died right after it would have."""
    record = reserve_of(rig, permit, attempt)
    decision = decision_pb2.Decision.FromString(Signed.FromString(permit).payload)
    connection = await connect(rig.nats.settings(sidecar_user(TOOL)), "dead-sidecar")
    publisher = await Publisher.open(connection)
    subject = subject_spend(ENVIRONMENT, TOOL, decision.spend_id, decision.round, "reserve")
    await publisher.publish(subject, canonical(record), msg_id=os.urandom(16).hex())
    await publisher.close()
    await connection.close()
    return record


async def fence(rig: Rig, record: Signed, identity: str = RECONCILER) -> guard_pb2.FenceResponse | str:
    request = guard_pb2.FenceRequest(reserve=record)
    channel = rig.channel(rig.sidecars[0].port)
    rig.made += 1
    try:
        raw = await channel.unary_unary(FENCE_PATH)(canonical(request), metadata=((DEV_IDENTITY, identity),))
    except aio.AioRpcError as error:
        return answer_of(error)
    return guard_pb2.FenceResponse.FromString(raw)


@pytest.mark.negative(28)
async def test_a_kill_before_the_forward_is_voided_and_the_delayed_request_has_no_effect(rig: Rig) -> None:
    order = rig.order()
    permit = rig.permit(refund(order), call_id=f"call-{order}", not_after_ms=now_ms() + 1_000)
    record = await reserve(rig, permit, "a" * 32)
    await refused(rig, "SPENT", permit, order=order)
    assert await fence(rig, record, identity=AGENT) == "NO_PERMIT"
    assert isinstance(await fence(rig, record), str), (
        "the guard answers only after the permit's end and its grace"
    )
    await asyncio.sleep(6.2)
    answer = await fence(rig, record)
    assert isinstance(answer, guard_pb2.FenceResponse), answer
    assert answer.state == guard_pb2.FENCE_STATE_VOIDED
    await until_outcome(rig, answer.spend_id, spend_pb2.OUTCOME_VOIDED)
    assert await forward(rig, permit, refund(order).SerializeToString(), "a" * 32) in {
        "SPEND_VOIDED",
        "EXPIRED",
    }
    assert rig.refunded(order) == 0
    await passes(rig, rig.permit(refund(order), call_id=f"call-{order}", round=1), order=order)
    again = await fence(rig, record)
    assert isinstance(again, guard_pb2.FenceResponse)
    assert (again.state, again.round) == (guard_pb2.FENCE_STATE_EXECUTED, 1)


@pytest.mark.negative(27)
async def test_a_kill_after_the_forward_is_executed_once_and_found_so(rig: Rig) -> None:
    served = await Served.start(rig)
    order = rig.order()
    permit = rig.permit(refund(order), not_after_ms=now_ms() + 4_000)
    calls = rig.calls()
    pairs = ((DEV_IDENTITY, AGENT), ("licet-permit-bin", permit))
    with locked_ledger(rig):
        lost = asyncio.create_task(call_fresh(served.port, refund(order).SerializeToString(), pairs))
        await rig.until(lambda: rig.calls() == calls + 1)
        served.process.kill()
        assert await lost == "UNAVAILABLE"
    await rig.until(lambda: rig.refunded(order) == 5_000)
    assert await rig.call(permit, body=refund(order).SerializeToString()) == "SPENT"
    assert rig.calls() == calls + 1
    await served.process.wait()
    decision = decision_pb2.Decision.FromString(Signed.FromString(permit).payload)
    records = await rig.spends(decision.spend_id)
    assert [one.WhichOneof("record") for one in records] == ["reserve"]
    await asyncio.sleep(max(0.0, (decision.not_after_ms + 5_200 - now_ms()) / 1_000))
    answer = await fence(rig, await stored_reserve(rig, decision.spend_id))
    assert isinstance(answer, guard_pb2.FenceResponse), answer
    assert answer.state == guard_pb2.FENCE_STATE_EXECUTED
    await until_outcome(rig, decision.spend_id, spend_pb2.OUTCOME_EXECUTED)
    assert rig.refunded(order) == 5_000


async def stored_reserve(rig: Rig, spend_id: str) -> Signed:
    """The reserve of a step as the stream has it; what the reconciler sends."""
    subject = subject_spend(ENVIRONMENT, TOOL, spend_id, 0, "reserve")
    message = await read_last(rig.setup, stream_spend(ENVIRONMENT), subject)
    assert message is not None
    return Signed.FromString(message.data)


async def forward(rig: Rig, permit: bytes, body: bytes, attempt: str) -> str:
    """Reach the tool's socket as a delayed request of a dead sidecar would."""
    pairs = (("licet-permit-bin", permit), ("licet-attempt", attempt))
    async with aio.insecure_channel(f"unix:{rig.socket}") as channel:
        try:
            await channel.unary_unary("/fin.v1.Finance/IssueRefund")(body, metadata=pairs, timeout=30)
        except aio.AioRpcError as error:
            return answer_of(error)
    return "passed"


async def test_what_is_no_reserve_of_this_tool_is_not_fenced(rig: Rig) -> None:
    permit = rig.permit(refund(rig.order()))
    record = reserve_of(rig, permit, "c" * 32)
    forged = Signed(payload=record.payload, signature=b"s" * 64, key_id=record.key_id)
    assert await fence(rig, forged) == "SIGNATURE_INVALID"
    other = rig.mint.key("spend-other").sign(PayloadType.SPEND, record.payload)
    assert isinstance(await fence(rig, other), str)


async def until_outcome(rig: Rig, spend_id: str, outcome: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [one.outcome.outcome for one in await rig.spends(spend_id) if one.HasField("outcome")]
        if found == [outcome]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no outcome {outcome} of {spend_id}")
