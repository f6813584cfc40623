"""A running decider for each test."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from licet.embedded.dev_keys import make_dev_keys
from licet.embedded.nats_server import NatsServer
from licet.identity import TRUST_DOMAIN_DEV
from tests.worlds.decisions import APPROVERS, ENV, POLICY, Ground, House, furnish


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    policy = tmp_path / "policy"
    shutil.copytree(POLICY, policy)
    keys = make_dev_keys(
        tmp_path / "keys", ENV, ["finance"], (), TRUST_DOMAIN_DEV, approvers=APPROVERS, tenants=("t1",)
    )
    server = NatsServer(tmp_path / "nats", environment=ENV, tools=["finance"])
    server.start()
    try:
        made = Ground(tmp_path, server, keys, policy)
        made.build_catalog()
        yield made
    finally:
        server.stop()


@pytest_asyncio.fixture
async def house(ground: Ground) -> AsyncIterator[House]:
    made = await furnish(ground)
    try:
        yield made
    finally:
        await made.close()
