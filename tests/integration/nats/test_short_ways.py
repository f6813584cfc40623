"""The short ways through nats-py: what goes out by them, what comes in, and what must not end either."""

import asyncio
from functools import partial

import pytest
from nats.errors import BadSubjectError, MaxPayloadError

from licet.embedded.nats_accounts import DECIDER
from licet.streams import Connection, StoreRefused, subject_audit, subject_beacon, subject_spend
from licet.streams.subjects import RESERVE
from tests.worlds.mint import ENVIRONMENT
from tests.worlds.nats import NatsWorld, hears

pytestmark = pytest.mark.asyncio

INBOX = "_INBOX_sidecar-finance.forged"


async def connection_of(nats: NatsWorld) -> Connection:
    found = (await nats.sidecar()).nc
    assert isinstance(found, Connection)
    return found


def reserve(number: int) -> str:
    return subject_spend(ENVIRONMENT, "finance", f"{number:032x}", 0, RESERVE)


async def test_a_message_posted_is_the_message_published(nats: NatsWorld) -> None:
    sidecar = await nats.sidecar()
    subject = subject_audit(ENVIRONMENT, "sidecar", "finance")
    short = await sidecar.publish(subject, b"one\r\n", msg_id="a" * 32)
    known = await sidecar.publish(subject, b"one\r\n", msg_id="a" * 32, headers={"Other": "yes"})
    assert (known.seq, known.duplicate) == (short.seq, True)


@pytest.mark.parametrize(
    ("subject", "msg_id"),
    [("licet.a b", "m"), ("licet.a\r\nPUB", "m"), ("", "m"), ("licet.a", ""), ("licet.a", "m\r\nOther: x")],
)
async def test_words_that_the_protocol_would_read_as_more_are_refused(
    nats: NatsWorld, subject: str, msg_id: str
) -> None:
    connection = await connection_of(nats)
    sent = connection.stats["out_msgs"]
    with pytest.raises(BadSubjectError):
        await connection.post(subject, INBOX, b"body", msg_id)
    assert connection.stats["out_msgs"] == sent


async def test_a_body_larger_than_the_server_takes_is_refused(nats: NatsWorld) -> None:
    connection = await connection_of(nats)
    with pytest.raises(MaxPayloadError):
        await connection.post(reserve(1), INBOX, bytes(connection.max_payload + 1), "m")


async def test_a_taker_that_raises_is_reported_and_the_reading_goes_on(nats: NatsWorld) -> None:
    connection, decider = await connection_of(nats), await nats.connect(DECIDER)
    heard: list[Exception] = []
    taken: asyncio.Queue[bytes] = asyncio.Queue()

    def take(_subject: bytes, data: bytes) -> None:
        if data == b"bad":
            raise ValueError("bad")
        taken.put_nowait(data)

    async def slow(_message: object) -> None:
        raise AssertionError("what has no headers takes the short way")

    connection.listeners.append(heard.append)
    beacons = subject_beacon(ENVIRONMENT)
    connection.take(await connection.subscribe(beacons, cb=slow), take)
    await connection.flush()

    async def say() -> None:
        for body in (b"bad", b"good"):
            await decider.publish(beacons, body)

    await hears(say, taken, lambda data: data == b"good")
    assert {str(error) for error in heard} == {"bad"}


async def test_an_ack_takes_the_short_way_and_so_does_a_refusal(nats: NatsWorld) -> None:
    sidecar = await nats.sidecar()
    ack = await sidecar.publish(reserve(2), b"mine", msg_id="b" * 32)
    assert ack.seq > 0
    with pytest.raises(StoreRefused):
        await sidecar.publish(reserve(2), b"again", msg_id="c" * 32)
    assert sidecar.in_flight == 0


async def test_what_has_headers_goes_to_the_subscription_itself(nats: NatsWorld) -> None:
    connection, decider = await connection_of(nats), await nats.connect(DECIDER)
    came: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()

    async def slow(message: object) -> None:
        came.put_nowait(getattr(message, "headers", None))

    beacons = subject_beacon(ENVIRONMENT)
    connection.take(await connection.subscribe(beacons, cb=slow), lambda *_: came.put_nowait(None))
    await connection.flush()
    say = partial(decider.publish, beacons, b"", headers={"Status": "x"})
    assert await hears(say, came, lambda _: True) == {"Status": "x"}


async def test_a_whole_message_is_taken_with_its_headers_until_the_taker_leaves(nats: NatsWorld) -> None:
    connection, decider = await connection_of(nats), await nats.connect(DECIDER)
    came: asyncio.Queue[tuple[bytes, ...]] = asyncio.Queue()
    after: asyncio.Queue[bytes] = asyncio.Queue()

    async def slow(message: object) -> None:
        after.put_nowait(getattr(message, "data", b""))

    beacons = subject_beacon(ENVIRONMENT)
    subscription = await connection.subscribe(beacons, cb=slow)
    connection.take_whole(subscription, lambda *message: came.put_nowait(message))
    await connection.flush()
    one = partial(decider.publish, beacons, b"one", headers={"Status": "x"})
    first = await hears(one, came, lambda _: True)
    assert first == (beacons.encode(), b"", b"one", b"NATS/1.0\r\nStatus: x\r\n\r\n")
    second = await hears(
        partial(decider.publish, beacons, b"two"), came, lambda message: message[2] != b"one"
    )
    assert second == (beacons.encode(), b"", b"two", b"")
    connection.leave(subscription)
    await hears(partial(decider.publish, beacons, b"three"), after, lambda data: data == b"three")
    assert b"three" not in {came.get_nowait()[2] for _ in range(came.qsize())}
