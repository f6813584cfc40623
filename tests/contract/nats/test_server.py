"""What licet relies on in nats-server, asked of the real one. A new server version must pass these first."""

import asyncio

import pytest

from licet.embedded.nats_accounts import AUDIT_WRITER, DECIDER
from licet.streams import (
    PubAck,
    Publisher,
    StoreRefused,
    StoreUnavailable,
    read_last,
    spend_position,
    stream_ledger,
    stream_spend,
    stream_spend_log,
    subject_ledger,
    subject_spend,
)
from licet.streams.api import call, origin_seq
from sidecar.store.spend import LIMIT_REACHED, USED_UP, is_used_up
from tests.worlds.mint import ENVIRONMENT
from tests.worlds.nats import NatsWorld

pytestmark = pytest.mark.asyncio

SPEND = stream_spend(ENVIRONMENT)
LOG = stream_spend_log(ENVIRONMENT)


def reserve(number: int, tool: str = "finance") -> str:
    return subject_spend(ENVIRONMENT, tool, f"{number:032x}", 0, "reserve")


async def test_a_used_up_subject_is_told_by_code_and_exact_text(nats: NatsWorld) -> None:
    store = await nats.sidecar()
    await store.publish(reserve(1), b"mine", msg_id="a")
    with pytest.raises(StoreRefused) as refused:
        await store.publish(reserve(1), b"other", msg_id="b")
    assert (refused.value.err_code, refused.value.description) == (LIMIT_REACHED, USED_UP)
    assert [message.data for message in await nats.messages(SPEND)] == [b"mine"]


async def test_a_full_stream_gives_the_same_code_with_another_text(nats: NatsWorld) -> None:
    settings = {"name": SPEND, **spend_settings(max_bytes=4_096)}
    await call(nats.setup, f"STREAM.UPDATE.{SPEND}", settings)
    store = await nats.sidecar()
    for number in range(3):
        await store.publish(reserve(number), b"x" * 1_200, msg_id=str(number))
    with pytest.raises(StoreRefused) as refused:
        await store.publish(reserve(99), b"x" * 1_200, msg_id="99")
    assert refused.value.err_code == LIMIT_REACHED
    assert refused.value.description == "maximum bytes exceeded"
    assert not is_used_up(refused.value)


async def test_an_own_retry_is_acked_as_duplicate_with_the_first_sequence(nats: NatsWorld) -> None:
    store = await nats.sidecar()
    first = await store.publish(reserve(1), b"mine", msg_id="a")
    assert first == PubAck(SPEND, 1)
    assert await store.publish(reserve(1), b"mine", msg_id="a") == PubAck(SPEND, 1, duplicate=True)


async def test_a_known_msg_id_gets_a_success_ack_on_another_subject_and_stores_nothing(
    nats: NatsWorld,
) -> None:
    """Why a Msg-Id is random, secret and never reused: it is unique over all accounts and subjects."""
    finance, crm = await nats.sidecar("finance"), await nats.sidecar("crm")
    await finance.publish(reserve(1), b"mine", msg_id="known")
    assert (await finance.publish(reserve(2), b"hidden", msg_id="known")).duplicate
    assert (await crm.publish(reserve(3, "crm"), b"hidden", msg_id="known")).duplicate
    assert [message.data for message in await nats.messages(SPEND)] == [b"mine"]


async def test_an_expected_subject_sequence_refuses_ones_own_retry(nats: NatsWorld) -> None:
    """Why reserves do not use it."""
    store = await nats.sidecar()
    expected = {"Nats-Expected-Last-Subject-Sequence": "0"}
    await store.publish(reserve(1), b"mine", headers=expected)
    with pytest.raises(StoreRefused) as refused:
        await store.publish(reserve(1), b"mine", headers=expected)
    assert refused.value.err_code == 10071


async def test_the_log_has_every_spend_with_the_sequence_of_its_origin(nats: NatsWorld) -> None:
    store = await nats.sidecar()
    for number in range(20):
        await store.publish(reserve(number), f"{number}".encode(), msg_id=str(number))
    copies = await nats.until(LOG, 20)
    assert [origin_seq(copy.headers) for copy in copies] == list(range(1, 21))
    assert [copy.data for copy in copies] == [f"{number}".encode() for number in range(20)]
    assert [copy.subject for copy in copies] == [reserve(number) for number in range(20)]
    position = await spend_position(nats.setup, ENVIRONMENT)
    assert (position.last_seq, position.log_origin_seq) == (20, 20)


async def test_a_msg_id_used_again_after_the_window_is_not_skipped_by_the_log(nats: NatsWorld) -> None:
    """A log that deduplicated while catching up would hide the second spend; it has no window at all."""
    settings = {"name": SPEND, **spend_settings(duplicate_window=100_000_000)}
    await call(nats.setup, f"STREAM.UPDATE.{SPEND}", settings)
    store = await nats.sidecar()
    await store.publish(reserve(1), b"first", msg_id="again")
    await asyncio.sleep(0.3)
    again = await store.publish(reserve(2), b"second", msg_id="again")
    assert not again.duplicate
    assert [copy.data for copy in await nats.until(LOG, 2)] == [b"first", b"second"]


@pytest.mark.parametrize("stream", [SPEND, LOG, stream_ledger(ENVIRONMENT)])
async def test_nobody_deletes_or_purges_not_even_the_streams_owner(nats: NatsWorld, stream: str) -> None:
    store = await nats.sidecar()
    await store.publish(reserve(1), b"mine", msg_id="a")
    await store.publish(subject_ledger(ENVIRONMENT, "finance", 1), b"row")
    await nats.until(LOG, 1)
    for verb, body in (("MSG.DELETE", {"seq": 1}), ("PURGE", {})):
        with pytest.raises((StoreRefused, StoreUnavailable)):
            await call(nats.setup, f"STREAM.{verb}.{stream}", body, timeout_s=0.3)
    assert len(await nats.messages(stream)) == 1


@pytest.mark.parametrize("setting", ["deny_delete", "deny_purge"])
async def test_what_forbids_deletion_cannot_be_taken_back(nats: NatsWorld, setting: str) -> None:
    with pytest.raises(StoreRefused):
        await call(
            nats.setup, f"STREAM.UPDATE.{SPEND}", {"name": SPEND, **spend_settings(**{setting: False})}
        )


async def test_a_ledger_row_relayed_twice_is_stored_once_without_any_msg_id(nats: NatsWorld) -> None:
    one, two = await nats.sidecar(), await nats.sidecar()
    await one.publish(subject_ledger(ENVIRONMENT, "finance", 7), b"row")
    with pytest.raises(StoreRefused) as refused:
        await two.publish(subject_ledger(ENVIRONMENT, "finance", 7), b"row")
    assert is_used_up(refused.value)
    assert len(await nats.messages(stream_ledger(ENVIRONMENT))) == 1


async def test_the_spend_log_takes_nothing_from_a_publisher(nats: NatsWorld) -> None:
    hub = await Publisher.open(nats.setup)
    with pytest.raises(StoreUnavailable):
        await hub.publish(LOG, b"forged", timeout=0.3)
    assert await nats.messages(LOG) == []


@pytest.mark.parametrize("user", [DECIDER, AUDIT_WRITER])
async def test_a_service_of_the_hub_reads_what_it_needs_and_changes_no_stream(
    nats: NatsWorld, user: str
) -> None:
    store = await nats.sidecar()
    await store.publish(reserve(1), b"mine", msg_id="a")
    service = await nats.connect(user)
    found = await read_last(service, SPEND, reserve(1))
    assert found is not None
    assert found.data == b"mine"
    for verb in ("CREATE", "UPDATE", "DELETE", "PURGE", "MSG.DELETE"):
        with pytest.raises(StoreUnavailable):
            await call(service, f"STREAM.{verb}.{SPEND}", {"name": SPEND}, timeout_s=0.2)
    with pytest.raises(StoreUnavailable):
        await (await Publisher.open(service)).publish(reserve(2), b"forged", timeout=0.3)
    assert len(await nats.messages(SPEND)) == 1


def spend_settings(**changes: object) -> dict[str, object]:
    from licet.streams import stream_configs
    from licet.streams.settings import EMBEDDED_SIZES

    wanted = next(one for one in stream_configs(ENVIRONMENT, sizes=EMBEDDED_SIZES) if one.name == SPEND)
    return {**wanted.settings, **changes}
