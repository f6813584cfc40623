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

from licet.identity import reconciler_id
from licet.metadata import DEV_IDENTITY
from licet.spend import reserve_payload
from licet.statement import PayloadType, canonical
from licet.streams import read_seq, stream_info, stream_ledger, stream_spend
from licet.v1 import guard_pb2, spend_pb2
from licet.v1.statement_pb2 import Signed
from sidecar.core import FENCE_PATH
from sidecar.settings import SidecarSettings
from tests.integration.sidecar.test_negatives import locked_ledger, passes, refused
from tests.worlds.mint import AGENT, ENVIRONMENT, now_ms, refund
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
        self, rig: Rig, settings: SidecarSettings, process: Any, port: int, health_port: int
    ) -> None:
        self.rig, self.settings, self.process = rig, settings, process
        self.port, self.health_port = port, health_port

    @classmethod
    async def start(cls, rig: Rig, **changes: Any) -> "Served":
        files = [rig.directory / f"{name}-{os.urandom(4).hex()}" for name in ("port", "health")]
        settings = rig.settings(port_file=files[0], health_port_file=files[1], **changes)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "licet",
            "sidecar",
            "serve",
            env=environment_of(settings),
            stderr=asyncio.subprocess.PIPE,
        )
        deadline = time.monotonic() + 20
        while not all(file.exists() for file in files):
            assert process.returncode is None, (await process.stderr.read()).decode()
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        served = cls(rig, settings, process, *(int(file.read_text()) for file in files))
        while not (await served.ready())["ready"]:
            assert time.monotonic() < deadline, await served.ready()
            await asyncio.sleep(0.05)
        return served

    async def ready(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._ready)

    def _ready(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/ready", timeout=2) as answer:
                return dict(json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            return dict(json.loads(error.read()))

    async def ended(self) -> tuple[int, list[dict[str, Any]]]:
        """Wait for its end; return exit status and log lines."""
        _, log = await asyncio.wait_for(self.process.communicate(), 30)
        return self.process.returncode, [
            json.loads(line) for line in log.decode().splitlines() if line.startswith("{")
        ]


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
    spend = rig.mint.keyset  # the key set is what the relay does not need: rows carry no signature
    assert spend
    await passes(rig, permit, order=order)
    deadline = time.monotonic() + 5
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


async def reserve(rig: Rig, permit: bytes, attempt: str) -> Signed:
    """Write a reserve as a sidecar that died right after it would have."""
    signed = Signed.FromString(permit)
    payload = reserve_payload(
        environment=ENVIRONMENT,
        permit=signed,
        attempt=attempt,
        sidecar="spiffe://licet.local/dev/sidecar/finance",
        reserved_at_ms=now_ms(),
        call_digest=b"d" * 32,
    )
    return rig.mint.key("spend-finance").sign(PayloadType.SPEND, payload)


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
async def test_a_round_that_was_never_forwarded_is_voided_and_a_delayed_request_has_no_effect(
    rig: Rig,
) -> None:
    order = rig.order()
    permit = rig.permit(refund(order), not_after_ms=now_ms() + 1_000)
    record = await reserve(rig, permit, "a" * 32)
    assert await fence(rig, record, identity=AGENT) == "NO_PERMIT"
    early = await fence(rig, record)
    assert isinstance(early, str)
    await asyncio.sleep(6.2)
    answer = await fence(rig, record)
    assert isinstance(answer, guard_pb2.FenceResponse), answer
    assert answer.state == guard_pb2.FENCE_STATE_VOIDED
    assert rig.refunded(order) == 0
    await until_outcome(rig, answer.spend_id, spend_pb2.OUTCOME_VOIDED)
    again = await fence(rig, record)
    assert isinstance(again, guard_pb2.FenceResponse)
    assert again.state == guard_pb2.FENCE_STATE_VOIDED


async def test_a_step_that_was_executed_is_found_so_by_the_fence(rig: Rig) -> None:
    order = rig.order()
    permit = rig.permit(refund(order), not_after_ms=now_ms() + 1_000)
    await passes(rig, permit, order=order)
    record = await reserve(rig, permit, "b" * 32)
    await asyncio.sleep(6.2)
    answer = await fence(rig, record)
    assert isinstance(answer, guard_pb2.FenceResponse), answer
    assert answer.state == guard_pb2.FENCE_STATE_EXECUTED
    assert rig.refunded(order) == 5_000


async def test_what_is_no_reserve_of_this_tool_is_not_fenced(rig: Rig) -> None:
    permit = rig.permit(refund(rig.order()))
    record = await reserve(rig, permit, "c" * 32)
    forged = Signed(payload=record.payload, signature=b"s" * 64, key_id=record.key_id)
    assert await fence(rig, forged) == "SIGNATURE_INVALID"
    other = rig.mint.key("spend-other").sign(PayloadType.SPEND, record.payload)
    assert isinstance(await fence(rig, other), str)


async def until_outcome(rig: Rig, spend_id: str, outcome: int) -> None:
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        found = [one.outcome.outcome for one in await rig.spends(spend_id) if one.HasField("outcome")]
        if found == [outcome]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no outcome {outcome} of {spend_id}")


async def test_the_stream_of_spends_has_no_record_that_nobody_wrote(rig: Rig) -> None:
    info = await stream_info(rig.setup, stream_spend(ENVIRONMENT))
    assert info is not None
    with contextlib.suppress(KeyError):
        assert info["state"]["num_deleted"] == 0


async def test_every_call_left_exactly_one_door_event(rig: Rig) -> None:
    await refused(rig, "NO_PERMIT", order=rig.order())
    rig._audit_from = 0
    assert len(await rig.door_events(rig.made)) >= rig.made
