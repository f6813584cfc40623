"""The door under mTLS, with real handshakes."""

import asyncio
import contextlib
import datetime as dt
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from licet.clock import wall_ms
from licet.metadata import DEV_IDENTITY, PERMIT
from sidecar.entrance.descriptors import MAX_DESCRIPTORS
from sidecar.entrance.grpc_door import SERVER_OPTIONS, GrpcDoor, identify_certified
from sidecar.entrance.tls import CertificateFiles, server_credentials
from tests.unit.sidecar.conftest import World
from tests.worlds.certificates import Authority
from tests.worlds.mint import AGENT, OTHER_AGENT, REFUND, Mint, refund

pytestmark = pytest.mark.asyncio
SIDECAR = "spiffe://licet.local/dev/sidecar/finance"


class House:
    """A door under mTLS on a fake tool."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.authority = Authority(directory / "ca")
        certificate, key = self.authority.issue("sidecar", SIDECAR, dns=("localhost",))
        self.files = CertificateFiles(certificate, key, self.authority.file)

    async def start(self) -> None:
        self.server = aio.server(options=SERVER_OPTIONS)
        self.server.add_generic_rpc_handlers((GrpcDoor(self.world.door.handle, identify_certified),))
        self.port = self.server.add_secure_port("127.0.0.1:0", server_credentials(self.files))
        await self.server.start()

    async def stop(self) -> None:
        await self.server.stop(0)

    def credentials(self, certificate: Path | None, key: Path | None) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            self.authority.file.read_bytes(),
            key.read_bytes() if key else None,
            certificate.read_bytes() if certificate else None,
        )

    async def call(self, certificate: Path | None, key: Path | None, *pairs: tuple[str, str | bytes]) -> str:
        """Call once on a connection of its own; return the reason, or the status name where there is none."""
        credentials = self.credentials(certificate, key)
        options = (("grpc.use_local_subchannel_pool", 1),)
        async with aio.secure_channel(f"localhost:{self.port}", credentials, options=options) as channel:
            try:
                await channel.unary_unary(REFUND)(refund().SerializeToString(), metadata=pairs, timeout=30)
            except aio.AioRpcError as error:
                from tests.integration.sidecar.test_grpc_door import reason_of

                return reason_of(error) or error.code().name
            return "passed"

    def permit(self) -> tuple[str, bytes]:
        return (PERMIT, self.world.mint.permit())


@pytest.fixture(scope="module")
def mint(tmp_path_factory: pytest.TempPathFactory) -> Mint:
    return Mint(tmp_path_factory.mktemp("mint"))


@pytest_asyncio.fixture
async def house(mint: Mint, tmp_path: Path) -> AsyncIterator[House]:
    house = House(World(mint), tmp_path)
    await house.start()
    yield house
    await house.stop()


async def test_the_certificates_id_is_the_caller(house: House) -> None:
    assert await house.call(*house.authority.issue("agent", AGENT), house.permit()) == "passed"
    assert house.world.event[1]["caller"] == AGENT


async def test_a_claimed_identity_changes_nothing(house: House) -> None:
    other = house.authority.issue("other", OTHER_AGENT)
    assert await house.call(*other, house.permit(), (DEV_IDENTITY, AGENT)) == "CALLER_MISMATCH"
    assert house.world.event[1]["caller"] == OTHER_AGENT


async def test_a_certificate_with_two_ids_is_nobodys(house: House) -> None:
    both = house.authority.issue("both", AGENT, OTHER_AGENT)
    assert await house.call(*both, house.permit()) == "CALLER_UNKNOWN"


async def test_without_certificate_nobody_comes_in(house: House) -> None:
    assert await house.call(None, None, house.permit()) == "UNAVAILABLE"
    assert house.world.journal.events == []


async def test_a_certificate_of_another_authority_is_none(house: House, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger")
    assert await house.call(*stranger.issue("agent", AGENT), house.permit()) == "UNAVAILABLE"
    assert house.world.journal.events == []


async def test_an_expired_certificate_is_none(house: House) -> None:
    now = dt.datetime.now(dt.UTC)
    old = house.authority.issue(
        "old", AGENT, not_before=now - dt.timedelta(days=2), not_after=now - dt.timedelta(days=1)
    )
    assert await house.call(*old, house.permit()) == "UNAVAILABLE"


async def test_a_certificate_that_ended_since_the_handshake_names_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a connection that stands, as after a handshake that resumes an earlier one (BoringSSL: for days)."""
    certificate, key = house.authority.issue("agent", AGENT)
    credentials = house.credentials(certificate, key)
    async with aio.secure_channel(f"localhost:{house.port}", credentials) as channel:
        call = channel.unary_unary(REFUND)
        await call(refund().SerializeToString(), metadata=(house.permit(),), timeout=30)
        monkeypatch.setattr("sidecar.entrance.grpc_door.wall_ms", lambda: wall_ms() + 2 * 86_400_000)
        with pytest.raises(aio.AioRpcError) as refused:
            await call(refund().SerializeToString(), metadata=(house.permit(),), timeout=30)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert house.world.journal.events[-1][1]["caller"] == ""
        monkeypatch.undo()
    assert await house.call(certificate, key, house.permit()) != "CALLER_UNKNOWN"


SERVER = """
from sidecar.entrance.tls_floor import require_tls_13

require_tls_13()
import asyncio, sys
from pathlib import Path
from grpc import aio
from sidecar.entrance.tls import CertificateFiles, server_credentials


async def main():
    server = aio.server()
    credentials = server_credentials(CertificateFiles(*map(Path, sys.argv[1:])))
    print(server.add_secure_port("127.0.0.1:0", credentials), flush=True)
    await server.start()
    await server.wait_for_termination()


asyncio.run(main())
"""


def shakes_hands(house: House, port: int, version: ssl.TLSVersion) -> bool:
    context = ssl.create_default_context(cafile=str(house.authority.file))
    context.load_cert_chain(*house.authority.issue("agent", AGENT))
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port)) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost"):
                return True
        except ssl.SSLError:
            return False


async def test_no_handshake_below_tls_13(house: House) -> None:
    files = (house.files.certificate, house.files.key, house.files.authority)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, *map(str, files), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        shook = [
            await asyncio.to_thread(shakes_hands, house, port, version)
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
        ]
    finally:
        process.kill()
        await process.wait()
    assert shook == [False, True]


def client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


async def until_closed(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        while await reader.read(4_096):
            pass


@pytest.mark.parametrize("part", [0, 3, None])
async def test_a_flood_of_half_made_handshakes_keeps_no_lawful_caller_out(
    house: House, monkeypatch: pytest.MonkeyPatch, part: int | None
) -> None:
    options = dict(SERVER_OPTIONS)
    assert options["grpc.server_handshake_timeout_ms"] <= 5_000
    options["grpc.server_handshake_timeout_ms"] = 1_000
    monkeypatch.setattr(sys.modules[__name__], "SERVER_OPTIONS", tuple(options.items()))
    await house.stop()
    await house.start()
    agent = house.authority.issue("agent", AGENT)
    permits = (house.permit(), house.permit())  # the world's clock stands still
    said = client_hello()[:part]
    flood = [await asyncio.open_connection("127.0.0.1", house.port) for _ in range(150)]
    for _, writer in flood:
        writer.write(said)
    assert await house.call(*agent, permits[0]) == "passed"
    async with asyncio.timeout(60):
        await asyncio.gather(*(until_closed(reader) for reader, _ in flood))
    for _, writer in flood:
        writer.close()
    assert await house.call(*agent, permits[1]) == "passed"


@pytest.mark.parametrize("asked", [64, MAX_DESCRIPTORS, 1 << 30])
async def test_a_process_has_no_more_descriptors_than_it_asked_for(asked: int) -> None:
    code = (
        "import resource; from sidecar.entrance.descriptors import bound_descriptors;"
        f"bound_descriptors({asked}); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    soft, hard = map(int, said.split())
    assert soft == (asked if hard < 0 else min(asked, hard))


async def test_a_new_authority_and_certificate_hold_without_a_restart(house: House, tmp_path: Path) -> None:
    before = house.authority.issue("agent", AGENT)
    assert await house.call(*before, house.permit()) == "passed"
    after = Authority(tmp_path / "after", "after")
    certificate, key = after.issue("sidecar", SIDECAR, dns=("localhost",))
    for new, old in (
        (after.file, house.files.authority),
        (certificate, house.files.certificate),
        (key, house.files.key),
    ):
        new.replace(old)
    house.authority.file.write_bytes(house.files.authority.read_bytes())
    assert await house.call(*before, house.permit()) == "UNAVAILABLE"
    assert await house.call(*after.issue("agent", AGENT), house.permit()) == "passed"


async def test_a_certificate_that_cannot_be_read_leaves_the_one_before(house: House) -> None:
    agent = house.authority.issue("agent", AGENT)
    house.files.key.rename(house.files.key.with_suffix(".gone"))
    assert await house.call(*agent, house.permit()) == "passed"


async def test_half_replaced_files_leave_the_ones_before_until_the_other_half_came(house: House) -> None:
    agent = house.authority.issue("agent", AGENT)
    certificate, key = house.authority.issue("renewed", SIDECAR, dns=("localhost",))
    renewed = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    shown = [await asyncio.to_thread(shown_to, house, agent)]
    certificate.replace(house.files.certificate)
    assert await house.call(*agent, house.permit()) == "passed"
    shown.append(await asyncio.to_thread(shown_to, house, agent))
    key.replace(house.files.key)
    assert await house.call(*agent, house.permit()) == "passed"
    shown.append(await asyncio.to_thread(shown_to, house, agent))
    assert [one == renewed for one in shown] == [False, False, True]


def shown_to(house: House, agent: tuple[Path, Path]) -> bytes | None:
    """The certificate that the door shows."""
    context = ssl.create_default_context(cafile=str(house.authority.file))
    context.load_cert_chain(*agent)
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", house.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        return tls.getpeercert(binary_form=True)
