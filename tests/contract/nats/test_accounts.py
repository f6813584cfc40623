"""Row 24: what a compromised sidecar can do on NATS with its own credentials. Nothing outside its own
subjects.
"""

import asyncio
import json
import random
from functools import partial
from typing import Any

import pytest
from nats.aio.client import Client

from licet.embedded.nats_accounts import service_subjects, sidecar_user
from licet.refusal import Refusal
from licet.streams import (
    CredentialsRefused,
    NatsSettings,
    Publisher,
    StoreRefused,
    StoreUnavailable,
    connect,
    stream_audit,
    stream_budget,
    stream_config,
    stream_ledger,
    stream_payload,
    stream_spend,
    stream_spend_log,
    subject_audit,
    subject_beacon,
    subject_ledger,
    subject_spend,
)
from licet.streams.api import call, read_last
from licet.strict import strict_parse
from licet.v1.beacon_pb2 import ActiveConfig
from tests.worlds.mint import ENVIRONMENT
from tests.worlds.nats import NatsWorld, hears

pytestmark = [pytest.mark.asyncio, pytest.mark.negative(24)]

SPEND = stream_spend(ENVIRONMENT)
STREAMS = (
    SPEND,
    stream_spend_log(ENVIRONMENT),
    stream_audit(ENVIRONMENT),
    stream_ledger(ENVIRONMENT),
    stream_payload(ENVIRONMENT),
    stream_config(ENVIRONMENT),
    stream_budget(ENVIRONMENT),
)
OWN = tuple(subject.rstrip(">") for subject in service_subjects(ENVIRONMENT, "finance"))
EVENT = subject_audit(ENVIRONMENT, "sidecar", "finance")


def reserve(number: int, tool: str = "finance") -> str:
    return subject_spend(ENVIRONMENT, tool, f"{number:032x}", 0, "reserve")


async def assert_only_own(nats: NatsWorld, extra: frozenset[str] = frozenset()) -> None:
    """Every message in every stream has a subject of the attacker's own, or one the test itself put there."""
    stored = {subject for subjects in (await nats.subjects()).values() for subject in subjects}
    assert {one for one in stored - extra if not one.startswith(OWN)} == set()


async def test_its_lawful_messages_are_stored(nats: NatsWorld) -> None:
    store = await nats.sidecar()
    await store.publish(reserve(1), b"reserve", msg_id="a")
    await store.publish(
        subject_spend(ENVIRONMENT, "finance", f"{1:032x}", 0, "outcome"), b"outcome", msg_id="b"
    )
    await store.publish(EVENT, b"event", msg_id="c")
    await store.publish(subject_ledger(ENVIRONMENT, "finance", 1), b"row")
    stored = await nats.subjects()
    assert [len(stored[stream]) for stream in (SPEND, STREAMS[2], STREAMS[3])] == [2, 1, 1]


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("STREAM.MSG.DELETE", {"seq": 1}),
        ("STREAM.PURGE", {}),
        ("STREAM.DELETE", {}),
        ("STREAM.UPDATE", {"max_msgs_per_subject": 2}),
        ("STREAM.CREATE", {"subjects": ["mine.>"]}),
        ("STREAM.INFO", {}),
        ("STREAM.MSG.GET", {"seq": 1}),
        ("DIRECT.GET", {"seq": 1}),
        ("CONSUMER.CREATE", {"stream_name": "x", "config": {"deliver_subject": "_INBOX_sidecar-finance.x"}}),
        ("CONSUMER.LIST", {}),
    ],
)
async def test_jetstreams_api_is_closed_to_it(nats: NatsWorld, verb: str, body: dict[str, Any]) -> None:
    store = await nats.sidecar()
    await store.publish(reserve(1), b"mine", msg_id="a")
    answers = await asyncio.gather(
        *(call(store.nc, f"{verb}.{name}", {"name": name, **body}, timeout_s=0.2) for name in STREAMS),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [StoreUnavailable] * len(STREAMS)
    assert [message.data for message in await nats.messages(SPEND)] == [b"mine"]


@pytest.mark.parametrize(
    "subject",
    [
        reserve(1, "crm"),
        "licet.spend.dev.finance.>",
        f"licet.spend.dev.finance.{1:032x}.0.reserve.more",
        f"licet.spend.dev.finance.{1:032x}.0.other",
        "licet.spend.prod.finance.x.0.reserve",
        subject_audit(ENVIRONMENT, "sidecar", "crm"),
        subject_audit(ENVIRONMENT, "decider", "main"),
        subject_audit(ENVIRONMENT, "audit", "writer"),
        subject_ledger(ENVIRONMENT, "crm", 1),
        subject_beacon(ENVIRONMENT),
        "licet.config.dev.active",
        f"licet.config.dev.artifact.{'0' * 64}",
        "$SYS.REQ.SERVER.PING",
        "$JS.ACK.LICET_SPEND_dev.x.1.1.1.1.1",
        "_INBOX_decider.x",
        "_INBOX_sidecar-crm.x",
        "_R_.x",
    ],
)
async def test_it_publishes_to_no_other_subject(nats: NatsWorld, subject: str) -> None:
    store = await nats.sidecar()
    with pytest.raises(StoreUnavailable, match="may not publish"):
        await store.publish(subject, b"forged", timeout=1)
    await assert_only_own(nats)


@pytest.mark.parametrize(
    "reply",
    [
        reserve(2, "crm"),
        reserve(2),
        subject_audit(ENVIRONMENT, "decider", "main"),
        subject_audit(ENVIRONMENT, "sidecar", "crm"),
        subject_ledger(ENVIRONMENT, "crm", 1),
        subject_beacon(ENVIRONMENT),
        "licet.config.dev.active",
        f"$JS.API.STREAM.PURGE.{SPEND}",
        f"$JS.API.STREAM.DELETE.{SPEND}",
        "_INBOX_decider.x",
        "_INBOX_sidecar-crm.x",
        EVENT,
    ],
)
async def test_a_reply_subject_makes_the_server_store_or_send_nothing_elsewhere(
    nats: NatsWorld, reply: str
) -> None:
    """Within one account the server would store its ack under any subject that the reply names."""
    decider = await nats.connect("decider")
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.subject)

    await decider.subscribe("_INBOX_decider.>", cb=hear)
    await decider.subscribe(subject_beacon(ENVIRONMENT), cb=hear)
    await decider.flush()
    attacker = (await nats.sidecar()).nc
    before = await nats.subjects()
    for subject in (EVENT, subject_ledger(ENVIRONMENT, "finance", 1), reserve(1)):
        await attacker.publish(subject, b"bait", reply=reply)
    await attacker.flush()
    await asyncio.sleep(0.1)
    assert heard == []
    await assert_only_own(nats)
    after = await nats.subjects()
    assert after[stream_config(ENVIRONMENT)] == before[stream_config(ENVIRONMENT)] == set()
    assert all("stream" not in _json(message.data) for message in await nats.messages(SPEND))


TOKENS = (
    *(
        "licet",
        "spend",
        "audit",
        "ledger",
        "config",
        "beacon",
        "payload",
        "budget",
        ENVIRONMENT,
        "finance",
        "crm",
    ),
    *(
        "decider",
        "main",
        "sidecar",
        "reserve",
        "outcome",
        "active",
        "0",
        f"{7:032x}",
        "$JS",
        "API",
        "ACK",
        "FC",
    ),
    *(
        "STREAM",
        "MSG",
        "DELETE",
        "PURGE",
        "CREATE",
        "UPDATE",
        "GET",
        "DIRECT",
        "$SYS",
        "REQ",
        "SERVER",
        "$KV",
    ),
    *(
        "_INBOX",
        "_INBOX_decider",
        "_INBOX_sidecar-crm",
        "_INBOX_setup",
        "_R_",
        "_GR_",
        "$SRV",
        "$MQTT",
        *STREAMS,
    ),
)


async def test_any_reply_subject_at_all_makes_the_server_store_nothing_elsewhere(nats: NatsWorld) -> None:
    """Replies made of the tokens that mean something here, under every lawful subject."""
    chosen = random.Random(24)
    replies = [".".join(chosen.choices(TOKENS, k=chosen.randint(1, 7))) for _ in range(150)]
    replies += [reserve(number, "crm") for number in range(20)]
    before = await nats.subjects()
    store = await nats.sidecar()
    for number, reply in enumerate(replies):
        lawful = (EVENT, subject_ledger(ENVIRONMENT, "finance", number), reserve(number))
        await store.nc.publish(lawful[number % 3], b"bait", reply=reply)
    last = reserve(len(replies))
    await store.publish(last, b"last", msg_id="last")
    await assert_only_own(nats)
    after = await nats.subjects()
    assert after[stream_config(ENVIRONMENT)] == before[stream_config(ENVIRONMENT)] == set()
    assert last in after[SPEND]


HEADERS: list[dict[str, str]] = [
    {"Nats-Rollup": "all"},
    {"Nats-Rollup": "sub"},
    {"Nats-TTL": "1s"},
    {"Nats-Incr": "1"},
    {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
    {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": reserve(9, "crm")},
    {"Nats-Expected-Stream": "OTHER"},
    {"Nats-Expected-Last-Sequence": "0"},
    {"Nats-Expected-Last-Msg-Id": "x"},
    {"Nats-Expected-Last-Subject-Sequence": "1"},
    {"Nats-Expected-Last-Subject-Sequence-Subject": reserve(1), "Nats-Expected-Last-Subject-Sequence": "0"},
    {"Nats-Marker-Reason": "MaxAge"},
    {"Nats-Stream-Source": f"{SPEND} 999 > > x y"},
    {"Nats-Required-Api-Level": "0"},
    {"Nats-Response-Type": "none"},
    {"Nats-Msg-Size": "0"},
]


@pytest.mark.parametrize("headers", HEADERS, ids=lambda one: next(iter(one)))
async def test_no_server_header_frees_a_spent_subject_or_removes_a_record(
    nats: NatsWorld, headers: dict[str, str]
) -> None:
    victim = await nats.sidecar("crm")
    await victim.publish(reserve(1, "crm"), b"crm", msg_id="v")
    store = await nats.sidecar()
    await store.publish(reserve(1), b"mine", msg_id="a")
    for subject in (reserve(1), reserve(2)):
        try:
            await store.publish(subject, b"again", headers=headers, timeout=0.3)
        except (StoreRefused, StoreUnavailable):
            continue
    await asyncio.sleep(0.05)
    spends = await nats.messages(SPEND)
    assert [message.data for message in spends if message.subject == reserve(1)] == [b"mine"]
    assert [message.data for message in spends if message.subject == reserve(1, "crm")] == [b"crm"]
    copies = await nats.until(stream_spend_log(ENVIRONMENT), len(spends))
    assert [copy.data for copy in copies] == [message.data for message in spends]
    await assert_only_own(nats, frozenset({reserve(1, "crm")}))


@pytest.mark.parametrize(
    "subject",
    [">", "licet.>", "licet.spend.dev.crm.>", "_INBOX_sidecar-crm.>", "_INBOX.>", "$SYS.>", "_R_.>"],
)
async def test_it_hears_nothing_of_others(nats: NatsWorld, subject: str) -> None:
    attacker = (await nats.sidecar()).nc
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.subject)

    await attacker.subscribe(subject, cb=hear)
    crm = await nats.sidecar("crm")
    await crm.publish(reserve(1, "crm"), b"crm", msg_id="v")
    await asyncio.sleep(0.05)
    assert heard == []


async def test_it_hears_the_beacon(nats: NatsWorld) -> None:
    sidecar = (await nats.sidecar()).nc
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def hear(message: Any) -> None:
        heard.put_nowait(message.data)

    await sidecar.subscribe(subject_beacon(ENVIRONMENT), cb=hear)
    await sidecar.flush()
    decider = await nats.connect("decider")
    say = partial(decider.publish, subject_beacon(ENVIRONMENT), b"fresh")
    assert await hears(say, heard, lambda _: True) == b"fresh"


async def test_guessing_msg_ids_of_others_hides_nothing(nats: NatsWorld) -> None:
    """It can use up Msg-Ids it invents; others publish with 128 random bits of their own."""
    store, crm = await nats.sidecar(), await nats.sidecar("crm")
    for number in range(50):
        await store.publish(subject_ledger(ENVIRONMENT, "finance", number), b"x", msg_id=f"{number:032x}")
        await store.publish(EVENT, b"x", msg_id=f"{number:032x}")
    ack = await crm.publish(reserve(1, "crm"), b"crm", msg_id="f" * 32)
    assert not ack.duplicate
    assert (await nats.subjects())[SPEND] == {reserve(1, "crm")}


@pytest.mark.parametrize(
    ("user", "password"),
    [(sidecar_user("finance"), "wrong"), ("nobody", "x"), ("", None), (sidecar_user("crm"), None)],
)
async def test_nobody_comes_in_without_the_right_password(
    nats: NatsWorld, tmp_path: Any, user: str, password: str | None
) -> None:
    file = tmp_path / "password"
    if password is not None:
        file.write_text(password)
    settings = NatsSettings(nats.server.url, user, file if password is not None else None)
    with pytest.raises(CredentialsRefused):
        await connect(settings, "intruder", within_s=3)


async def test_a_tools_connection_has_no_jetstream_of_its_own(nats: NatsWorld) -> None:
    client: Client = (await nats.sidecar()).nc
    publisher = Publisher(client, client.new_inbox())
    with pytest.raises(StoreUnavailable):
        await call(publisher.nc, "INFO", timeout_s=0.2)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return {}


IN_FORCE = (
    "licet.config.dev.active",
    f"licet.config.dev.artifact.{'0' * 64}",
    f"licet.config.dev.delegation.{'0' * 32}.link",
    f"licet.config.dev.delegation.{'0' * 32}.revoked",
)
RECORDS = (
    f"licet.config.dev.task.{'0' * 32}",
    f"licet.config.dev.task.{'0' * 32}.closed",
    f"licet.config.dev.started.{'0' * 32}",
    f"licet.config.dev.hold.{'0' * 32}.{'1' * 32}.record",
)


async def test_a_deciders_credential_writes_nothing_that_is_in_force_and_setups_does(nats: NatsWorld) -> None:
    decider = await Publisher.open(await nats.connect("decider"))
    for subject in IN_FORCE:
        with pytest.raises(StoreUnavailable, match="may not publish"):
            await decider.publish(subject, b"x", timeout=60)
    for subject in RECORDS:
        await decider.publish(subject, b"x", timeout=60)
    assert (await nats.subjects())[stream_config(ENVIRONMENT)] == set(RECORDS)
    setup = await Publisher.open(await nats.connect("setup"))
    for subject in IN_FORCE:
        await setup.publish(subject, b"x", timeout=60)


async def test_a_reply_subject_puts_no_older_record_in_force(nats: NatsWorld) -> None:
    """Within the hub an ack goes wherever it is asked to; the server's own words are no record."""
    setup = await Publisher.open(await nats.connect("setup"))
    await setup.publish(IN_FORCE[0], b"older", timeout=60)
    await setup.publish(IN_FORCE[0], b"newer", timeout=60)
    decider = await nats.connect("decider")
    get = json.dumps({"seq": 1}).encode()
    await decider.publish(f"$JS.API.STREAM.MSG.GET.{stream_config(ENVIRONMENT)}", get, reply=IN_FORCE[0])
    await decider.flush()
    async with asyncio.timeout(60):
        while len(await nats.messages(stream_config(ENVIRONMENT))) < 3:  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.05)
    last = await read_last(setup.nc, stream_config(ENVIRONMENT), IN_FORCE[0])
    assert last is not None
    assert last.data.startswith(b"{")  # which no decider takes for a record: it keeps what it has
    parsed = strict_parse(ActiveConfig, last.data)
    assert isinstance(parsed, Refusal)
