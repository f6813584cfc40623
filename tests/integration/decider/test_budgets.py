"""Budgets through real deciders: booked before a permit leaves, settled by what the door recorded."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from typer.testing import CliRunner

from decider.budgets.book import BudgetBook
from decider.budgets.booking import Book
from decider.budgets.budget import Account, Line
from decider.budgets.records import budget_key
from decider.budgets.settle import GRACE_MS, UNKNOWN_AFTER_MS, Settler
from decider.cli import app as decider_app
from decider.in_force.configuration import Configuration
from decider.own_record import seal
from decider.process import wall_ms
from licet.identity import TRUST_DOMAIN_DEV, audience_of
from licet.keyfile import read_public, read_secret
from licet.streams import (
    EMBEDDED_SIZES,
    ConfigStore,
    Connection,
    Publisher,
    StoreUnavailable,
    apply_streams,
    connect,
    read_last,
    stream_budget,
    subject_balance,
)
from licet.streams.api import call
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY, DECISION_TYPE_HOLD, Decision
from licet.v1.spend_pb2 import Outcome
from tests.worlds.decisions import ENV, GET_ORDER, TYPES, Finance, Ground, House, furnish, order, refund
from tests.worlds.programs import DoorRecords, start_program

pytestmark = pytest.mark.asyncio

FIVE = """
budgets:
  everybody: {period: month, calls: LIMIT}
  by-tenant: {per: [tenant], period: month, calls: LIMIT, operations: [refund]}
  by-principal: {per: [principal], period: month, calls: LIMIT}
  by-agent: {per: [agent, tool], period: month, calls: LIMIT}
  by-task: {per: [task], period: task, money: {USD: MONEY}}
"""


def budgeted(ground: Ground, text: str) -> None:
    manifest = ground.policy / "bundle.yaml"
    manifest.write_text(manifest.read_text() + text)


def five(limit: int) -> str:
    return FIVE.replace("LIMIT", str(limit)).replace("MONEY", str(limit * 5_000))


@dataclass
class Ledger:
    """The book as an auditor reads it, and what the door writes."""

    nc: Connection
    book: BudgetBook
    door: DoorRecords
    configuration: Configuration

    async def settler(self, later_ms: int = 0) -> Settler:
        await self.configuration.refresh(now_ms=wall_ms(), monotonic_ms=1)
        audiences = {"finance": audience_of(TRUST_DOMAIN_DEV, ENV, "finance")}
        return Settler(
            self.book,
            self.nc,
            self.configuration,
            ENV,
            audiences,
            wall_ms=lambda: wall_ms() + later_ms,
        )

    async def settle(self, later_ms: int = 0) -> None:
        """Look at every booking, as a decider that has just started does."""
        settler = await self.settler(later_ms)
        await settler.find_lost()
        while settler.waiting:
            await settler.settle_due()

    async def used(self) -> dict[str, tuple[int, int]]:
        """Return booked and settled by the budget's name."""
        found = await self.book.every_balance()
        return {one.account.text.partition(":")[0]: (one.booked, one.settled) for one in found}

    async def check(self, executed: dict[str, int] | None = None) -> None:
        """Balances are what open bookings hold, and what was executed."""
        held: Counter[str] = Counter()
        for booking in await self.book.every_booking():
            held.update(booking.held)
        for balance in await self.book.every_balance():
            assert balance.booked == held[balance.account.account_id], balance
            if executed is not None:
                assert balance.settled == executed.get(balance.account.text.partition(":")[0], 0), balance


@pytest_asyncio.fixture
async def ledger_of() -> AsyncIterator[Callable[[Ground], Any]]:
    working: list[Any] = []

    async def made(ground: Ground) -> Ledger:
        nc = await connect(ground.nats.settings("decider"), "auditor")
        door_nc = await connect(ground.nats.settings("sidecar-finance"), "door")
        publisher = await Publisher.open(nc)
        key = budget_key(read_secret(ground.keys_dir / "master.key"))
        book = BudgetBook(publisher, ENV, key, decider="auditor", wall_ms=wall_ms)
        working.extend((asyncio.create_task(book.run()), nc, door_nc))
        root = read_public(ground.keys_dir / "root.pub")
        configuration = Configuration(ConfigStore(publisher, ENV), root, ENV)
        return Ledger(nc, book, DoorRecords(ground, await Publisher.open(door_nc)), configuration)

    yield made
    for one in working:
        if isinstance(one, asyncio.Task):
            one.cancel()
        else:
            await one.close()


async def ground_laid(ground: Ground, text: str) -> Finance:
    """Make streams, activate the bundle with `text`, start the tool's read side."""
    nc = await connect(ground.nats.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
    await nc.close()
    budgeted(ground, text)
    await ground.activate()
    finance = Finance(ground.keys, {"O1": order(), "O3": order("O3", refund_allowed=False)}, types=TYPES)
    await finance.start()
    return finance


def report(ground: Ground) -> Any:
    """`licet decider budgets --json`."""
    words = ("budgets", "--environment", ENV, "--nats-url", ground.nats.url, "--json")
    files = ("--master-key-file", ground.keys_dir / "master.key")
    password = ("--nats-password-file", ground.nats.password_file("decider"))
    return CliRunner().invoke(decider_app, [*words, *map(str, (*files, *password))])


async def test_ten_of_two_hundred_at_once_through_two_processes_are_permitted(
    ground: Ground, ledger_of: Any
) -> None:
    """Five budgets a call, limit 10: not 9, not 11, whoever of the two processes is asked."""
    finance = await ground_laid(ground, five(10))
    both = await asyncio.gather(*(start_program(ground, finance.port, name) for name in ("0", "1")))
    ledger = await ledger_of(ground)
    try:
        answers = await asyncio.gather(*(both[at % 2].decide(f"call-{at}") for at in range(200)))
        # both are killed with their permits out: whoever comes next settles and gives back what they booked
        for one in both:
            one.kill()
        assert Counter(one.decision for one in answers) == {
            DECISION_TYPE_ALLOW: 10,
            DECISION_TYPE_DENY: 190,
        }
        denied = [one for one in answers if one.decision == DECISION_TYPE_DENY]
        assert {one.refusal.reason for one in denied} == {"BUDGET_EXHAUSTED"}
        assert {one.refusal.safe_reason for one in denied} == {"a budget is used up"}  # which one: no oracle
        everyone = ("everybody", "by-tenant", "by-principal", "by-agent")
        assert await ledger.used() == dict.fromkeys(everyone, (10, 0)) | {"by-task": (50_000, 0)}
        await ledger.check()

        permitted = [one for one in answers if one.decision == DECISION_TYPE_ALLOW]
        decisions = [Decision.FromString(one.signed.payload) for one in permitted]
        for answer, decision in zip(permitted[:4], decisions[:4], strict=True):
            await ledger.door.reserve(answer.signed, decision)
            await ledger.door.outcome(decision, Outcome.OUTCOME_EXECUTED)
        await ledger.door.reserve(permitted[4].signed, decisions[4])
        await ledger.door.outcome(decisions[4], Outcome.OUTCOME_FAILED_NO_EFFECT)
        await ledger.door.reserve(permitted[5].signed, decisions[5])  # and nobody knows how it ended
        await ledger.settle()
        assert await ledger.used() == dict.fromkeys(everyone, (5, 4)) | {"by-task": (25_000, 20_000)}
        await ledger.settle(later_ms=60_000 + GRACE_MS + 1_000)
        assert await ledger.used() == dict.fromkeys(everyone, (1, 4)) | {"by-task": (5_000, 20_000)}
        await ledger.check()

        rows = await asyncio.to_thread(report, ground)
        assert rows.exit_code == 0, rows.output
        found = {
            row["account"].partition(":")[0]: (row["booked"], row["settled"])
            for row in json.loads(rows.stdout)
        }
        assert found == await ledger.used()
        # what is left is to be had again, and not one more
        await both[1].channel.close()
        both[1] = await start_program(ground, finance.port, "1")
        again = await asyncio.gather(*(both[1].decide(f"again-{at}") for at in range(20)))
        assert Counter(one.decision for one in again)[DECISION_TYPE_ALLOW] == 5
        await ledger.settle(later_ms=60_000 + UNKNOWN_AFTER_MS)
        assert await ledger.used() == dict.fromkeys(everyone, (0, 10)) | {"by-task": (0, 50_000)}
    finally:
        await asyncio.gather(*(one.close() for one in both))
        await finance.server.stop(0)


async def test_a_decider_killed_mid_run_leaves_balances_that_are_the_sum_of_their_bookings(
    ground: Ground, ledger_of: Any
) -> None:
    finance = await ground_laid(ground, five(1_000))
    both = await asyncio.gather(*(start_program(ground, finance.port, name) for name in ("0", "1")))
    ledger = await ledger_of(ground)
    try:
        asked = [asyncio.create_task(both[at % 2].decide(f"call-{at}")) for at in range(120)]
        for done in asyncio.as_completed(asked):
            await done
            if sum(one.done() for one in asked) >= 20:
                break
        both[0].kill()  # with calls in every state: asked, booked, on record, on the way back
        await asyncio.wait(asked)
        both[1].kill()  # nobody books or settles while the books are looked at
        answers = [one.result() for one in asked if one.exception() is None]
        assert len(answers) >= 20
        bookings = await ledger.book.every_booking()
        permits = [Decision.FromString(one.signed.payload) for one in answers]
        alive = {one.decision_id for one in permits if one.not_after_ms + GRACE_MS > wall_ms()}
        assert alive <= {claim.decision_id for booking in bookings for claim in booking.claims}
        await ledger.check({})
        used = await ledger.used()
        assert used["everybody"] == (len(bookings), 0)
        # every one of them ends, also those whose permit never left
        await ledger.settle(later_ms=60_000 + GRACE_MS + 1_000)
        assert set((await ledger.used()).values()) == {(0, 0)}
    finally:
        await asyncio.gather(*(one.close() for one in both))
        await finance.server.stop(0)


@pytest_asyncio.fixture
async def house_of(ground: Ground) -> AsyncIterator[Callable[[str], Any]]:
    made: list[House] = []

    async def furnished(text: str) -> House:
        budgeted(ground, text)
        made.append(await furnish(ground))
        return made[-1]

    yield furnished
    for house in made:
        await house.close()


HOLD = """
@id("odd-amount") @hold("finance-lead:1")
forbid (principal, action == Action::"refund", resource is Order) when { context.amount_minor == 4999 };
"""
ONE = "budgets: {paid: {per: [task], period: task, money: {USD: 12000}, operations: [refund]}}\n"


async def test_denied_held_and_failed_calls_cost_nothing_and_a_used_up_budget_is_named(
    ground: Ground, house_of: Any, ledger_of: Any
) -> None:
    rules = ground.policy / "rules.cedar"
    rules.write_text(rules.read_text() + HOLD)
    house, ledger = await house_of(ONE), await ledger_of(ground)
    assert (await house.decide(refund("O3"), call_id="denied")).refusal.reason == "POLICY_DENIED"
    assert (await house.decide(refund(minor=4_999), call_id="held")).decision == DECISION_TYPE_HOLD
    assert (await house.decide(refund("O9"), call_id="unknown")).refusal.reason == "RESOURCE_UNKNOWN"
    house.finance.answer = b"\xff"
    with pytest.raises(grpc.aio.AioRpcError):
        await house.decide(call_id="no-facts")
    house.finance.answer = None
    assert await ledger.used() == {}
    assert (await house.decide(call_id="a")).decision == DECISION_TYPE_ALLOW
    assert (await house.decide(call_id="b")).decision == DECISION_TYPE_ALLOW
    refused = await house.decide(call_id="c")  # 10000 of 12000 are booked, 5000 more do not fit
    assert refused.refusal.reason == "BUDGET_EXHAUSTED"
    [event] = await house.decisions("c")
    assert (event.kind, event.reason, list(event.rule_ids)) == (
        "decision.denied",
        "BUDGET_EXHAUSTED",
        ["budget-paid"],
    )
    assert event.detail.startswith("paid: USD of task task_789")
    assert "10000 of 12000 are used, 5000 more were asked for" in event.detail
    assert (await house.decide(refund(minor=2_000), call_id="d")).decision == DECISION_TYPE_ALLOW
    assert (await house.decide(refund(minor=1), call_id="e")).decision == DECISION_TYPE_DENY
    assert await ledger.used() == {"paid": (12_000, 0)}


async def test_the_same_step_asked_for_again_books_once(
    ground: Ground, house_of: Any, ledger_of: Any
) -> None:
    house, ledger = await house_of(ONE), await ledger_of(ground)
    first = await house.decide()
    again = await house.decide()
    assert (first.decision, again.decision) == (DECISION_TYPE_ALLOW, DECISION_TYPE_ALLOW)
    assert await ledger.used() == {"paid": (5_000, 0)}
    await house.decide(refund(minor=2_000))  # the same step with a smaller amount: either may be spent
    assert await ledger.used() == {"paid": (5_000, 0)}
    [booking] = await ledger.book.every_booking()
    assert len(booking.claims) == 3


async def test_a_retry_after_a_lost_reply_is_told_that_the_step_is_spent(
    ground: Ground, house_of: Any, ledger_of: Any
) -> None:
    """The budget is used up by this very step: a denial for want of budget would look like a refusal."""
    house, ledger = await house_of(ONE.replace("12000", "5000")), await ledger_of(ground)
    response = await house.decide()
    decision = house.permit(response)
    await ledger.door.reserve(response.signed, decision)
    await ledger.door.outcome(decision, Outcome.OUTCOME_EXECUTED)
    await ledger.settle()
    assert await ledger.used() == {"paid": (0, 5_000)}
    assert (await house.decide()).refusal.reason == "SPENT"
    assert (await house.decide(call_id="another")).refusal.reason == "BUDGET_EXHAUSTED"


async def test_outcomes_of_another_step_or_by_another_key_give_nothing_back(
    ground: Ground, house_of: Any, ledger_of: Any
) -> None:
    house, ledger = await house_of(ONE), await ledger_of(ground)
    one, other = await house.decide(call_id="one"), await house.decide(call_id="other")
    decisions = [house.permit(answer) for answer in (one, other)]
    await ledger.door.reserve(one.signed, decisions[0])
    lying = Decision()
    lying.CopyFrom(decisions[0])
    lying.round = 3  # an outcome of a round that was never reserved
    await ledger.door.outcome(lying, Outcome.OUTCOME_VOIDED)
    await ledger.settle(later_ms=60_000 + GRACE_MS + 1_000)
    assert await ledger.used() == {"paid": (5_000, 0)}  # the other was never spent
    await ledger.check()


async def test_reads_under_a_budget_are_spent_so_that_their_end_is_known(house_of: Any) -> None:
    house = await house_of(
        "budgets: {reads: {per: [agent], period: month, calls: 1, operations: [read_order]}}\n"
    )
    body = TYPES("GetOrderRequest")(order_id="O1").SerializeToString()
    first = await house.decide(body, method=GET_ORDER, call_id="r1")
    assert house.permit(first).spends
    second = await house.decide(body, method=GET_ORDER, call_id="r2")
    assert second.refusal.reason == "BUDGET_EXHAUSTED"
    assert (await house.decide(call_id="refunds-go-on")).decision == DECISION_TYPE_ALLOW


async def test_a_balance_written_by_a_stranger_is_believed_by_nobody(
    ground: Ground, house_of: Any, ledger_of: Any
) -> None:
    """Who can write to NATS could otherwise reset a budget."""
    house, ledger = await house_of(ONE), await ledger_of(ground)
    await house.decide(call_id="a")
    [balance] = await ledger.book.every_balance()
    subject = subject_balance(ENV, balance.account.account_id)
    stored = await read_last(ledger.nc, stream_budget(ENV), subject)
    assert stored is not None
    publisher = await Publisher.open(ledger.nc)
    await publisher.publish(subject, seal(bytes(32), subject, stored.data[32:]))
    for call_id in ("b", "c", "d"):  # b may still be decided on what is known; its batch then is refused
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await house.decide(call_id=call_id)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    await publisher.publish(subject, stored.data)  # the true record of before, put back
    with pytest.raises(grpc.aio.AioRpcError):
        await house.decide(call_id="e")


async def test_without_the_store_there_is_no_permit_and_without_budgets_it_is_not_asked(
    ground: Ground, house_of: Any, ledger_of: Any
) -> None:
    house, ledger = await house_of(ONE), await ledger_of(ground)
    setup = await connect(ground.nats.settings("setup"), "setup")
    info = await call(setup, f"STREAM.INFO.{stream_budget(ENV)}")
    settings = {**info["config"], "max_msgs_per_subject": 5}
    await call(setup, f"STREAM.UPDATE.{stream_budget(ENV)}", settings)
    await setup.close()
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await house.decide()
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    body = TYPES("GetOrderRequest")(order_id="O1").SerializeToString()
    assert (await house.decide(body, method=GET_ORDER)).decision == DECISION_TYPE_ALLOW
    line = Line(Account("a" * 32, "x", 1), "budget-x", 1, 10)
    with pytest.raises(StoreUnavailable, match="licet streams apply"):
        await ledger.book.change(Book("b" * 32, "finance", 0, "d", 1, (line,)))


SESSION = """
@id("session-limit")
forbid (principal, action == Action::"refund", resource is Order)
when { context.session_amount_minor + context.amount_minor > 100000 };
"""


@pytest_asyncio.fixture
async def session(ground: Ground, house_of: Any) -> House:
    rules, schema = ground.policy / "rules.cedar", ground.policy / "schema.cedarschema"
    rules.write_text(rules.read_text() + SESSION)
    declared = "  amount_minor: Long,\n  currency: String,\n  risk_flags"
    assert declared in schema.read_text()
    totals = "  session_calls: Long,\n  session_amount_minor: Long,\n"
    schema.write_text(schema.read_text().replace(declared, totals + declared))
    house: House = await house_of("")
    house.finance.orders["O1"] = order(amount_minor=10_000_000)
    return house


async def test_eleven_refunds_of_900_against_1000_a_session_are_one(session: House) -> None:
    """Each alone is far below the limit; all at once is how an agent would try."""
    answers = await asyncio.gather(
        *(session.decide(refund(minor=90_000), call_id=f"call-{at}") for at in range(11))
    )
    assert Counter(one.decision for one in answers) == {DECISION_TYPE_ALLOW: 1, DECISION_TYPE_DENY: 10}
    denied = [one for one in answers if one.decision == DECISION_TYPE_DENY]
    assert {one.refusal.reason for one in denied} == {"POLICY_DENIED"}
    [event] = await session.decisions("call-3") if answers[3] in denied else await session.decisions("call-4")
    assert list(event.rule_ids) == ["session-limit"]
    # the lawful twin: what is left of the session, and the step that was permitted, asked for again
    assert (await session.decide(refund(minor=10_000), call_id="rest")).decision == DECISION_TYPE_ALLOW
    first = next(at for at, one in enumerate(answers) if one.decision == DECISION_TYPE_ALLOW)
    again = await session.decide(refund(minor=90_000), call_id=f"call-{first}")
    assert again.decision == DECISION_TYPE_ALLOW  # its own 900 do not count against it
    assert (await session.decide(refund(minor=1), call_id="one-more")).decision == DECISION_TYPE_DENY


async def test_small_refunds_at_once_in_one_session_are_all_permitted(session: House, ledger_of: Any) -> None:
    answers = await asyncio.gather(
        *(session.decide(refund(minor=10_000), call_id=f"call-{at}") for at in range(10))
    )
    assert {one.decision for one in answers} == {DECISION_TYPE_ALLOW}
    assert (await session.decide(refund(minor=1), call_id="more")).decision == DECISION_TYPE_DENY
    ledger = await ledger_of(session.ground)
    totals = {one.account.text: one.booked for one in await ledger.book.every_balance()}
    assert sorted(totals.values()) == [10, 100_000]
