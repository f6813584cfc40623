"""The spend client on the real server: races, lost acks, restored volumes, kills."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from licet.refusal import Reason, Refusal
from licet.spend import read_spend_record
from licet.statement import parse_signed
from licet.streams import (
    StoredMessage,
    check_streams,
    spend_position,
    stream_spend,
    stream_spend_log,
)
from licet.streams.api import call
from sidecar.outcome import Outcome
from sidecar.parts import Reserved
from sidecar.store.spend import SpendClient
from tests.worlds.mint import ENVIRONMENT, TOOL, now_ms
from tests.worlds.nats import Door, NatsWorld, Proxy

pytestmark = pytest.mark.asyncio

SIDECAR = f"spiffe://licet.local/{ENVIRONMENT}/sidecar/{TOOL}"
SPEND = stream_spend(ENVIRONMENT)
LOG = stream_spend_log(ENVIRONMENT)


class Replicas:
    """Spend clients of one tool, each with a connection and a spool of its own."""

    def __init__(self, nats: NatsWorld, door: Door, directory: Path) -> None:
        self.nats, self.door, self._directory = nats, door, directory
        self._clients: list[SpendClient] = []

    async def start(self, url: str | None = None, name: str | None = None) -> SpendClient:
        client = await SpendClient.open(
            self._directory / (name or f"replica-{len(self._clients)}"),
            environment=ENVIRONMENT,
            tool=TOOL,
            sidecar=SIDECAR,
            publisher=await self.nats.sidecar(TOOL, url),
            spend_key=self.door.mint.key(f"spend-{TOOL}"),
            beacon=lambda: self.door.held,
        )
        self._clients.append(client)
        return client

    async def stop(self) -> None:
        for client in self._clients:
            await client.close(0)


@pytest_asyncio.fixture
async def replicas(nats: NatsWorld, door: Door, tmp_path: Path) -> AsyncIterator[Replicas]:
    made = Replicas(nats, door, tmp_path)
    yield made
    await made.stop()


@pytest_asyncio.fixture
async def proxy(nats: NatsWorld) -> AsyncIterator[Proxy]:
    made = Proxy(nats.server.port)
    await made.start()
    yield made
    await made.stop()


def attempt(number: int) -> str:
    return f"{number:032x}"


def kinds(messages: list[StoredMessage]) -> list[str]:
    return [message.subject.rpartition(".")[2] for message in messages]


@pytest.mark.negative(22)
async def test_one_permit_at_two_replicas_at_once_is_spent_once_over_200_rounds(replicas: Replicas) -> None:
    one, two = await replicas.start(), await replicas.start()
    rounds = 200
    for number in range(rounds):
        permit = replicas.door.permit()
        pair = [one.reserve(permit, attempt=attempt(1)), two.reserve(permit, attempt=attempt(2))]
        answers = await asyncio.gather(*(pair if number % 2 else reversed(pair)))
        assert [type(answer) for answer in answers].count(Reserved) == 1
        assert [answer.reason for answer in answers if isinstance(answer, Refusal)] == [Reason.SPENT]
    spends = await replicas.nats.messages(SPEND)
    assert len({message.subject for message in spends}) == len(spends) == rounds


@pytest.mark.negative(23)
async def test_a_spent_permit_is_refused_after_all_sidecars_restart_with_empty_disks(
    replicas: Replicas,
) -> None:
    permit = replicas.door.permit()
    assert isinstance(await (await replicas.start()).reserve(permit, attempt=attempt(1)), Reserved)
    replicas.nats.server.kill()
    replicas.nats.server.start()
    answer = await (await replicas.start()).reserve(permit, attempt=attempt(2))
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.SPENT


@pytest.mark.negative(26)
async def test_a_reserve_whose_ack_was_lost_is_one_record_and_ones_own(
    replicas: Replicas, proxy: Proxy
) -> None:
    client = await replicas.start(proxy.url)
    proxy.swallow = True
    reserving = asyncio.create_task(client.reserve(replicas.door.permit(), attempt=attempt(1)))
    await replicas.nats.until(SPEND, 1)
    assert not reserving.done()
    proxy.cut()
    proxy.swallow = False
    assert await with_beacons(replicas, reserving) == Reserved(1)
    assert len(await replicas.nats.messages(SPEND)) == 1
    assert client.uncertain == 0


@pytest.mark.negative(26)
async def test_a_reserve_that_went_into_a_black_hole_is_sent_again(replicas: Replicas, proxy: Proxy) -> None:
    client = await replicas.start(proxy.url)
    proxy.black_hole = True
    reserving = asyncio.create_task(client.reserve(replicas.door.permit(), attempt=attempt(1)))
    await asyncio.sleep(0.3)
    proxy.cut()
    proxy.black_hole = False
    assert await with_beacons(replicas, reserving) == Reserved(1)
    assert len(await replicas.nats.messages(SPEND)) == 1


async def with_beacons(replicas: Replicas, reserving: asyncio.Task[Reserved | Refusal]) -> Reserved | Refusal:
    """Wait for a reserve while deciders go on looking at the store: it waits for one of them after a cut."""
    while not reserving.done():
        replicas.door.again()
        await asyncio.wait([reserving], timeout=0.05)
    return await reserving


async def test_no_answer_by_the_permits_end_forwards_nothing(replicas: Replicas, proxy: Proxy) -> None:
    client = await replicas.start(proxy.url)
    permit = replicas.door.permit(not_after_ms=now_ms() + 1_500)
    proxy.swallow = True
    answer = await client.reserve(permit, attempt=attempt(1))
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.STORE_UNAVAILABLE
    assert answer.detail.startswith("uncertain")
    assert len(await replicas.nats.messages(SPEND)) == 1  # the step is used up all the same


@pytest.mark.negative(30)
async def test_with_the_server_gone_writes_are_refused_and_come_back_with_it(replicas: Replicas) -> None:
    client = await replicas.start()
    replicas.nats.server.kill()
    await asyncio.sleep(0.1)
    answer = await client.reserve(replicas.door.permit(), attempt=attempt(1))
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.STORE_UNAVAILABLE
    replicas.nats.server.start()
    answer = await reserve_once_back(replicas, client)
    assert isinstance(answer, Reserved)


async def reserve_once_back(replicas: Replicas, client: SpendClient) -> Reserved | Refusal:
    answer: Reserved | Refusal = Refusal(Reason.STORE_UNAVAILABLE)
    async with asyncio.timeout(60):
        while isinstance(answer, Refusal) and answer.reason is Reason.STORE_UNAVAILABLE:
            replicas.door.again()
            answer = await client.reserve(replicas.door.permit(), attempt=attempt(9))
            await asyncio.sleep(0.05)
    return answer


@pytest.mark.negative(25)
async def test_a_restored_volume_spends_nothing_twice(replicas: Replicas, tmp_path: Path) -> None:
    """The volume has the old creation time and fewer messages; only the sequences tell."""
    server, store = replicas.nats.server, replicas.nats.server.directory / "store"
    client = await replicas.start()
    await client.reserve(replicas.door.permit(), attempt=attempt(1))
    server.stop()
    shutil.copytree(store, tmp_path / "backup")
    server.start()
    spent = replicas.door.permit()
    assert isinstance(await (await replicas.start()).reserve(spent, attempt=attempt(2)), Reserved)
    await reserve_once_back(replicas, client)
    server.stop()
    shutil.rmtree(store)
    shutil.copytree(tmp_path / "backup", store)
    server.start()
    fresh = await replicas.start()
    replicas.door.says(spend_floor=3)
    for each in (client, fresh):
        answer = await each.reserve(spent, attempt=attempt(3))
        assert isinstance(answer, Refusal)
        assert answer.reason in {Reason.STORE_ROLLED_BACK, Reason.SPENT, Reason.STORE_UNAVAILABLE}
    assert await only_rolled_back(replicas, fresh)
    replicas.door.says(generation=2)
    assert isinstance(await reserve_once_back(replicas, fresh), Reserved)


async def only_rolled_back(replicas: Replicas, client: SpendClient) -> bool:
    answer = await reserve_once_back(replicas, client)
    return isinstance(answer, Refusal) and answer.reason is Reason.STORE_ROLLED_BACK


@pytest.mark.negative(29)
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_msgs_per_subject", 2),
        ("discard", "old"),
        ("discard_new_per_subject", False),
        ("max_age", 3_600_000_000_000),
        ("duplicate_window", 1_000_000_000),
        ("allow_direct", True),
        ("max_msgs", 10),
    ],
)
async def test_each_unsafe_setting_of_the_spend_stream_is_named(
    nats: NatsWorld, setting: str, value: Any
) -> None:
    info = await call(nats.setup, f"STREAM.INFO.{SPEND}")
    settings = {**info["config"], setting: value}
    if setting == "discard":
        settings["discard_new_per_subject"] = False
    await call(nats.setup, f"STREAM.UPDATE.{SPEND}", settings)
    found = {(problem.stream, problem.setting) for problem in await check_streams(nats.setup, ENVIRONMENT)}
    assert (SPEND, setting) in found


async def test_outcomes_reach_the_store_after_a_kill_of_the_server(replicas: Replicas) -> None:
    client = await replicas.start()
    permits = [replicas.door.permit() for _ in range(20)]
    for permit in permits:
        assert isinstance(await client.reserve(permit, attempt=attempt(1)), Reserved)
    replicas.nats.server.kill()
    for permit in permits:
        client.outcome(permit, attempt=attempt(1), outcome=Outcome.EXECUTED, status_code=0)
    replicas.nats.server.start()
    stored = await replicas.nats.until(SPEND, 40)
    assert sorted(kinds(stored)) == ["outcome"] * 20 + ["reserve"] * 20
    records = [parse_signed(message.data) for message in stored if message.subject.endswith("outcome")]
    for signed in records:
        assert not isinstance(signed, Refusal)
        record = read_spend_record(
            signed, replicas.door.mint.keyset, environment=ENVIRONMENT, now_ms=now_ms()
        )
        assert not isinstance(record, Refusal)
        assert record.outcome is not None


@pytest.mark.timeout(180)
async def test_kills_of_the_server_under_load_spend_each_step_once_and_lose_no_record(
    replicas: Replicas,
) -> None:
    """Every Reserved is in the store and in the log, once; no step is Reserved twice."""
    one, two = await replicas.start(), await replicas.start()
    reserved: list[tuple[str, int]] = []
    stop = asyncio.Event()

    async def worker(client: SpendClient, number: int) -> None:
        while not stop.is_set():
            permit = replicas.door.permit()
            for each in (client, two if client is one else one):
                answer = await each.reserve(permit, attempt=attempt(number))
                if isinstance(answer, Reserved):
                    reserved.append((permit.spend_id, answer.seq))
            await asyncio.sleep(0.005)

    workers = [asyncio.create_task(worker(one if number % 2 else two, number)) for number in range(8)]
    for tick in range(50):
        await asyncio.sleep(0.1)
        replicas.door.again()
        if tick % 10 == 5:
            replicas.nats.server.kill()
            replicas.nats.server.start()
    stop.set()
    await asyncio.gather(*workers)
    spends = {message.seq: message.subject for message in await replicas.nats.until(SPEND, len(reserved))}
    assert len({spend_id for spend_id, _ in reserved}) == len(reserved) > 50
    assert all(spend_id in spends[seq] for spend_id, seq in reserved)
    copies = await replicas.nats.until(LOG, len(spends))
    assert [copy.subject for copy in copies] == list(spends.values())
    position = await spend_position(replicas.nats.setup, ENVIRONMENT)
    assert position.last_seq == position.log_origin_seq == len(spends)
