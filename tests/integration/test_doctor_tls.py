"""The doctor and the decider under mTLS: who answers there must be the decider, by its SPIFFE id."""

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from licet.doctor import State
from licet.doctor.servers import check_beacon
from licet.doctor.settings import DoctorSettings
from licet.v1 import beacon_pb2, decider_pb2, decider_pb2_grpc
from licet.v1.statement_pb2 import Signed
from tests.worlds.certificates import Authority

pytestmark = pytest.mark.asyncio
DECIDER = "spiffe://licet.local/dev/decider"
DOOR = "spiffe://licet.local/dev/sidecar/finance"


class Beacons(decider_pb2_grpc.DeciderServiceServicer):
    """Says a fresh beacon to everybody, as an impostor could."""

    def __init__(self) -> None:
        self.asked = 0

    async def GetBeacon(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        self.asked += 1
        now_ms = time.time_ns() // 1_000_000
        told = beacon_pb2.Beacon(issued_at_ms=now_ms, store_safe=True, bundle_version=1, generation=1)
        return decider_pb2.GetBeaconResponse(beacon=Signed(payload=told.SerializeToString()))


class Network:
    """Servers with certificates of one authority."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "ca")
        self.beacons = Beacons()
        self._servers: list[grpc.aio.Server] = []

    async def serve(self, *uris: str, host: str = "localhost") -> int:
        certificate, key = self.authority.issue("server", *uris, dns=(host,))
        credentials = grpc.ssl_server_credentials(
            [(key.read_bytes(), certificate.read_bytes())],
            self.authority.file.read_bytes(),
            require_client_auth=True,
        )
        server = grpc.aio.server()
        decider_pb2_grpc.add_DeciderServiceServicer_to_server(self.beacons, server)
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        self._servers.append(server)
        return port

    async def check(self, port: int, **given: Any) -> Any:
        certificate, key = self.authority.issue("door", DOOR)
        files = {"tls_certificate_file": certificate, "tls_key_file": key, "tls_ca_file": self.authority.file}
        return await check_beacon(DoctorSettings(decider=f"localhost:{port}", **{**files, **given}))

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop(0)


@pytest_asyncio.fixture
async def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    for name in [name for name in os.environ if name.startswith("LICET_")]:
        monkeypatch.delenv(name)
    made = Network(tmp_path)
    yield made
    await made.stop()


async def test_the_decider_itself_is_fine(network: Network) -> None:
    beacon, clock = await network.check(await network.serve(DECIDER))
    assert (beacon.state, clock.state) == (State.OK, State.OK), (beacon, clock)
    assert network.beacons.asked == 2


@pytest.mark.parametrize(
    ("uris", "said"),
    [((DOOR,), DOOR), (("spiffe://licet.local/staging/decider",), "staging"), ((DECIDER, DOOR), "`nobody`")],
    ids=["a door", "another environment's decider", "two ids"],
)
async def test_whoever_else_has_the_deciders_name_is_named_and_not_asked(
    network: Network, uris: tuple[str, ...], said: str
) -> None:
    beacon, clock = await network.check(await network.serve(*uris))
    assert (beacon.state, clock.state) == (State.PROBLEM, State.SKIPPED)
    assert said in beacon.says
    assert "SPIFFE id" in beacon.do
    assert network.beacons.asked == 0


async def test_a_decider_of_another_name_or_authority_or_none_is_named(
    network: Network, tmp_path: Path
) -> None:
    elsewhere, _ = await network.check(await network.serve(DECIDER, host="elsewhere"))
    assert "verify failed" in elsewhere.says
    stranger = Authority(tmp_path / "stranger").file
    unknown, _ = await network.check(await network.serve(DECIDER), tls_ca_file=stranger)
    assert "verify failed" in unknown.says
    away, _ = await network.check(1)
    assert away.state is State.PROBLEM
    missing, _ = await network.check(1, tls_key_file=tmp_path / "missing")
    assert (missing.state, "No such file" in missing.says) == (State.PROBLEM, True)
    assert network.beacons.asked == 0
