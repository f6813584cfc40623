"""The reconciler asks a door to fence over mTLS, with real handshakes: who may, who may not."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from grpc import aio
from pydantic import ValidationError

from audit.judging.fence import CertificateFiles, FenceError, SidecarFencer
from audit.settings import AuditSettings
from licet.refusal import Refusal
from licet.v1.guard_pb2 import FENCE_STATE_VOIDED, FenceResponse
from licet.v1.statement_pb2 import Signed
from sidecar.entrance import tls
from sidecar.entrance.grpc_door import SERVER_OPTIONS, GrpcDoor, identify_certified
from sidecar.parts import Fenced
from tests.unit.sidecar.conftest import RECONCILER, World
from tests.worlds.certificates import Authority
from tests.worlds.mint import AGENT, Mint

pytestmark = pytest.mark.asyncio
TOOL = "finance"
SIDECAR = "spiffe://licet.local/dev/sidecar/finance"
RESERVE = Signed(payload=b"reserve", signature=b"s", key_id="k").SerializeToString()


class Rounds:
    """Closes every round it is asked about, and counts."""

    def __init__(self) -> None:
        self.closed = 0

    async def fence(self, body: bytes) -> Fenced | Refusal:
        self.closed += 1
        answer = FenceResponse(state=FENCE_STATE_VOIDED, spend_id="5" * 32).SerializeToString()
        return Fenced(answer=answer, spend_id="5" * 32, round=0, decision_id="d" * 32, outcome="VOIDED")


class House:
    """A door under mTLS; `ask` fences as whoever has the files."""

    def __init__(self, directory: Path) -> None:
        self.rounds = Rounds()
        world = World(Mint(directory))
        world.fences = self.rounds
        self.door = world.make_door()
        self.authority = Authority(directory / "ca")
        certificate, key = self.authority.issue("sidecar", SIDECAR, dns=("localhost",))
        self.files = tls.CertificateFiles(certificate, key, self.authority.file)

    async def start(self) -> None:
        self.server = aio.server(options=SERVER_OPTIONS)
        self.server.add_generic_rpc_handlers((GrpcDoor(self.door.handle, identify_certified),))
        self.port = self.server.add_secure_port("127.0.0.1:0", tls.server_credentials(self.files))
        await self.server.start()

    def as_door(self, *ids: str) -> None:
        """Take another certificate for the next connections."""
        self.authority.issue("sidecar", *ids, dns=("localhost",))

    def as_whom(self, label: str, *ids: str) -> CertificateFiles:
        return CertificateFiles(*self.authority.issue(label, *ids), self.authority.file)

    def fencer(
        self, files: CertificateFiles | None, *, claimed: str = "", host: str = "localhost"
    ) -> SidecarFencer:
        return SidecarFencer({TOOL: f"{host}:{self.port}"}, claimed, files, {TOOL: SIDECAR})

    async def ask(self, files: CertificateFiles | None, **given: str) -> int:
        fencer = self.fencer(files, **given)
        try:
            return (await fencer.fence(TOOL, RESERVE)).state
        finally:
            await fencer.close()


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path)
    await made.start()
    yield made
    await made.server.stop(0)


async def test_the_reconciler_fences_over_mtls(house: House) -> None:
    assert await house.ask(house.as_whom("reconciler", RECONCILER)) == FENCE_STATE_VOIDED
    assert house.rounds.closed == 1


@pytest.mark.parametrize("ids", [(AGENT,), (SIDECAR,), (RECONCILER, AGENT), ()])
async def test_a_certificate_of_anybody_else_closes_no_round(house: House, ids: tuple[str, ...]) -> None:
    with pytest.raises(FenceError, match="UNAUTHENTICATED"):
        await house.ask(house.as_whom("other", *ids), claimed=RECONCILER)
    assert house.rounds.closed == 0


async def test_without_a_certificate_no_round_is_closed(house: House) -> None:
    with pytest.raises(FenceError, match="UNAVAILABLE"):
        await house.ask(None, claimed=RECONCILER)
    assert house.rounds.closed == 0


async def test_the_reconciler_tells_its_records_to_no_door_of_another_authority(
    house: House, tmp_path: Path
) -> None:
    mine = house.as_whom("reconciler", RECONCILER)
    other = Authority(tmp_path / "other", "other")
    with pytest.raises(FenceError, match="UNAVAILABLE"):
        await house.ask(CertificateFiles(mine.chain, mine.key, other.file))
    with pytest.raises(FenceError, match="UNAVAILABLE"):  # the certificate names another host
        await house.ask(mine, host="127.0.0.1")
    assert house.rounds.closed == 0


@pytest.mark.parametrize("ids", [(AGENT,), (SIDECAR.replace("finance", "crm"),), (SIDECAR, AGENT), ()])
async def test_nobody_but_the_tools_door_is_told_of_a_round(house: House, ids: tuple[str, ...]) -> None:
    """Whoever answers there has the door's host name, by the same authority, and would say: closed."""
    mine = house.as_whom("reconciler", RECONCILER)
    house.as_door(*ids)
    with pytest.raises(FenceError, match="whoever answers there is"):
        await house.ask(mine)
    assert house.rounds.closed == 0
    house.as_door(SIDECAR)
    assert await house.ask(mine) == FENCE_STATE_VOIDED


async def test_a_certificate_that_was_replaced_is_used_from_the_next_question_on(house: House) -> None:
    files = house.as_whom("reconciler", AGENT)
    fencer = house.fencer(files)
    with pytest.raises(FenceError):
        await fencer.fence(TOOL, RESERVE)
    house.as_whom("reconciler", RECONCILER)
    assert (await fencer.fence(TOOL, RESERVE)).state == FENCE_STATE_VOIDED
    files.key.unlink()
    with pytest.raises(FenceError, match="No such file"):
        await fencer.fence(TOOL, RESERVE)
    await fencer.close()


TOLD = {"environment": "dev", "nats_url": "nats://127.0.0.1:1", "clickhouse_url": "http://127.0.0.1:1"}
FILES = {name: Path("/x") for name in ("tls_certificate_file", "tls_key_file", "tls_ca_file")}


async def test_settings_know_one_way_to_an_identity() -> None:
    assert AuditSettings(**TOLD, **FILES).certificate == CertificateFiles(Path("/x"), Path("/x"), Path("/x"))
    assert AuditSettings(**TOLD, dev_identity=True).certificate is None
    with pytest.raises(ValidationError, match="exclude one another"):
        AuditSettings(**TOLD, **FILES, dev_identity=True)
    with pytest.raises(ValidationError, match="needs all of"):
        AuditSettings(**TOLD, tls_key_file=Path("/x"))
