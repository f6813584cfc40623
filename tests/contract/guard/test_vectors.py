"""The guard's SQL by its files alone, as a tool in another language applies it: no code of licet runs."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.worlds.postgres import PostgresServer

VECTORS = Path(__file__).parents[2] / "vectors" / "guard"
GIVEN = json.loads((VECTORS / "000_given.json").read_text())["statements"]
CASES = sorted(path for path in VECTORS.glob("*.json") if path.stem != "000_given")
BEFORE = "9" * 32
TAKEN = (
    "EXISTS (SELECT 1 FROM ledger AS old WHERE old.rowid = NEW.rowid OR old.change_id = NEW.change_id"
    " OR (old.spend_id = NEW.spend_id AND old.entry = NEW.entry))"
)

Run = Callable[[str], None]


def sql_of(name: str) -> str:
    return files("licet.guard").joinpath(name).read_text()


def filled(template: str, ledger: str, spend: str, entry: str) -> str:
    names = {"ledger": ledger, "spend": spend, "entry": entry}
    texts = {f"{key}_text": f"'{name}'" for key, name in names.items()}
    return template.format(**names, **texts, before=f"'{BEFORE}'", taken=TAKEN)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Run]]:
    connection: Any
    if request.param == "sqlite":
        connection = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        run: Run = connection.executescript
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        connection = psycopg.connect(server.schema(), autocommit=True)
        run = connection.execute
    yield request.param, run
    connection.close()


def prepare(name: str, run: Run) -> None:
    columns = {"sqlite": ("TEXT", "INTEGER"), "postgres": ("text", "integer")}[name]
    for statement in (given[name] for given in GIVEN):
        match statement.split():
            case ["@install"]:
                run(sql_of(f"{name}.sql"))
            case ["@protect", ledger, spend, entry]:
                run(f"ALTER TABLE {ledger} ADD COLUMN {spend} {columns[0]}")
                run(f"ALTER TABLE {ledger} ADD COLUMN {entry} {columns[1]}")
                run(filled(sql_of(f"{name}_ledger.sql"), ledger, spend, entry))
            case _:
                run(statement)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_database_answers_as_the_vector_says(database: tuple[str, Run], path: Path) -> None:
    name, run = database
    vector = json.loads(path.read_text())
    if name not in vector["attack"]:
        return  # a statement that this database does not have
    prepare(name, run)
    refusal = ""
    try:
        run(vector["attack"][name])
    except (sqlite3.Error, psycopg.Error) as error:
        refusal = str(error)
    assert "syntax" not in refusal
    assert ("refused" if refusal else "accepted") == vector["expected"], (vector["why"], refusal)
