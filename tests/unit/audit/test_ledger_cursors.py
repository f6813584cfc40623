"""Where ledgers are read from after a kill or a loss: no row is passed over. On real SQLite."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from audit.judging.findings import Change
from audit.judging.ledger_reader import LedgerCursors, LedgerReader
from audit.judging.ledger_rows import LedgerRows

SQL = (
    "SELECT rowid AS cursor, '' AS spend_id, 0 AS entry, id AS change_id, 't1' AS tenant, 'o' AS resource,"
    " 'a' AS account, 1 AS amount_minor, 'USD' AS currency FROM ledger"
)


@pytest.fixture
def readers(tmp_path: Path) -> dict[str, LedgerReader]:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        connection.execute("CREATE TABLE ledger (id)")
        connection.executemany("INSERT INTO ledger VALUES (?)", [("a",), ("b",), ("c",)])
    return {"finance": LedgerReader("finance", f"file:{tmp_path / 'ledger.db'}", SQL)}


def nothing() -> Iterable[str]:
    raise AssertionError("a cursor file that is there needs no store")


def change(step: str, tool: str = "finance") -> Change:
    return Change(step, "", "t1", tool, "o", 0, f"c/{step}", "a", 1, "USD", 0)


def test_ledger_of_a_new_house_begins_at_its_end_and_that_is_kept(
    readers: dict[str, LedgerReader], tmp_path: Path
) -> None:
    kept = tmp_path / "cursors.json"
    assert LedgerCursors(kept).load(readers) == {"finance": 3}
    assert LedgerCursors(kept).load(readers, nothing) == {"finance": 3}


def test_reader_that_is_added_later_begins_at_the_end(
    readers: dict[str, LedgerReader], tmp_path: Path
) -> None:
    LedgerCursors(tmp_path / "cursors.json").load({})
    assert LedgerCursors(tmp_path / "cursors.json").load(readers, nothing) == {"finance": 3}


def test_lost_cursors_of_ledgers_that_the_store_knows_are_read_again_from_the_first_row(
    readers: dict[str, LedgerReader], tmp_path: Path
) -> None:
    kept = tmp_path / "cursors.json"
    assert LedgerCursors(kept).load(readers, lambda: ["finance"]) == {"finance": 0}
    assert [cursor for cursor, _ in readers["finance"].after(0)] == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"finance": "x"}', b'{"finance": 1e999}', b"\xff"])
def test_damaged_cursors_hide_no_row_and_stop_nobody(
    readers: dict[str, LedgerReader], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "cursors.json").write_bytes(content)
    assert LedgerCursors(tmp_path / "cursors.json").load(readers) == {"finance": 0}


def test_kill_while_cursors_are_written_leaves_the_old_ones(
    readers: dict[str, LedgerReader], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = LedgerCursors(tmp_path / "cursors.json")
    kept.load(readers)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            kept.save({"finance": 9})
    assert LedgerCursors(tmp_path / "cursors.json").load(readers, nothing) == {"finance": 3}
    kept.save({"finance": 9})
    assert LedgerCursors(tmp_path / "cursors.json").load(readers, nothing) == {"finance": 9}


def test_row_that_waits_for_its_step_holds_the_cursor_before_it() -> None:
    rows = LedgerRows({"finance": 10})
    for cursor, step in ((11, "s1"), (12, ""), (13, "s2"), (14, "s1")):
        if step:
            rows.wait(step, change(step), cursor)
        rows.passed("finance", cursor)
    assert (rows.cursor("finance"), rows.safe()) == (14, {"finance": 10})
    rows.conclude({"s2"})
    assert (rows.of("s1"), rows.safe()) == (None, {"finance": 12})
    rows.conclude(())
    assert rows.safe() == {"finance": 14}


def test_waiting_rows_hold_their_own_ledger_alone() -> None:
    rows = LedgerRows({"finance": 10, "crm": 5})
    rows.wait("s1", change("s1", "crm"), 6)
    rows.passed("crm", 6)
    rows.passed("finance", 11)
    assert rows.safe() == {"finance": 11, "crm": 5}
