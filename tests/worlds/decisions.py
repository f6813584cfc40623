"""A real decider on a real NATS server, with the refund example's policy; only the tool behind it is ours."""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from decider.catalog.build import build_catalog
from decider.catalog.descriptors import Descriptors
from decider.catalog.tools import read_tools
from decider.in_force.activate import Activation, activate
from decider.policy.bundle import read_bundle_source
from decider.process import DeciderProcess
from decider.settings import DeciderSettings
from licet.embedded.nats_server import NatsServer
from licet.identity import TRUST_DOMAIN_DEV, agent_id, decider_id
from licet.keyfile import read_signing_key
from licet.keys import KeySet
from licet.metadata import DEV_IDENTITY, PERMIT
from licet.permit import verify_permit
from licet.refusal import Refusal
from licet.statement import PayloadType, canonical
from licet.streams import EMBEDDED_SIZES, apply_streams, connect
from licet.v1 import decider_pb2, decider_pb2_grpc
from licet.v1.decision_pb2 import CODEC_PROTOBUF, Decision

ENV = "dev"
POLICY = Path(__file__).parents[2] / "examples" / "refund" / "policy"
APPROVERS = {
    "lena": ("finance-lead",),
    "omar": ("finance-lead", "fx-desk"),
    "ines": ("auditor",),
    "ana@t1.example.com": ("finance-lead",),
}
"""Who may approve in which roles; ana is the principal of task_789."""
REFUND = "/fin.v1.Finance/IssueRefund"
GET_ORDER = "/fin.v1.Finance/GetOrder"
REFUND_BOT = agent_id(TRUST_DOMAIN_DEV, ENV, "refund-bot")
SUPPORT_BOT = agent_id(TRUST_DOMAIN_DEV, ENV, "support-bot")


@dataclass
class Ground:
    """NATS, keys and policy: what a decider stands on."""

    directory: Path
    nats: NatsServer
    keys: KeySet
    policy: Path

    @property
    def keys_dir(self) -> Path:
        return self.directory / "keys"

    @property
    def catalog(self) -> Path:
        return self.directory / "finance.catalog"

    def build_catalog(self) -> None:
        descriptors = Descriptors((self.policy / "descriptors.binpb").read_bytes())
        payload = build_catalog(
            read_tools(self.policy / "tools.yaml"),
            descriptors,
            environment=ENV,
            trust_domain=TRUST_DOMAIN_DEV,
        )
        key = read_signing_key(self.keys_dir / "catalog.key")
        self.catalog.write_bytes(canonical(key.sign(PayloadType.CATALOG, payload)))

    async def activate(self, directory: Path | None = None, *, key: str = "bundle") -> str:
        payload = read_bundle_source(directory or self.policy, environment=ENV)
        signed = read_signing_key(self.keys_dir / f"{key}.key").sign(PayloadType.BUNDLE, payload)
        wanted = Activation(signed, self.keys_dir / "keyset.signed", self.keys_dir / "root.pub", ENV)
        return await activate(wanted, self.nats.settings("setup"))

    def settings(self, tools: str, **more: Any) -> DeciderSettings:
        own = {"listen": "127.0.0.1:0", "dev_identity": True, "spool_dir": self.directory / "spool"}
        values: dict[str, Any] = own | more
        return DeciderSettings(
            environment=ENV,
            keys_dir=self.keys_dir,
            root_key_file=self.keys_dir / "root.pub",
            master_key_file=self.keys_dir / "master.key",
            catalogs=(self.catalog,),
            tasks_file=self.policy / "tasks.yaml",
            tools=tools,
            nats_url=self.nats.url,
            nats_user="decider",
            nats_password_file=self.nats.password_file("decider"),
            **values,
        )


@dataclass
class Finance:
    """The finance tool read side as its sidecar shows it: verifies the permit, answers GetOrder."""

    keys: KeySet
    orders: dict[str, dict[str, Any]] = field(default_factory=dict)
    permits: list[Decision] = field(default_factory=list)
    answer: bytes | None = None
    says: str = "no such order"
    may_answer: asyncio.Event | None = None
    port: int = 0
    server: Any = None
    types: Any = None

    async def _get_order(self, body: bytes, context: Any) -> bytes:
        metadata = list(context.invocation_metadata())
        permits = [value for key, value in metadata if key == PERMIT]
        peers = [value for key, value in metadata if key == DEV_IDENTITY]
        assert len(permits) == 1
        decision = verify_permit(permits[0], self.keys, now_ms=time.time_ns() // 1_000_000)
        assert not isinstance(decision, Refusal), decision
        assert peers == [decision.caller] == [decider_id(TRUST_DOMAIN_DEV, ENV)]
        self.permits.append(decision)
        if self.may_answer is not None:
            await self.may_answer.wait()
        if self.answer is not None:
            return self.answer
        order = self.orders.get(self.types("GetOrderRequest").FromString(body).order_id)
        if order is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, self.says)
        return bytes(self.types("GetOrderResponse")(**order).SerializeToString())

    async def start(self) -> None:
        self.server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(self._get_order)
        generic = grpc.method_handlers_generic_handler("fin.v1.Finance", {"GetOrder": handler})
        self.server.add_generic_rpc_handlers((generic,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()


def finance_types() -> Any:
    """Message classes of the example, from the descriptors that its catalog pins."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString((POLICY / "descriptors.binpb").read_bytes())
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"fin.v1.{name}"))


TYPES = finance_types()


def refund(order_id: str = "O1", minor: int = 5000, currency: str = "USD") -> bytes:
    message = TYPES("IssueRefundRequest")(order_id=order_id)
    message.amount.minor, message.amount.currency = minor, currency
    return bytes(message.SerializeToString())


def order(order_id: str = "O1", **changes: Any) -> dict[str, Any]:
    values = {
        "order_id": order_id,
        "tenant": "t1",
        "status": "paid",
        "version": 1,
        "refund_allowed": True,
        "amount_minor": 5000,
        "currency": "USD",
        "refunded_minor": 0,
    }
    return {**values, **changes}


@dataclass
class House:
    """A running decider and a way to ask it."""

    ground: Ground
    process: DeciderProcess
    finance: Finance
    channel: grpc.aio.Channel
    stub: Any

    async def decide(self, body: bytes | None = None, *, peer: str = REFUND_BOT, **fields: Any) -> Any:
        asked = {
            "method": REFUND,
            "request": refund() if body is None else body,
            "codec": CODEC_PROTOBUF,
            "task_id": "task_789",
            "call_id": "call-1",
        } | fields
        metadata = ((DEV_IDENTITY, peer),) if peer else ()
        return await self.stub.Decide(decider_pb2.DecideRequest(**asked), metadata=metadata, timeout=60)

    async def close(self) -> None:
        await self.channel.close()
        await self.process.stop()
        await self.finance.server.stop(0)

    def permit(self, response: Any) -> Decision:
        decision = verify_permit(response.signed, self.ground.keys, now_ms=time.time_ns() // 1_000_000)
        assert not isinstance(decision, Refusal), decision
        return decision

    async def events(self) -> list[Any]:
        """Every event of the audit stream, in order; those on their way are waited for."""
        from licet.streams import read_seq, stream_audit, stream_info
        from licet.v1.event_pb2 import Event

        async with asyncio.timeout(60):
            while self.process._journal.depth:  # noqa: ASYNC110 - the queue's doing
                await asyncio.sleep(0.005)
        nc = await connect(self.ground.nats.settings("audit-writer"), "test")
        try:
            info = await stream_info(nc, stream_audit(ENV))
            assert info is not None
            stored = [
                await read_seq(nc, stream_audit(ENV), seq) for seq in range(1, info["state"]["last_seq"] + 1)
            ]
        finally:
            await nc.close()
        return [Event.FromString(message.data) for message in stored if message is not None]

    async def decisions(self, call_id: str = "call-1") -> list[Any]:
        return [e for e in await self.events() if e.kind.startswith("decision.") and e.call_id == call_id]


async def start_house(ground: Ground, finance: Finance, **more: Any) -> House:
    process = DeciderProcess(ground.settings(f"finance=127.0.0.1:{finance.port}", **more))
    await process.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{process.port}")
    stub = decider_pb2_grpc.DeciderServiceStub(channel)
    if "tls_certificate_file" not in more:
        await first_beacon(stub)
    return House(ground, process, finance, channel, stub)


async def first_beacon(stub: Any) -> None:
    """Wait until the decider says what is current: it listens a moment before."""
    deadline = time.monotonic() + 60
    while True:
        try:
            await stub.GetBeacon(decider_pb2.GetBeaconRequest(), timeout=10)
            return
        except grpc.aio.AioRpcError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.02)


async def furnish(ground: Ground, **more: Any) -> House:
    """Make streams, activate the bundle, start the tool's read side and the decider."""
    nc = await connect(ground.nats.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
    await nc.close()
    await ground.activate()
    finance = Finance(ground.keys, {"O1": order(), "O3": order("O3", refund_allowed=False)}, types=TYPES)
    await finance.start()
    return await start_house(ground, finance, **more)
