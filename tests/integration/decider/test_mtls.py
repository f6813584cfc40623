"""mTLS: the certificate says who asks, and nothing else does."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from typer.testing import CliRunner

from licet.cli import app
from licet.metadata import DEV_IDENTITY
from licet.v1 import decider_pb2, decider_pb2_grpc
from licet.v1.decision_pb2 import CODEC_PROTOBUF, DECISION_TYPE_ALLOW
from tests.worlds.certificates import Authority
from tests.worlds.decisions import GET_ORDER, REFUND_BOT, SUPPORT_BOT, TYPES, Ground, House, furnish

pytestmark = pytest.mark.asyncio


@dataclass
class Wire:
    """A decider behind mTLS, and how to ask it with a certificate."""

    house: House
    authority: Authority

    async def ask(
        self,
        *uris: str,
        authority: Authority | None = None,
        claim: str = "",
        dns: tuple[str, ...] = ("client",),
        **fields: Any,
    ) -> Any:
        chain, secret = (authority or self.authority).issue("client", *uris, dns=dns)
        credentials = grpc.ssl_channel_credentials(
            self.authority.file.read_bytes(), secret.read_bytes(), chain.read_bytes()
        )
        asked = {
            "method": GET_ORDER,
            "request": bytes(TYPES("GetOrderRequest")(order_id="O1").SerializeToString()),
            "codec": CODEC_PROTOBUF,
            "task_id": "task_789",
            "call_id": "c1",
        } | fields
        metadata = ((DEV_IDENTITY, claim),) if claim else ()
        address = f"127.0.0.1:{self.house.process.port}"
        options = (("grpc.ssl_target_name_override", "localhost"),)
        async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
            stub: Any = decider_pb2_grpc.DeciderServiceStub(channel)
            return await stub.Decide(decider_pb2.DecideRequest(**asked), metadata=metadata, timeout=30)


@pytest_asyncio.fixture(params=["grpcio", "ngh2"])
async def wire(ground: Ground, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    authority = Authority(tmp_path)
    chain, secret = authority.issue("decider", "spiffe://licet.local/dev/decider", dns=("localhost",))
    house = await furnish(
        ground,
        dev_identity=False,
        tls_certificate_file=chain,
        tls_key_file=secret,
        tls_ca_file=authority.file,
        server=request.param,
    )
    yield Wire(house, authority)
    await house.close()


async def test_peer_is_the_one_uri_of_its_certificate(wire: Wire) -> None:
    response = await wire.ask(REFUND_BOT)
    assert response.decision == DECISION_TYPE_ALLOW
    assert wire.house.permit(response).caller == REFUND_BOT


async def test_claimed_identity_has_no_force_beside_a_certificate(wire: Wire) -> None:
    response = await wire.ask(SUPPORT_BOT, claim=REFUND_BOT)
    assert response.refusal.reason == "TASK_UNKNOWN"


@pytest.mark.parametrize("uris", [(), (REFUND_BOT, SUPPORT_BOT), ("https://example.com/x",)])
async def test_certificate_that_names_nobody_or_two_is_nobody(wire: Wire, uris: tuple[str, ...]) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await wire.ask(*uris)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_certificate_of_another_authority_gets_no_connection(wire: Wire, tmp_path: Path) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await wire.ask(REFUND_BOT, authority=Authority(tmp_path / "other"))
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_plain_connection_gets_no_answer(wire: Wire) -> None:
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{wire.house.process.port}")
    stub: Any = decider_pb2_grpc.DeciderServiceStub(channel)
    with pytest.raises(grpc.aio.AioRpcError):
        await stub.GetBeacon(decider_pb2.GetBeaconRequest(), timeout=3)
    await channel.close()


async def test_approvers_command_line_comes_over_mtls(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a certificate it is shown what waits; without one, or with half of what it takes, nothing."""
    chain, secret = wire.authority.issue("desk", "spiffe://licet.local/dev/desk")
    command = ["approvals", "list", "--json", "--decider", f"localhost:{wire.house.process.port}"]
    bare = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert bare.exit_code == 1
    monkeypatch.setenv("LICET_TLS_CERTIFICATE_FILE", str(chain))
    monkeypatch.setenv("LICET_TLS_KEY_FILE", str(secret))
    half = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert half.exit_code == 1
    assert "missing: LICET_TLS_CA_FILE" in half.output
    monkeypatch.setenv("LICET_TLS_CA_FILE", str(tmp_path / "none"))
    assert "cannot read" in (await asyncio.to_thread(CliRunner().invoke, app, command)).output
    monkeypatch.setenv("LICET_TLS_CA_FILE", str(wire.authority.file))
    shown = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert (shown.exit_code, shown.stdout.strip()) == (0, "[]"), shown.output


async def test_development_identity_and_tls_exclude_one_another(ground: Ground, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exclude one another"):
        ground.settings("", tls_certificate_file=tmp_path, tls_key_file=tmp_path, tls_ca_file=tmp_path)
    with pytest.raises(ValueError, match="callers would have no identity"):
        ground.settings("", dev_identity=False)
    with pytest.raises(ValueError, match="on loopback only"):
        ground.settings("", listen="0.0.0.0:0")
    with pytest.raises(ValueError, match="needs all of"):
        ground.settings("", tls_key_file=tmp_path)


async def test_a_spiffe_id_that_is_no_uri_of_the_certificate_names_nobody(wire: Wire) -> None:
    """Authorities that watch over URIs may sign any text as a host name."""
    for uris, dns in (((), (REFUND_BOT,)), ((REFUND_BOT, "urn:x"), ())):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await wire.ask(*uris, dns=dns)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert (await wire.ask(REFUND_BOT, dns=("https://client",))).decision == DECISION_TYPE_ALLOW
