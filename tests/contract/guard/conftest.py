from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.guarded_tool import GuardedTool, PostgresStore, QuickMint, SqliteStore, Store
from tests.worlds.postgres import PostgresServer, binaries


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    place = binaries()
    if place is None:
        pytest.skip(
            "NO POSTGRESQL SERVER: the guard is not proven on it (Debian: apt-get install postgresql)"
        )
    server = PostgresServer(place)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def mint(tmp_path_factory: pytest.TempPathFactory) -> QuickMint:
    return QuickMint(tmp_path_factory.mktemp("mint"))


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        made: Store = SqliteStore(tmp_path / "ledger.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        made = PostgresStore(server.schema())
    yield made
    made.ledger.close()


@pytest.fixture
def tool(mint: QuickMint, store: Store) -> GuardedTool:
    return GuardedTool(mint, store)
