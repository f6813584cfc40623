"""Delegations at running deciders: granted, narrowed and taken back with the command line, in JetStream."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from decider.delegation.delegations import Registry, put_link, put_revoked
from licet.embedded.nats_accounts import SETUP
from licet.refusal import Refusal
from licet.statement import canonical
from licet.streams import Publisher, connect, subject_delegation
from licet.v1 import delegation_pb2
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from licet.v1.statement_pb2 import Signed
from tests.integration.decider.test_two_deciders import second
from tests.worlds.decisions import ENV, Ground, House, furnish, refund
from tests.worlds.delegations import DelegationDesk

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def desk(ground: Ground) -> DelegationDesk:
    return await DelegationDesk.opened(ground, "support-bot", "refund-bot")


@pytest_asyncio.fixture
async def house(ground: Ground, desk: DelegationDesk) -> AsyncIterator[House]:
    first = await desk.grant()
    last = await desk.narrow(first, "--resource", "order:O1", "--max-cost", "USD:6000")
    desk.tasks(task_789=last, task_gone="0" * 32)
    tasks = ground.policy / "tasks.yaml"
    tasks.write_text(
        tasks.read_text()
        + '  task_other: {agent: refund-bot, caller: agent/refund-bot, principal: "ben@t2.example.com",'
        f" tenant: t1, delegation: {last}}}\n"
    )
    made = await furnish(ground)
    try:
        yield made
    finally:
        await made.close()


async def test_call_within_the_chain_gets_a_permit_that_names_every_link(
    house: House, desk: DelegationDesk
) -> None:
    response = await house.decide()
    assert response.decision == DECISION_TYPE_ALLOW
    ids = [row["id"] for row in await desk.rows()]
    assert list(house.permit(response).delegations) == ids
    [event] = await house.decisions()
    assert list(event.delegations) == ids


@pytest.mark.parametrize(
    ("body", "task"),
    [
        (refund("O2"), "task_789"),  # only O1 was handed down
        (refund(minor=6001), "task_789"),  # less than the first link, more than the last
        (refund(), "task_gone"),
        (refund(), "task_other"),  # it is Ana's
    ],
)
async def test_call_outside_the_chain_is_denied(house: House, body: bytes, task: str) -> None:
    response = await house.decide(body, task_id=task)
    assert response.decision == DECISION_TYPE_DENY
    assert response.refusal.reason == "DELEGATION_EXCEEDED"


@pytest.mark.negative(35)
@pytest.mark.parametrize("which", [0, 1])
async def test_revoked_link_stops_the_next_decision_of_every_decider_and_of_the_next_start(
    house: House, desk: DelegationDesk, tmp_path: Path, which: int
) -> None:
    other = await second(house, tmp_path)
    try:
        for number, one in enumerate((house, other)):
            before = await one.decide(refund(minor=1), call_id=f"before-{number}")
            assert before.decision == DECISION_TYPE_ALLOW
        revoked = (await desk.rows())[which]["id"]
        assert await desk.run("revoke", revoked) == revoked
        for number, one in enumerate((house, other)):
            after = await one.decide(refund(minor=1), call_id=f"after-{number}")
            assert (after.decision, after.refusal.reason) == (DECISION_TYPE_DENY, "DELEGATION_REVOKED")
    finally:
        await other.channel.close()
        await other.process.stop()
    again = await second(house, tmp_path)
    try:
        assert (await again.decide(call_id="again")).refusal.reason == "DELEGATION_REVOKED"
    finally:
        await again.channel.close()
        await again.process.stop()
    rows = await desk.rows()
    assert [row["refused"] for row in rows][which] == "revoked"
    assert rows[1]["refused"] in {"revoked", f"`{revoked}` is revoked"}


async def test_restart_loses_no_delegation(house: House, tmp_path: Path) -> None:
    again = await second(house, tmp_path)
    try:
        assert (await again.decide()).decision == DECISION_TYPE_ALLOW
    finally:
        await again.channel.close()
        await again.process.stop()


@pytest.mark.negative(35)
async def test_revoked_link_cannot_be_brought_back(house: House, desk: DelegationDesk) -> None:
    """Whoever may write to the stream writes the old bytes again: what was said of it stays said."""
    first = (await desk.rows())[0]["id"]
    nc = await connect(house.ground.nats.settings(SETUP), "test")
    try:
        publisher = await Publisher.open(nc)
        signed = await Registry(nc, ENV).link(first)
        assert signed is not None
        await desk.run("revoke", first)
        assert not await put_link(publisher, ENV, first, signed)
        await publisher.publish(subject_delegation(ENV, first), canonical(signed))
        assert (await house.decide()).refusal.reason == "DELEGATION_REVOKED"
    finally:
        await nc.close()


@pytest.mark.negative(35)
async def test_permits_that_are_out_are_revoked_with_the_link_where_one_asks_for_it(
    house: House, desk: DelegationDesk
) -> None:
    permit = house.permit(await house.decide())
    first = (await desk.rows())[0]["id"]
    await desk.run("revoke", first, "--permits")
    async with asyncio.timeout(60):
        while True:
            in_force = house.process._configuration.current
            if in_force is not None and in_force.revocations.check(permit, "") is not None:
                break
            await asyncio.sleep(0.05)


@pytest.mark.negative(35)
async def test_without_the_registry_nothing_that_rests_on_it_is_decided(
    house: House, desk: DelegationDesk
) -> None:
    assert (await house.decide(call_id="before")).decision == DECISION_TYPE_ALLOW
    house.ground.nats.stop()
    try:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await house.decide(call_id="after")
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    finally:
        house.ground.nats.start()


@pytest.mark.negative(36)
@pytest.mark.parametrize(
    ("wider", "twin"),
    [
        (("--max-cost", "USD:10001"), ("--max-cost", "USD:10000")),
        (("--resource", "orders"), ("--resource", "order:O1")),
        (("--max-tier", "5"), ("--max-tier", "4")),
        (("--max-calls", "101"), ("--max-calls", "100")),
        (("--operation", "*"), ("--operation", "refund")),
    ],
)
async def test_wider_link_is_not_written_and_its_twin_is(
    desk: DelegationDesk, wider: tuple[str, ...], twin: tuple[str, ...]
) -> None:
    first = await desk.grant()
    assert "not within its parent's" in await desk.narrow(first, *wider, fails=True)
    assert len(await desk.rows()) == 1
    last = await desk.narrow(first, *twin)
    assert [row["id"] for row in await desk.rows()] == [first, last]


@pytest.mark.negative(36)
async def test_link_that_lasts_longer_than_its_parent_is_not_written(desk: DelegationDesk) -> None:
    first = await desk.grant("--hours", "2")
    assert "not_after" in await desk.narrow(first, "--hours", "3", fails=True)
    assert len(await desk.rows()) == 1
    await desk.narrow(first, "--hours", "1")
    assert len(await desk.rows()) == 2


async def test_agents_key_cannot_hand_down_for_a_person(desk: DelegationDesk) -> None:
    words = ["grant", "--tenant", "t1", "--from", "ana@t1.example.com", "--to", "refund-bot"]
    told = await desk.run(*words, "--key", desk.key("delegator-support-bot"), fails=True)
    assert "does not speak for" in told
    first = await desk.grant()
    assert "does not speak for" in await desk.narrow(first, key="delegator-refund-bot", fails=True)


async def test_link_written_past_the_command_line_is_verified_at_the_decision(
    house: House, desk: DelegationDesk
) -> None:
    """NATS is no authority: bytes that no delegator signed are no link."""
    last = (await desk.rows())[1]["id"]
    nc = await connect(house.ground.nats.settings(SETUP), "test")
    try:
        publisher = await Publisher.open(nc)
        signed = await Registry(nc, ENV).link(last)
        assert signed is not None
        message = delegation_pb2.Delegation.FromString(signed.payload)
        message.delegation_id, message.max_tier = "0" * 32, 5
        forged = Signed(payload=canonical(message), key_id=signed.key_id, signature=signed.signature)
        assert await put_link(publisher, ENV, "0" * 32, forged)
    finally:
        await nc.close()
    assert (await house.decide(task_id="task_gone")).decision == DECISION_TYPE_DENY
    assert (await house.decide()).decision == DECISION_TYPE_ALLOW
    assert next(row for row in await desk.rows() if row["id"] == "0" * 32)["refused"]


async def test_tree_shows_who_has_what_from_whom(desk: DelegationDesk) -> None:
    assert (await desk.rows(), await desk.run("show", told=True)) == (
        [],
        f"nobody has handed authority down in `{ENV}`",
    )
    first = await desk.grant()
    last = await desk.narrow(first)
    lines = (await desk.run("show")).splitlines()
    assert lines[0].startswith(f"{first}  ana@t1.example.com → support-bot")
    assert lines[1].startswith(f"  {last}  support-bot → refund-bot")


async def test_wrong_words_are_told(desk: DelegationDesk) -> None:
    assert "CURRENCY:MINOR_UNITS" in await desk.narrow(await desk.grant(), "--max-cost", "USD", fails=True)
    assert "not in the registry" in await desk.run("revoke", "0" * 32, fails=True)
    assert "not in the registry" in await desk.run("revoke", "a.b", fails=True)
    assert "not in the registry" in await desk.narrow("0" * 32, fails=True)


NO_LINK = (
    (("--max-cost", f"USD:{1 << 63}"), "minor units"),
    (("--max-cost", "USD:-1"), "CURRENCY:MINOR_UNITS"),
    (("--max-cost", "USD:nan"), "CURRENCY:MINOR_UNITS"),
    (("--max-cost", "USD:1.5"), "CURRENCY:MINOR_UNITS"),
    (("--to", "refund-b\u043et"), "mixes latin and cyrillic letters"),
    (("--to", "cafe\u0301"), "composed form"),
    (("--to", "refund-bot\n0f3c  ana"), "nobody sees"),
    (("--resource", "order:O1\u200b"), "nobody sees"),
)


async def test_link_with_a_limit_or_a_name_that_is_none_is_not_signed(desk: DelegationDesk) -> None:
    """The tree is read by people: names that look alike, or make lines of their own, would mislead them."""
    first = await desk.grant()
    for words, why in NO_LINK:
        assert why in await desk.narrow(first, *words, fails=True)
    assert [row["id"] for row in await desk.rows()] == [first]
    assert await desk.narrow(first, "--max-cost", "USD:1", "--resource", "order:O1")


async def test_registry_takes_no_bytes_that_are_no_link_and_no_ring(desk: DelegationDesk) -> None:
    first = await desk.grant()
    nc = await connect(desk.ground.nats.settings(SETUP), "test")
    try:
        publisher, registry = await Publisher.open(nc), Registry(nc, ENV)
        signed = await registry.link(first)
        assert signed is not None
        assert await registry.chain(first) == (signed,)
        await publisher.publish(subject_delegation(ENV, "e" * 32), b"no link")
        await put_link(publisher, ENV, "f" * 32, signed)  # a link under another's id
        for name in ("e" * 32, "f" * 32, "no id", ""):
            assert await registry.link(name) is None
        message = delegation_pb2.Delegation.FromString(signed.payload)
        message.delegation_id = message.parent_id = "d" * 32
        await put_link(publisher, ENV, "d" * 32, Signed(payload=message.SerializeToString()))
        ring = await registry.chain("d" * 32)
        assert isinstance(ring, Refusal)
        assert "more than 4 links" in ring.detail
        assert await registry.chain("") == ()
        await put_revoked(publisher, ENV, first, "")
        assert isinstance(await registry.chain(first), Refusal)
    finally:
        await nc.close()
