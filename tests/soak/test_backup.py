"""A store is backed up under load, lost, and put back by the commands: nothing is missing or doubled."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.audit.conftest import LICET, House, Store
from tests.integration.audit.conftest import event as event  # noqa: PLC0414 - fixtures
from tests.integration.audit.conftest import front as front  # noqa: PLC0414
from tests.integration.audit.conftest import house as house  # noqa: PLC0414
from tests.integration.audit.conftest import nats as nats  # noqa: PLC0414
from tests.integration.audit.conftest import store as store  # noqa: PLC0414
from tests.integration.audit.conftest import stores as stores  # noqa: PLC0414

pytestmark = [pytest.mark.soak, pytest.mark.asyncio, pytest.mark.timeout(600)]


def licet(house: House, *words: str, **changed: str) -> tuple[int, str]:
    environment = {**house.environment(), **changed}
    done = subprocess.run(
        (*LICET, "audit", *words), env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


async def test_store_lost_under_load_is_restored_and_the_writer_brings_the_rest(
    house: House, event: Any, tmp_path: Path
) -> None:
    old = house.store
    name = old.address.database.replace("_", "-")
    writer = house.start_writer(LICET_BATCH_ROWS="50")
    publishing = asyncio.create_task(house.publish([event(n) for n in range(1, 3001)]))
    await house.until(house.stored(500))
    status, said = await asyncio.to_thread(licet, house, "backup", name)
    assert (status, "holds" in said) == (0, True), said
    await publishing
    await house.until(house.stored(3000))
    writer.terminate()
    writer.wait()
    assert (await asyncio.to_thread(licet, house, "restore", name))[0] == 1, (
        "never over a store that has rows"
    )

    restored = f"{old.address.database}_restored"
    old.client.command(f"CREATE DATABASE {restored}")
    given = {"LICET_CLICKHOUSE_DATABASE": restored}
    words = ("restore", name, "--from-database", old.address.database)
    status, said = await asyncio.to_thread(licet, house, *words, **given)
    assert status == 0, said
    assert "all is there" in said
    assert "messages to read" in said
    address = type(old.address)(old.address.url, "licet", old.address.password_file, restored)
    new = Store(address, address.client())
    try:
        assert 500 <= new.value("SELECT count() FROM events") < 3000
        house.store = new
        house.start_writer(LICET_BATCH_ROWS="70")
        await house.until(house.stored(3000))
        house.assert_exact(3000)
        calls = "SELECT * FROM {}.calls ORDER BY decision_id"
        assert new.rows(calls.format(restored)) == new.rows(calls.format(old.address.database))
    finally:
        house.stop()
        house.store = old
        new.client.close()
        old.client.command(f"DROP DATABASE {restored} SYNC")
