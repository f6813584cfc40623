"""Facts under mTLS, with real handshakes: read from the tool's own door, and asked of nobody else."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from decider.credentials import open_reader
from decider.decision.reader import ReadFailed
from decider.settings import DeciderSettings
from licet.identity import audience_of
from licet.tracing import TraceContext
from tests.worlds.certificates import Authority

pytestmark = pytest.mark.asyncio

DOMAIN, ENVIRONMENT, TOOL = "licet.local", "dev", "finance"
DECIDER = f"spiffe://{DOMAIN}/{ENVIRONMENT}/decider"
DOOR = f"spiffe://{DOMAIN}/{ENVIRONMENT}/sidecar/{TOOL}"
METHOD = "/fin.v1.Finance/GetOrder"
TRACE = TraceContext("ab" * 16, "cd" * 8)


class Doors:
    """Servers that answer every read, and keep what they were asked; `read` reads as the decider does."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "ca")
        self.asked: list[bytes] = []
        self._directory = directory
        self._ending: list[Any] = []

    async def serve(self, *uris: str, dns: tuple[str, ...] = ("localhost",)) -> int:
        async def answer(body: bytes, _context: Any) -> bytes:
            self.asked.append(body)
            return b"facts"

        certificate, key = self.authority.issue("door", *uris, dns=dns)
        server = grpc.aio.server()
        handler: Any = grpc.unary_unary_rpc_method_handler(answer)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("fin.v1.Finance", {"GetOrder": handler}),)
        )
        pairs = [(key.read_bytes(), certificate.read_bytes())]
        credentials = grpc.ssl_server_credentials(
            pairs, self.authority.file.read_bytes(), require_client_auth=True
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        self._ending.append(lambda: server.stop(0))
        return port

    async def read(self, port: int) -> bytes:
        chain, key = self.authority.issue("decider", DECIDER)
        nowhere = self._directory / "nowhere"
        settings = DeciderSettings(
            environment=ENVIRONMENT, trust_domain=DOMAIN, keys_dir=nowhere, root_key_file=nowhere,
            master_key_file=nowhere, catalogs=(), tasks_file=nowhere, nats_url="nats://127.0.0.1:1",
            spool_dir=nowhere, tools={TOOL: f"localhost:{port}"}, tls_certificate_file=chain,
            tls_key_file=key, tls_ca_file=self.authority.file,
        )  # fmt: skip
        reader = open_reader(settings, DECIDER)
        try:
            return await reader.read(
                audience_of(DOMAIN, ENVIRONMENT, TOOL), METHOD, b"which order", b"permit", TRACE
            )
        finally:
            await reader.close()

    async def stop(self) -> None:
        for ending in self._ending:
            await ending()


@pytest_asyncio.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Doors]:
    made = Doors(tmp_path)
    yield made
    await made.stop()


async def test_facts_come_from_the_tools_own_door(doors: Doors) -> None:
    assert await doors.read(await doors.serve(DOOR)) == b"facts"
    assert doors.asked == [b"which order"]


@pytest.mark.parametrize(
    ("uris", "dns"),
    [
        ((f"spiffe://{DOMAIN}/{ENVIRONMENT}/agent/refund-bot",), ("localhost",)),
        ((f"spiffe://{DOMAIN}/{ENVIRONMENT}/sidecar/crm",), ("localhost",)),
        ((f"spiffe://{DOMAIN}/staging/sidecar/{TOOL}",), ("localhost",)),
        ((DOOR, DECIDER), ("localhost",)),
        ((), ("localhost", DOOR)),
        ((DOOR,), ("elsewhere",)),
    ],
    ids=["an agent", "another tool's door", "another environment", "two ids", "no id", "another host"],
)
async def test_whoever_else_has_the_doors_host_name_is_asked_nothing(
    doors: Doors, uris: tuple[str, ...], dns: tuple[str, ...]
) -> None:
    """The attack: facts that an impostor makes up would permit what the tool's own would not."""
    with pytest.raises(ReadFailed):
        await doors.read(await doors.serve(*uris, dns=dns))
    assert doors.asked == []
    assert await doors.read(await doors.serve(DOOR)) == b"facts"
