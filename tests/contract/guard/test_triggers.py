"""Each trigger is there for a reason: the attack that it alone stops passes once it is dropped.

A new trigger without an attack here, or one that stops nothing that another does not stop, fails.
"""

import re
from pathlib import Path

import pytest

from licet.guard.guard import Done
from licet.guard.ledger import SpendRow, State
from tests.worlds.guarded_tool import GuardedTool

VOIDED, UNKNOWN, OPEN = ("0" * 31 + digit for digit in "123")
FLIP = (
    "INSERT OR REPLACE INTO licet_spend"
    " (spend_id, round, state, entries, call_digest, attempt, decision_id, issuer, decided_at_us)"
    f" VALUES ('{VOIDED}', 0, 'EXEC', 1, zeroblob(32), '', '', 'permit', 1)"
)
OUTBOX = (
    "INSERT INTO licet_outbox"
    " ({seq}spend_id, entry, change_id, resource, tenant, account, amount_minor, currency, committed_at_us,"
    " trace_id, span_id) VALUES ({number}'{spend}', 1, 'x', 'r', 't', 'a', 1, 'USD', 1, '', '')"
)
FORGED_ROW = f"INSERT INTO ledger (change_id, spend_id, entry) VALUES ('x', '{UNKNOWN}', 1)"
MOVES_THE_HEAD = ("licet_outbox", "licet_outbox_inserted")
"""Stops nothing: it counts. `test_ledger` finds it missing."""

SQLITE = {
    ("licet_spend", "licet_spend_insert"): FLIP,
    ("licet_spend", "licet_spend_update"): "UPDATE licet_spend SET attempt = 'x'",
    ("licet_spend", "licet_spend_delete"): "DELETE FROM licet_spend",
    ("licet_result", "licet_result_insert"): f"INSERT INTO licet_result VALUES ('{VOIDED}', x'00')",
    ("licet_result", "licet_result_update"): "UPDATE licet_result SET result = x'00'",
    ("licet_result", "licet_result_delete"): "DELETE FROM licet_result",
    ("licet_outbox", "licet_outbox_insert"): OUTBOX.format(seq="outbox_seq, ", number="9, ", spend=UNKNOWN),
    ("licet_outbox", "licet_outbox_update"): "UPDATE licet_outbox SET amount_minor = 0",
    ("licet_outbox", "licet_outbox_delete"): "DELETE FROM licet_outbox",
    (
        "licet_outbox_head",
        "licet_outbox_head_insert",
    ): "INSERT OR REPLACE INTO licet_outbox_head VALUES (1, 0, 0)",
    ("licet_outbox_head", "licet_outbox_head_update"): "UPDATE licet_outbox_head SET last = 99",
    ("licet_outbox_head", "licet_outbox_head_delete"): "DELETE FROM licet_outbox_head",
    (
        "licet_ledger",
        "licet_ledger_once_insert",
    ): "INSERT OR REPLACE INTO licet_ledger VALUES (1, 'a', 'b', 'c')",
    ("licet_ledger", "licet_ledger_once_update"): "UPDATE licet_ledger SET ledger = 'orders'",
    ("licet_ledger", "licet_ledger_once_delete"): "DELETE FROM licet_ledger",
    ("ledger", "licet_ledger_insert"): FORGED_ROW,
    ("ledger", "licet_ledger_update"): "UPDATE ledger SET amount_minor = 0",
    ("ledger", "licet_ledger_delete"): "DELETE FROM ledger",
}

POSTGRES = {
    (
        "licet_spend",
        "licet_spend_once",
    ): "UPDATE licet_spend SET state = 'EXEC', call_digest = repeat('d', 32)::bytea",
    ("licet_spend", "licet_spend_truncate"): "TRUNCATE licet_spend",
    ("licet_result", "licet_result_insert"): f"INSERT INTO licet_result VALUES ('{VOIDED}', '')",
    ("licet_result", "licet_result_once"): "DELETE FROM licet_result",
    ("licet_result", "licet_result_truncate"): "TRUNCATE licet_result",
    ("licet_outbox", "licet_outbox_number"): OUTBOX.format(seq="outbox_seq, ", number="9, ", spend=OPEN),
    ("licet_outbox", "licet_outbox_insert"): OUTBOX.format(seq="", number="", spend=UNKNOWN),
    ("licet_outbox", "licet_outbox_once"): "UPDATE licet_outbox SET amount_minor = 0",
    ("licet_outbox", "licet_outbox_truncate"): "TRUNCATE licet_outbox",
    ("licet_outbox_head", "licet_outbox_head_update"): "UPDATE licet_outbox_head SET last = 99",
    ("licet_outbox_head", "licet_outbox_head_delete"): "DELETE FROM licet_outbox_head",
    ("licet_outbox_head", "licet_outbox_head_truncate"): "TRUNCATE licet_outbox_head",
    ("licet_ledger", "licet_ledger_once"): "DELETE FROM licet_ledger",
    ("licet_ledger", "licet_ledger_truncate"): "TRUNCATE licet_ledger",
    ("ledger", "licet_ledger_insert"): FORGED_ROW,
    ("ledger", "licet_ledger_once"): "UPDATE ledger SET amount_minor = 0",
    ("ledger", "licet_ledger_truncate"): "TRUNCATE ledger",
}

PAGE = Path(__file__).parents[3] / "docs" / "check-removal.md"


def test_page_names_every_trigger_and_no_other() -> None:
    """Those of a table whose attacks differ share a row; a `licet_ledger_once` is of two tables."""
    rows = re.findall(
        r"^\| (`licet_\w+`|the ledger) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE
    )
    for column, known in ((1, SQLITE), (2, POSTGRES)):
        told = {
            (row[0].strip("`").replace("the ledger", "ledger"), trigger)
            for row in rows
            for trigger in re.findall(r"`(\w+)`", row[column])
        }
        assert told == set(known)


def name_of(value: object) -> str:
    return "/".join(value) if isinstance(value, tuple) else ""


@pytest.fixture
def attacked(tool: GuardedTool) -> GuardedTool:
    with tool.store.ledger.transaction() as transaction:
        transaction.insert(SpendRow(VOIDED, 0, State.VOID))
        transaction.insert(SpendRow(OPEN, 0, State.EXEC, 1, b"d" * 32))  # its entry is not written yet
    assert isinstance(tool.refund(tool.call()), Done)
    return tool


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("trigger", "attack"), SQLITE.items(), ids=name_of)
def test_each_trigger_of_sqlite_alone_stops_its_attack(
    attacked: GuardedTool, trigger: tuple[str, str], attack: str
) -> None:
    assert attacked.attack(attack) != "accepted"
    assert attacked.attack(f"DROP TRIGGER {trigger[1]}") == "accepted"
    assert attacked.attack(attack) == "accepted"


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize(("trigger", "attack"), POSTGRES.items(), ids=name_of)
def test_each_trigger_of_postgres_alone_stops_its_attack(
    attacked: GuardedTool, trigger: tuple[str, str], attack: str
) -> None:
    assert attacked.attack(attack) != "accepted"
    assert attacked.attack(f"DROP TRIGGER {trigger[1]} ON {trigger[0]}") == "accepted"
    assert attacked.attack(attack) == "accepted"


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_every_trigger_of_sqlite_has_its_attack(attacked: GuardedTool) -> None:
    found = attacked.rows("SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'")
    assert set(found) == {*SQLITE, MOVES_THE_HEAD}


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_every_trigger_of_postgres_has_its_attack_and_fires_always(attacked: GuardedTool) -> None:
    found = attacked.rows(
        "SELECT c.relname, t.tgname, t.tgenabled FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace"
    )
    assert {(table, trigger) for table, trigger, _ in found} == set(POSTGRES)
    assert {enabled for _, _, enabled in found} <= {"A", b"A"}
