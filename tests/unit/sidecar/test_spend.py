"""The spend client against every fault a store can have, on a fake that behaves as the real store does."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from licet.refusal import Reason, Refusal
from licet.spend import read_spend_record
from licet.statement import parse_signed
from licet.streams import PubAck
from sidecar.outcome import Outcome
from sidecar.parts import Reserved
from sidecar.store.floor import Floor
from sidecar.store.spend import SpendClient
from tests.worlds.guarded_tool import QuickMint
from tests.worlds.mint import ENVIRONMENT, TOOL, now_ms
from tests.worlds.nats import Door
from tests.worlds.store import FakeStore, Fault

pytestmark = pytest.mark.asyncio

SIDECAR = f"spiffe://licet.local/{ENVIRONMENT}/sidecar/{TOOL}"
ATTEMPT = "a" * 32


@pytest.fixture(scope="module")
def mint(tmp_path_factory: pytest.TempPathFactory) -> QuickMint:
    return QuickMint(tmp_path_factory.mktemp("mint"))


@dataclass
class Time:
    """Unix ms that run a thousand times too fast while somebody waits for the store."""

    offset: int = 0

    def __call__(self) -> int:
        self.offset += 500
        return now_ms() + self.offset


@dataclass
class Replica:
    client: SpendClient
    store: FakeStore
    door: Door


async def open_client(directory: Path, store: FakeStore, door: Door, **more: Any) -> SpendClient:
    return await SpendClient.open(
        directory,
        environment=ENVIRONMENT,
        tool=TOOL,
        sidecar=SIDECAR,
        publisher=store,
        spend_key=door.mint.key(f"spend-{TOOL}"),
        beacon=lambda: door.held,
        **more,
    )


@pytest_asyncio.fixture
async def replica(tmp_path: Path, mint: QuickMint) -> AsyncIterator[Replica]:
    store, door = FakeStore(), Door(mint)
    client = await open_client(tmp_path / "outcome", store, door)
    yield Replica(client, store, door)
    await client.close(0.1)


def reason(answer: Reserved | Refusal) -> Reason | None:
    return answer.reason if isinstance(answer, Refusal) else None


async def test_a_reserve_is_a_signed_record_with_the_permit_in_it(replica: Replica) -> None:
    permit = replica.door.permit()
    assert await replica.client.reserve(permit, attempt=ATTEMPT) == Reserved(1)
    signed = parse_signed(replica.store.records[0].body)
    assert not isinstance(signed, Refusal)
    record = read_spend_record(signed, replica.door.mint.keyset, environment=ENVIRONMENT, now_ms=now_ms())
    assert not isinstance(record, Refusal)
    assert record.reserve is not None
    assert record.reserve.permit == permit.signed
    assert (record.attempt, record.sidecar, record.reserve.call_digest) == (
        ATTEMPT,
        SIDECAR,
        permit.call_digest,
    )


async def test_the_msg_id_stands_nowhere_in_the_record_and_is_new_each_time(replica: Replica) -> None:
    for _ in range(3):
        await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT)
    ids = [record.msg_id or "" for record in replica.store.records]
    assert len(set(ids)) == 3
    for msg_id, record in product(ids, replica.store.records):
        assert len(msg_id) == 32
        assert msg_id.encode() not in record.body
        assert bytes.fromhex(msg_id) not in record.body


async def test_a_second_replica_gets_spent(replica: Replica, tmp_path: Path) -> None:
    permit = replica.door.permit()
    other = await open_client(tmp_path / "other", replica.store, replica.door)
    assert await replica.client.reserve(permit, attempt=ATTEMPT) == Reserved(1)
    assert reason(await other.reserve(permit, attempt="b" * 32)) is Reason.SPENT
    assert reason(await replica.client.reserve(permit, attempt="c" * 32)) is Reason.SPENT
    await other.close(0)


async def test_a_new_permit_of_the_same_step_gets_spent(replica: Replica) -> None:
    first = replica.door.permit(call_id="step-1")
    await replica.client.reserve(first, attempt=ATTEMPT)
    again = replica.door.permit(call_id="step-1")
    assert again.decision.decision_id != first.decision.decision_id
    assert reason(await replica.client.reserve(again, attempt="b" * 32)) is Reason.SPENT


@pytest.mark.negative(26)
@pytest.mark.parametrize("losses", [1, 2, 3])
async def test_a_lost_ack_ends_in_one_reserve_of_ones_own(replica: Replica, losses: int) -> None:
    replica.store.faults.extend(["lose_ack"] * losses)
    assert await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT) == Reserved(1)
    assert len(replica.store.records) == 1
    assert replica.client.uncertain == 0


async def test_a_lost_message_is_sent_again(replica: Replica) -> None:
    replica.store.faults.extend(["lose_message", "not_sent", "lose_message"])
    assert await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT) == Reserved(1)


async def test_after_a_lost_message_another_replica_may_have_been_first(
    replica: Replica, tmp_path: Path
) -> None:
    permit = replica.door.permit()
    other = await open_client(tmp_path / "other", replica.store, replica.door)
    replica.store.faults.append("lose_message")
    slow = asyncio.create_task(replica.client.reserve(permit, attempt=ATTEMPT))
    await asyncio.sleep(0)
    assert isinstance(await other.reserve(permit, attempt="b" * 32), Reserved)
    assert reason(await slow) is Reason.SPENT
    await other.close(0)


async def test_no_answer_by_the_permits_end_refuses_and_says_uncertain(
    tmp_path: Path, mint: QuickMint
) -> None:
    store, door = FakeStore(), Door(mint)
    store.faults.extend(["lose_ack"] * 1_000)
    client = await open_client(tmp_path / "outcome", store, door, now_ms=Time())
    answer = await client.reserve(door.permit(not_after_ms=now_ms() + 5_000), attempt=ATTEMPT)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.STORE_UNAVAILABLE
    assert answer.detail.startswith("uncertain")
    assert client.uncertain == 1
    assert len(store.records) == 1
    await client.close(0)


@pytest.mark.negative(30)
async def test_a_store_that_is_away_refuses_at_once_and_certainly(replica: Replica) -> None:
    replica.store.connected = False
    answer = await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.STORE_UNAVAILABLE
    assert "uncertain" not in answer.detail
    replica.store.connected = True
    assert isinstance(await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT), Reserved)


@pytest.mark.parametrize(
    ("fault", "expected"), [("full", Reason.STORE_FULL), ("busy", Reason.STORE_UNAVAILABLE)]
)
async def test_a_store_that_says_no_is_not_taken_for_spent(
    replica: Replica, fault: Fault, expected: Reason
) -> None:
    replica.store.faults.append(fault)
    permit = replica.door.permit()
    assert reason(await replica.client.reserve(permit, attempt=ATTEMPT)) is expected
    assert isinstance(await replica.client.reserve(permit, attempt=ATTEMPT), Reserved)


async def test_a_refusal_after_an_open_try_stays_uncertain(replica: Replica) -> None:
    replica.store.faults.extend(["lose_message", "full"])
    answer = await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT)
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.detail[:9]) == (Reason.STORE_UNAVAILABLE, "uncertain")


async def test_a_duplicate_on_a_first_try_is_no_reserve(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who knew the Msg-Id used it up: the ack says success, the record is not there."""
    monkeypatch.setattr("sidecar.store.spend.secrets.token_hex", lambda _: "f" * 32)
    await replica.store.publish("licet.spend.dev.finance.other", b"x", msg_id="f" * 32)
    answer = await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT)
    assert reason(answer) is Reason.STORE_UNAVAILABLE
    assert len(replica.store.records) == 1


async def test_an_ack_of_another_stream_is_no_reserve(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def elsewhere(*_: Any, **__: Any) -> PubAck:
        return PubAck("LICET_AUDIT_dev", 5)

    monkeypatch.setattr(replica.store, "publish", elsewhere)
    answer = await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT)
    assert reason(answer) is Reason.STORE_UNSAFE


@pytest.mark.negative(29)
async def test_unsafe_settings_stop_spending(replica: Replica) -> None:
    replica.door.says(store_safe=False)
    assert reason(await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT)) is Reason.STORE_UNSAFE
    assert replica.store.records == []
    replica.door.says(store_safe=True)
    assert isinstance(await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT), Reserved)


async def test_a_log_too_far_behind_stops_spending(tmp_path: Path, mint: QuickMint) -> None:
    store, door = FakeStore(sequence=100), Door(mint)
    client = await open_client(tmp_path / "outcome", store, door, max_log_lag=10)
    door.says(spend_floor=100, spend_log_origin_seq=90)
    assert isinstance(
        await client.reserve(door.permit(), attempt=ATTEMPT), Reserved
    )  # 10 behind: still lawful
    assert reason(await client.reserve(door.permit(), attempt=ATTEMPT)) is Reason.LOG_BEHIND  # 11 behind
    door.says(spend_floor=101, spend_log_origin_seq=101)
    assert isinstance(await client.reserve(door.permit(), attempt=ATTEMPT), Reserved)
    await client.close(0)


@pytest.mark.negative(25)
async def test_a_rolled_back_store_stops_spending_until_the_generation_grows(replica: Replica) -> None:
    """Wiped or restored, the store would take a spent permit again; its sequences tell on it."""
    spent = replica.door.permit()
    for _ in range(3):
        await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT)
    await replica.client.reserve(spent, attempt=ATTEMPT)
    replica.store.roll_back(1)
    assert reason(await replica.client.reserve(spent, attempt=ATTEMPT)) is Reason.STORE_ROLLED_BACK
    for _ in range(5):  # also when its sequences have risen above the floor again
        fresh = replica.door.permit()
        assert reason(await replica.client.reserve(fresh, attempt=ATTEMPT)) is Reason.STORE_ROLLED_BACK
    replica.door.says(generation=2)
    assert isinstance(await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT), Reserved)


@pytest.mark.negative(25)
async def test_a_new_process_learns_the_floor_from_the_beacon(replica: Replica) -> None:
    replica.door.says(spend_floor=50)
    assert (
        reason(await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT))
        is Reason.STORE_ROLLED_BACK
    )


@pytest.mark.negative(25)
async def test_an_outcome_below_the_floor_shows_it_too(replica: Replica) -> None:
    """Else it would lift the sequence over the floor, and the spent step would be reserved again."""
    spent = replica.door.permit()
    await replica.client.reserve(spent, attempt=ATTEMPT)
    replica.store.roll_back(0)
    replica.client.outcome(spent, attempt=ATTEMPT, outcome=Outcome.EXECUTED, status_code=0)
    async with asyncio.timeout(60):
        while replica.client.waiting_outcomes:  # noqa: ASYNC110 - the queue's doing
            await asyncio.sleep(0.01)
    assert reason(await replica.client.reserve(spent, attempt=ATTEMPT)) is Reason.STORE_ROLLED_BACK


@pytest.mark.negative(25)
async def test_after_a_lost_connection_a_decider_looks_before_anybody_spends(replica: Replica) -> None:
    assert isinstance(await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT), Reserved)
    replica.store.reconnected_at_ms = now_ms() + 1
    held_back = await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT)
    assert reason(held_back) is Reason.STORE_UNAVAILABLE
    await asyncio.sleep(0.005)
    replica.door.says()
    assert isinstance(await replica.client.reserve(replica.door.permit(), attempt=ATTEMPT), Reserved)


@pytest.mark.negative(25)
@pytest.mark.parametrize("looked", [True, False])
async def test_a_try_begun_before_a_lost_connection_waits_for_a_decider_to_look(
    tmp_path: Path, mint: QuickMint, looked: bool
) -> None:
    """The store that came back may be a restored one: the try goes on only once somebody has looked."""
    store, door, time, asked = FakeStore(faults=deque(["lose_message"])), Door(mint), Time(), count(1)

    def now() -> int:
        match next(asked):
            case 3:  # after the first try
                store.reconnected_at_ms = door.held.beacon.issued_at_ms + 1
            case 5 if looked:
                door.says()
        time.offset += 2_000
        return time()

    client = await open_client(tmp_path / "outcome", store, door, now_ms=now)
    answer = await client.reserve(door.permit(), attempt=ATTEMPT)
    assert isinstance(answer, Reserved) if looked else reason(answer) is Reason.STORE_UNAVAILABLE
    assert len(store.records) == looked
    await client.close(0.1)


async def test_a_beacon_that_counted_ones_own_reserve_already_is_no_roll_back(replica: Replica) -> None:
    """The decider may read the store between our publish and our ack."""
    replica.store.faults.append("lose_ack")
    task = asyncio.create_task(replica.client.reserve(replica.door.permit(), attempt=ATTEMPT))
    await asyncio.sleep(0)
    replica.door.says(spend_floor=1)
    assert await task == Reserved(1)


async def test_without_a_beacon_nothing_is_spent(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    permit = replica.door.permit()
    monkeypatch.setattr(replica.door, "held", None)
    assert reason(await replica.client.reserve(permit, attempt=ATTEMPT)) is Reason.BEACON_STALE
    assert replica.store.records == []


async def test_a_permit_that_has_ended_spends_nothing(tmp_path: Path, mint: QuickMint) -> None:
    store, door = FakeStore(), Door(mint)
    client = await open_client(tmp_path / "outcome", store, door, now_ms=lambda: now_ms() + 120_000)
    assert reason(await client.reserve(door.permit(), attempt=ATTEMPT)) is Reason.EXPIRED
    assert store.records == []
    await client.close(0)


async def test_an_outcome_is_recorded_once_and_a_second_one_is_let_go(replica: Replica) -> None:
    permit = replica.door.permit()
    await replica.client.reserve(permit, attempt=ATTEMPT)
    replica.client.outcome(permit, attempt=ATTEMPT, outcome=Outcome.EXECUTED, status_code=0)
    replica.client.outcome(permit, attempt=ATTEMPT, outcome=Outcome.FAILED_NO_EFFECT, status_code=9)
    async with asyncio.timeout(60):
        while replica.client.waiting_outcomes:  # noqa: ASYNC110 - the queue's doing
            await asyncio.sleep(0.01)
    assert [record.subject.rpartition(".")[2] for record in replica.store.records] == ["reserve", "outcome"]


async def test_not_knowing_is_no_outcome(replica: Replica) -> None:
    with pytest.raises(ValueError, match="absence"):
        replica.client.outcome(replica.door.permit(), attempt=ATTEMPT, outcome=Outcome.UNKNOWN, status_code=2)


async def test_outcomes_wait_for_the_store_and_for_the_next_process(tmp_path: Path, mint: QuickMint) -> None:
    store, door = FakeStore(), Door(mint)
    client = await open_client(tmp_path / "outcome", store, door)
    permit = door.permit()
    await client.reserve(permit, attempt=ATTEMPT)
    store.connected = False
    client.outcome(permit, attempt=ATTEMPT, outcome=Outcome.EXECUTED, status_code=0)
    assert not await client.close(0.05)
    store.connected = True
    again = await open_client(tmp_path / "outcome", store, door)
    assert await again.close(5)
    assert len(store.records) == 2


async def test_an_outcome_no_spool_takes_is_counted_and_harms_no_call(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica.client._queue._durable, "_cap_bytes", 10)
    replica.store.connected = False
    replica.client.outcome(replica.door.permit(), attempt=ATTEMPT, outcome=Outcome.EXECUTED, status_code=0)
    async with asyncio.timeout(60):
        while not replica.client.lost_outcomes:  # noqa: ASYNC110 - the queue's doing
            await asyncio.sleep(0.001)
    assert replica.client.lost_outcomes == 1


async def test_acks_that_overtake_each_other_are_no_roll_back(mint: QuickMint) -> None:
    floor, beacon = Floor(), Door(mint).held.beacon
    first, second = floor.begin(beacon), floor.begin(beacon)
    assert first is not None
    assert second is not None
    assert floor.rises(2, second, 1)
    assert floor.rises(1, first, 1)
    assert floor.seen == 2
