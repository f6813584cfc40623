"""Every finding reached by a running house: decider, doors, tool, ledger, NATS, ClickHouse, reconciler.

What goes wrong is done as it would be: a permit never presented, a tool killed in mid-call, a superuser of
the database who writes the ledger past everything. No event is inserted. NOT_JUDGED takes ten thousand rows
of one step and is left to tests/integration/audit/test_reconcile.py.
"""

import licet.embedded  # noqa: F401, I001 - before grpc

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import grpc
import pytest

from audit.judging.findings import PAGES, FindingClass
from examples.refund.demo.house import TASK, TENANT, TOOL, House
from examples.refund.demo.wire import OK, REFUND, Asked, Reply, Step
from examples.refund.fin.v1.finance_pb2 import Amount, IssueRefundRequest
from licet.v1.decision_pb2 import Decision, DecisionType
from tests.worlds.panels import panel_of

pytestmark = [pytest.mark.soak, pytest.mark.e2e, pytest.mark.timeout(900)]

HELD_MINOR = 4_999
HOLD = f"""
@id("refund-of-this-amount") @hold("finance-lead:1")
forbid (principal, action == Action::"refund", resource is Order)
when {{ context.amount_minor == {HELD_MINOR} }};
"""
LABELLED = "call_labelled"
WITHIN_S = 240
"""A permit's end, the fence's grace and its five tries lie within."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("f")
    labels = directory / "labels.toml"
    labels.write_text(f'[[label]]\ntask_id = "{TASK}"\ncall_id = "{LABELLED}"\nrule_ids = ["another-rule"]\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LICET_LABELS_FILE", str(labels))
        made = House(directory / "house")
        rules = made.policy / "rules.cedar"
        rules.write_text(rules.read_text() + HOLD)
        with made as running:
            yield running


def body_of(order: str, minor: int = 5_000) -> bytes:
    return IssueRefundRequest(order_id=order, amount=Amount(minor=minor, currency="USD")).SerializeToString()


def ask(house: House, order: str, minor: int = 5_000, call_id: str = "") -> tuple[Step, Asked]:
    step = house.wire.step(call_id or house.call_id(), TASK)
    return step, house.wire.decide(step, REFUND, body_of(order, minor))


def present(house: House, step: Step, asked: Asked, order: str) -> Reply:
    return house.wire.present(step, REFUND, body_of(order), (asked.sent,), 0)


def superuser(house: House, order: str, decision: Decision | None = None, *, minor: int = 5_000) -> None:
    """Move money as whoever owns the database: in the name of a decision, or by force and in nobody's."""
    spend_id = decision.spend_id if decision else ""
    with closing(sqlite3.connect(house.ledger, isolation_level=None, timeout=30)) as db:
        db.execute("BEGIN IMMEDIATE")
        rows = [(1, f"merchant:{TENANT}", -minor), (2, f"customer:{order}", minor)]
        (triggers,) = db.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'licet_ledger_insert'"
        ).fetchone()
        if decision:
            now_us = time.time_ns() // 1000
            written = (spend_id, 2, decision.call_digest, "0" * 32, decision.decision_id, now_us)
            db.execute("INSERT INTO licet_spend VALUES (?, 0, 'EXEC', ?, ?, ?, ?, 'permit', ?)", written)
        else:
            db.execute("DROP TRIGGER licet_ledger_insert")
        for entry, account, amount in rows:
            change = uuid4().hex
            row = (change, spend_id or None, entry if spend_id else None, order, account, amount, "USD")
            db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            if spend_id:
                (last,) = db.execute("SELECT last FROM licet_outbox_head").fetchone()
                at = (last + 1, spend_id, entry, change, f"order:{order}", TENANT, account, amount, "USD")
                db.execute(
                    "INSERT INTO licet_outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '')",
                    (*at, time.time_ns() // 1000),
                )
        if not spend_id:
            db.execute(triggers)
        db.execute("COMMIT")


def one_row_more(house: House, spend_id: str, order: str) -> None:
    """Add a row to an executed step, past the outbox."""
    with closing(sqlite3.connect(house.ledger, isolation_level=None, timeout=30)) as db:
        db.execute("BEGIN IMMEDIATE")
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'licet_ledger_insert'").fetchone()
        db.execute("DROP TRIGGER licet_ledger_insert")
        row = (uuid4().hex, spend_id, 3, order, f"merchant:{TENANT}", -1, "USD")
        db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        db.execute(trigger)
        db.execute("COMMIT")


def raised(house: House, finding: FindingClass, *, spend_id: str = "", resource: str = "") -> None:
    """Wait until the reconciler raised the finding, as an event of its own."""
    sql = (
        "SELECT count() FROM events WHERE kind = 'finding.raised' AND finding = {finding:String}"
        " AND endsWith(source, '/reconciler') AND ({spend:String} = '' OR spend_id = {spend:String})"
        " AND ({resource:String} = '' OR resource = {resource:String})"
    )
    given = {"finding": str(finding), "spend": spend_id, "resource": resource}
    house.until(
        lambda: house.store.query(sql, parameters=given).result_rows[0][0] > 0, str(finding), WITHIN_S
    )


def test_every_finding_is_reached_by_real_services(house: House) -> None:
    never = ask(house, house.order())[1].decision.spend_id  # ends by itself, 65 s from now

    executed_order = house.order()
    step, asked = ask(house, executed_order)
    assert present(house, step, asked, executed_order).reason == OK
    raised(house, FindingClass.ALLOWED_EXECUTED, spend_id=asked.decision.spend_id)

    denied = ask(house, "O3")[1].decision
    assert denied.decision == DecisionType.DECISION_TYPE_DENY
    raised(house, FindingClass.DENIED_STOPPED, resource="order:O3")
    superuser(house, "O3")
    raised(house, FindingClass.DENIED_BUT_BYPASSED, resource="order:O3")

    orphan = house.order()
    superuser(house, orphan)
    raised(house, FindingClass.NO_RULE_LOOKUP, resource=f"order:{orphan}")

    labelled = house.order()
    step, asked = ask(house, labelled, call_id=LABELLED)
    assert present(house, step, asked, labelled).reason == OK
    raised(house, FindingClass.WRONG_RULE, spend_id=asked.decision.spend_id)

    held_order = house.order()
    held = ask(house, held_order, HELD_MINOR)[1].decision
    assert held.decision == DecisionType.DECISION_TYPE_HOLD
    superuser(house, held_order, held)
    raised(house, FindingClass.HELD_WITHOUT_APPROVAL, spend_id=held.spend_id)

    bare_order = house.order()
    bare = ask(house, bare_order)[1].decision
    superuser(house, bare_order, bare, minor=6_000)
    raised(house, FindingClass.ALLOWED_WRONG_PARAMETERS, spend_id=bare.spend_id)

    past_order = house.order()
    past = ask(house, past_order)[1].decision
    superuser(house, past_order, past)
    raised(house, FindingClass.EXECUTED_WITHOUT_SPEND, spend_id=past.spend_id)

    disagreed_order = house.order()
    step, asked = ask(house, disagreed_order)
    assert present(house, step, asked, disagreed_order).reason == OK
    one_row_more(house, asked.decision.spend_id, disagreed_order)
    raised(house, FindingClass.LEDGER_DISAGREES, spend_id=asked.decision.spend_id)

    stuck = kill_the_tool_in_mid_call(house)
    with pytest.raises(grpc.RpcError):
        ask(house, house.order())
    raised(house, FindingClass.FAILED_STOPPED)
    raised(house, FindingClass.UNKNOWN_OUTCOME, spend_id=stuck)
    raised(house, FindingClass.ALLOWED_NOT_EXECUTED, spend_id=never)
    show_what_was_found(house, held.hold_id)
    tool = f"tool-{TOOL}"
    house.stack.restart(*[name for name in house.stack.processes if name in {TOOL, tool}])


def show_what_was_found(house: House, hold_id: str) -> None:
    """The panels that are empty where all is well have these findings, and the hold that nobody answered."""
    now_ms = time.time_ns() // 1_000_000
    rows = {
        name: house.store.query(panel_of(name).filled(now_ms - 3_600_000, now_ms + 60_000)).result_rows
        for name in ("unauthorized-changes", "holds-open", "money-by-bundle")
    }
    assert {row[1] for row in rows["unauthorized-changes"]} == set(PAGES) - {FindingClass.NOT_JUDGED}
    assert [row[0] for row in rows["holds-open"]] == [hold_id]
    assert {row[2] for row in rows["money-by-bundle"]} >= {"ALLOWED_EXECUTED", "NO_RULE_LOOKUP"}


def kill_the_tool_in_mid_call(house: House) -> str:
    """Leave a step reserved whose tool never answers and cannot be asked; return its spend id."""
    order = house.order()
    step, asked = ask(house, order)
    replies: list[Reply] = []
    (name,) = [name for name in house.stack.processes if name in {TOOL, f"tool-{TOOL}"}]
    with house.locked_ledger():
        calling = threading.Thread(target=lambda: replies.append(present(house, step, asked, order)))
        calling.start()
        spend = asked.decision.spend_id
        sql = "SELECT count() FROM events WHERE kind = 'spend.reserved' AND spend_id = {s:String}"
        house.until(
            lambda: house.store.query(sql, parameters={"s": spend}).result_rows[0][0] == 1, "the reserve"
        )
        house.stack.processes[name].kill()
        calling.join(60)
    assert [reply.reason for reply in replies] != [OK]
    return spend
