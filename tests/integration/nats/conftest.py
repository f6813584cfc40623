from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.worlds.guarded_tool import QuickMint
from tests.worlds.nats import Door, NatsWorld, nats_world


@pytest_asyncio.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    async with nats_world(tmp_path / "nats") as world:
        yield world


@pytest.fixture(scope="session")
def mint(tmp_path_factory: pytest.TempPathFactory) -> QuickMint:
    return QuickMint(tmp_path_factory.mktemp("mint"))


@pytest.fixture
def door(mint: QuickMint) -> Door:
    return Door(mint)
