"""The doctor over the network: each check is broken for real, one at a time, and is fine before and after."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from licet.doctor.finding import State
from licet.doctor.servers import check_clickhouse, check_nats
from licet.doctor.settings import DoctorSettings
from licet.embedded.nats_server import NatsServer
from licet.streams import EMBEDDED_SIZES, apply_streams, connect, stream_info, stream_spend
from licet.streams.api import call
from tests.integration.audit.conftest import ENVIRONMENT, Front, Store

HOUR_NS = 3_600_000_000_000


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.startswith("LICET_")]:
        monkeypatch.delenv(name)


def told(**given: Any) -> DoctorSettings:
    return DoctorSettings(environment=ENVIRONMENT, **given)


def as_user(nats: NatsServer, user: str = "setup", **given: Any) -> DoctorSettings:
    login = {"nats_url": nats.url, "nats_user": user, "nats_password_file": nats.password_file(user)}
    return told(**{**login, **given})


@pytest.mark.asyncio
async def test_a_stream_whose_settings_drifted_is_named_until_it_is_repaired(nats: NatsServer) -> None:
    assert (await check_nats(as_user(nats), 1)).state is State.OK
    nc = await connect(nats.settings("setup"), "test")
    try:
        name = stream_spend(ENVIRONMENT)
        info = await stream_info(nc, name)
        assert info is not None
        await call(nc, f"STREAM.UPDATE.{name}", {**info["config"], "max_age": HOUR_NS})
        found = await check_nats(as_user(nats), 1)
        assert found.state is State.PROBLEM
        assert name in found.says
        assert "max_age" in found.says
        assert "licet streams apply" in found.do
        await apply_streams(nc, ENVIRONMENT, sizes=EMBEDDED_SIZES)
    finally:
        await nc.close()
    assert (await check_nats(as_user(nats), 1)).state is State.OK


@pytest.mark.asyncio
async def test_fewer_copies_of_a_stream_than_wanted_are_named(nats: NatsServer) -> None:
    found = await check_nats(as_user(nats), 3)
    assert found.state is State.PROBLEM
    assert "num_replicas" in found.says


@pytest.mark.asyncio
async def test_a_wrong_password_is_named_and_a_doors_own_is_fine(nats: NatsServer, tmp_path: Path) -> None:
    wrong = tmp_path / "password"
    wrong.write_text("not this one")
    found = await check_nats(as_user(nats, nats_password_file=wrong), 1)
    assert (found.state, "password" in found.do) == (State.PROBLEM, True)
    door = await check_nats(as_user(nats, "sidecar-finance"), 1)
    assert door.state is State.OK
    assert "only our own services" in door.says


@pytest.mark.asyncio
async def test_a_server_that_is_away_is_named(nats: NatsServer) -> None:
    nats.stop()
    found = await check_nats(as_user(nats), 1)
    assert (found.state, "is the server up" in found.do) == (State.PROBLEM, True)


def of_store(store: Store, **given: Any) -> DoctorSettings:
    address = store.address
    login = {
        "clickhouse_url": address.url,
        "clickhouse_user": address.user,
        "clickhouse_password_file": address.password_file,
        "clickhouse_database": address.database,
    }
    return told(**{**login, **given})


def test_what_the_store_does_not_let_us_read_is_named(store: Store, tmp_path: Path) -> None:
    found = check_clickhouse(of_store(store))
    assert found.state is State.OK, found
    assert store.address.database in found.says
    wrong = tmp_path / "password"
    wrong.write_text("not this one")
    for broken in ({"clickhouse_password_file": wrong}, {"clickhouse_user": "nobody"}):
        found = check_clickhouse(of_store(store, **broken))
        assert found.state is State.PROBLEM
        assert "licet audit roles" in found.do
    # What the engine refuses to read, for whatever reason: here a view whose source is gone.
    for sql in (
        "RENAME TABLE events TO away",
        "CREATE VIEW events AS SELECT time FROM away",
        "RENAME TABLE away TO gone",
    ):
        store.client.command(sql)
    found = check_clickhouse(of_store(store))
    assert found.state is State.PROBLEM
    assert "grants" in found.do
    store.client.command("DROP VIEW events")
    assert "has no tables" in check_clickhouse(of_store(store)).says
    store.client.command("RENAME TABLE gone TO events")
    assert check_clickhouse(of_store(store)).state is State.OK


def test_a_store_without_tables_or_that_is_away_is_named(front: Front) -> None:
    address = front.address()
    there = told(clickhouse_url=address.url, clickhouse_password_file=address.password_file)
    assert "licet audit migrate" in check_clickhouse(there).do
    away = told(clickhouse_url="http://127.0.0.1:1", clickhouse_password_file=address.password_file)
    assert "is the server up" in check_clickhouse(away).do


NOBODY = 65_534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as another user")
@pytest.mark.parametrize(
    ("mode", "group", "exit_code"), [(0o660, NOBODY, 0), (0o660, 0, 1), (0o600, NOBODY, 1)]
)
def test_a_socket_that_this_user_may_not_use_is_named(mode: int, group: int, exit_code: int) -> None:
    """As the door's own user, since root may use every socket."""
    directory = Path(tempfile.mkdtemp(prefix="s"))
    directory.chmod(0o755)
    path = directory / "tool.sock"
    look = (
        "import os, sys; from pathlib import Path; from licet.doctor.files import check_socket; "
        "from licet.doctor.settings import DoctorSettings; "
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); "
        "found = check_socket(DoctorSettings(tool_socket=Path(sys.argv[1]))); print(found.says); "
        "sys.exit(found.state.value != 'ok')"
    )
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            path.chmod(mode)
            os.chown(path, 0, group)
            done = subprocess.run(
                [sys.executable, "-c", look, str(path)], capture_output=True, text=True, check=False
            )
    finally:
        shutil.rmtree(directory)
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert ("may not use" in done.stdout) == bool(exit_code)
