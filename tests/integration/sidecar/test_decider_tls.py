"""The decider as the sidecar meets it under mTLS: by its SPIFFE id, with real handshakes."""

import asyncio
import contextlib
import ssl
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from cryptography import x509
from grpc import aio

from licet.metadata import DEV_IDENTITY
from licet.tls_relay import TlsRelay
from licet.v1 import decider_pb2_grpc
from sidecar.decider_link import DeciderLink
from sidecar.entrance.tls import CertificateFiles
from sidecar.process import Sidecar
from tests.worlds.certificates import Authority
from tests.worlds.mint import ENVIRONMENT, Mint
from tests.worlds.rig import Rig, Word

pytestmark = pytest.mark.asyncio

DECIDER = f"spiffe://licet.local/{ENVIRONMENT}/decider"
SIDECAR = f"spiffe://licet.local/{ENVIRONMENT}/sidecar/finance"


class Decider(Word):
    """Says a beacon; keeps who asked, by certificate. `gate` holds answers back."""

    def __init__(self, mint: Mint) -> None:
        super().__init__(mint)
        self.peers: list[int] = []
        self.gate: asyncio.Event | None = None
        self.metadata: list[Any] = []

    async def GetBeacon(self, request: Any, context: Any) -> Any:  # noqa: N802
        (pem,) = context.auth_context()["x509_pem_cert"]
        self.peers.append(x509.load_pem_x509_certificate(pem).serial_number)
        self.metadata.append(context.invocation_metadata())
        if self.gate is not None:
            await self.gate.wait()
        return await super().GetBeacon(request, context)


class House:
    """An authority, a decider under one of its certificates, and the sidecar's link to it."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "ca")
        self.mint = Mint(directory)
        self.word = Decider(self.mint)
        self.files = CertificateFiles(*self.authority.issue("sidecar", SIDECAR), self.authority.file)
        self._ending: list[Any] = []

    def credentials(self, certificate: Path, key: Path) -> Any:
        pairs = [(key.read_bytes(), certificate.read_bytes())]
        return grpc.ssl_server_credentials(pairs, self.authority.file.read_bytes(), require_client_auth=True)

    async def serve(self, certificate: Path, key: Path, port: int = 0) -> int:
        server = aio.server()
        decider_pb2_grpc.add_DeciderServiceServicer_to_server(self.word, server)
        port = server.add_secure_port(f"127.0.0.1:{port}", self.credentials(certificate, key))
        await server.start()
        self._ending.append(lambda: server.stop(0))
        return port

    def link(self, port: int, host: str = "localhost") -> DeciderLink:
        address = f"{host}:{port}"
        link = DeciderLink(
            address, self.mint.audience, relay=TlsRelay(address, self.files, DECIDER), identity=""
        )
        link.start()
        self._ending.append(link.close)
        return link

    async def stop(self) -> None:
        for ending in reversed(self._ending):
            await ending()


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)
    yield house
    await house.stop()


async def test_the_environments_decider_is_asked(house: House) -> None:
    link = house.link(await house.serve(*house.authority.issue("decider", DECIDER, dns=("localhost",))))
    beacon = await link.beacon()
    assert beacon is not None
    assert beacon.key_id == "beacon"
    assert (len(house.word.peers), link.trouble) == (1, "")
    assert DEV_IDENTITY not in dict(house.word.metadata[0])


@pytest.mark.parametrize(
    ("uris", "dns"),
    [
        ((f"spiffe://licet.local/{ENVIRONMENT}/agent/refund-bot",), ("localhost",)),
        (("spiffe://licet.local/staging/decider",), ("localhost",)),
        (("spiffe://elsewhere.local/dev/decider",), ("localhost",)),
        ((DECIDER, SIDECAR), ("localhost",)),
        ((), ("localhost",)),
        ((), ("localhost", DECIDER)),
        ((DECIDER.replace("decider", "DECIDER"),), ("localhost",)),
        ((f"{DECIDER}/",), ("localhost",)),
        ((DECIDER,), ("elsewhere",)),
    ],
    ids=[
        "an agent that has the host name",
        "the decider of another environment",
        "of another trust domain",
        "two ids",
        "no id",
        "the id as a host name",
        "another case",
        "a slash more",
        "another host",
    ],
)
async def test_nothing_is_said_to_anybody_else(
    house: House, uris: tuple[str, ...], dns: tuple[str, ...]
) -> None:
    link = house.link(await house.serve(*house.authority.issue("impostor", *uris, dns=dns)))
    assert await link.beacon() is None
    assert link.trouble.startswith("no connection to the decider: ")
    assert house.word.peers == []
    twin = house.link(await house.serve(*house.authority.issue("decider", DECIDER, dns=("localhost",))))
    assert await twin.beacon() is not None


async def test_the_id_under_another_authority_is_nobodys(house: House, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger")
    certificate, key = stranger.issue("decider", DECIDER, dns=("localhost",))
    link = house.link(await house.serve(certificate, key))
    assert await link.beacon() is None
    assert (house.word.peers, "certificate verify failed" in link.trouble) == ([], True)


async def test_no_handshake_below_tls_13(house: House) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*house.authority.issue("decider", DECIDER, dns=("localhost",)))
    context.set_alpn_protocols(["h2"])
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    came: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.read(1))
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0, ssl=context)
    link = house.link(server.sockets[0].getsockname()[1])
    assert await link.beacon() is None
    assert came == []
    assert link.trouble
    server.close()


async def test_a_decider_that_came_later_is_found(house: House) -> None:
    port = await house.serve(*house.authority.issue("impostor", SIDECAR, dns=("localhost",)))
    link = house.link(port)
    assert await link.beacon() is None
    await house._ending[0]()
    await house.serve(*house.authority.issue("decider", DECIDER, dns=("localhost",)), port=port)
    ends = time.monotonic() + 60
    while await link.beacon() is None:
        assert time.monotonic() < ends, link.trouble
        await asyncio.sleep(0.05)
    assert link.trouble == ""


def replace(house: House, label: str) -> int:
    """Put another certificate of ours in place; return its number."""
    certificate, key = house.authority.issue(label, SIDECAR)
    serial = x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number
    certificate.replace(house.files.certificate)
    key.replace(house.files.key)
    return serial


async def test_our_new_certificate_is_used_from_the_next_question_on(house: House) -> None:
    link = house.link(await house.serve(*house.authority.issue("decider", DECIDER, dns=("localhost",))))
    old = x509.load_pem_x509_certificate(house.files.certificate.read_bytes()).serial_number
    assert await link.beacon() is not None
    new = replace(house, "renewed")
    assert await link.beacon() is not None
    assert house.word.peers == [old, new]


async def asked(house: House, times: int) -> None:
    ends = time.monotonic() + 60
    while len(house.word.peers) < times:
        assert time.monotonic() < ends
        await asyncio.sleep(0.02)


async def test_a_question_that_is_open_when_the_certificate_changes_is_answered(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.decider_link.BEACON_TIMEOUT_S", 60.0)
    link = house.link(await house.serve(*house.authority.issue("decider", DECIDER, dns=("localhost",))))
    house.word.gate = asyncio.Event()
    before = asyncio.create_task(link.beacon())
    await asked(house, 1)
    replace(house, "renewed")
    after = asyncio.create_task(link.beacon())
    await asked(house, 2)
    house.word.gate.set()
    assert None not in await asyncio.gather(before, after)
    assert len(set(house.word.peers)) == 2


async def test_half_replaced_files_change_nothing_until_the_other_half_came(house: House) -> None:
    link = house.link(await house.serve(*house.authority.issue("decider", DECIDER, dns=("localhost",))))
    assert await link.beacon() is not None
    certificate, key = house.authority.issue("renewed", SIDECAR)
    renewed = x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number
    certificate.replace(house.files.certificate)
    assert await link.beacon() is not None
    key.replace(house.files.key)
    assert await link.beacon() is not None
    assert [serial == renewed for serial in house.word.peers] == [False, False, True]


INTRUDER = """
import socket, sys
one = socket.socket(socket.AF_UNIX)
one.connect("\\0" + sys.argv[1])
one.settimeout(30)
try:
    one.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n")
    print(one.recv(64))
except OSError as error:
    print(type(error).__name__)
"""


async def test_another_process_cannot_speak_with_our_certificate(house: House) -> None:
    port = await house.serve(*house.authority.issue("decider", DECIDER, dns=("localhost",)))
    address = f"localhost:{port}"
    relay = TlsRelay(address, house.files, DECIDER)
    link = DeciderLink(address, house.mint.audience, relay=relay, identity="")
    link.start()
    name = relay.target.partition(":")[2]
    intruder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", INTRUDER, name), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await intruder.communicate()
    assert said.split() in ([b"b''"], [b"ConnectionResetError"], [b"BrokenPipeError"])
    assert await link.beacon() is not None
    await link.close()


async def test_a_door_with_an_impostor_for_a_decider_is_not_ready_and_says_why(tmp_path: Path) -> None:
    house, rig = House(tmp_path / "house"), Rig(tmp_path / "rig")
    rig.publishing = False
    await rig.start(sidecars=0)
    port = await house.serve(*house.authority.issue("impostor", SIDECAR, dns=("localhost",)))
    certificate, key = house.authority.issue("own", SIDECAR, dns=("localhost",))
    settings = rig.settings(
        dev_identity=False,
        decider=f"localhost:{port}",
        tls_certificate_file=certificate,
        tls_key_file=key,
        tls_ca_file=house.authority.file,
    )
    sidecar = Sidecar(settings)
    try:
        await sidecar.start()
        await rig.until(lambda: SIDECAR in sidecar.reasons()["keys"], lambda: str(sidecar.reasons()), 60)
        assert sidecar.reasons()["beacon"].startswith("no connection to the decider: ")
        assert house.word.peers == []
        await house.stop()
        house._ending.clear()
        house.word = Decider(rig.mint)
        await house.serve(*house.authority.issue("decider", DECIDER, dns=("localhost",)), port=port)
        await rig.until(lambda: sidecar.reasons()["keys"] == "", lambda: str(sidecar.reasons()), 60)
    finally:
        with contextlib.suppress(Exception):
            await sidecar.stop()
        await house.stop()
        await rig.stop()
