"""The example's release on one node: what an operator brings to `helm install`, then what the charts say."""

import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
import yaml

from examples.refund.fin.v1.finance_pb2 import Amount, IssueRefundRequest
from licet.client import Client
from licet.client.exchange import Step
from licet.embedded.nats_accounts import AUDIT_WRITER, DECIDER, RECONCILER, SETUP, sidecar_user
from licet.embedded.nats_server import NatsServer
from licet.embedded.ports import free_port
from licet.embedded.process import Process, accepts_tcp
from licet.spend import reserve_payload
from licet.statement import PayloadType, SigningKey, canonical
from licet.streams import Publisher, connect, subject_spend
from tests.worlds.boxes import Box
from tests.worlds.certificates import Authority
from tests.worlds.charts import CHARTS, ROOT, Helm, Object
from tests.worlds.node import Api, Node, injected

ENVIRONMENT = "trial"
DOMAIN = "licet.local"
TOOL = "finance"
DOOR = "refund-example"
POLICY = ROOT / "examples" / "refund" / "policy"
HOOKS = ("keys", "streams", "migrate", "bundle")


@dataclass(frozen=True)
class Service:
    """A tool's chart and what its owner wrote.

    `agent` calls it, `image` is what lies in its image, `boxes` are the images where they were built.
    """

    tool: str = TOOL
    chart: str = DOOR
    policy: Path = POLICY
    agent: str = "refund-bot"
    image: Mapping[str, Path] = field(default_factory=dict)
    boxes: Mapping[str, Box] = field(default_factory=dict)


REFUND = Service()


class Cluster:
    """NATS, the ClickHouse front, a node, and the objects of both charts."""

    def __init__(
        self, helm: Helm, *, seed_bulk: int = 0, drain_s: int = 3, service: Service = REFUND
    ) -> None:
        self.service = service
        self.node = Node(service.image, service.boxes)
        self.authority = Authority(self.node.directory / "ca")
        self._agent = self.authority.issue("agent", f"spiffe://{DOMAIN}/{ENVIRONMENT}/agent/{service.agent}")
        self.nats = NatsServer(self.node.directory / "nats", environment=ENVIRONMENT, tools=[service.tool])
        self._front_port = free_port()
        self._password = self.node.directory / "clickhouse.password"
        self.front = self._make_front()
        self.api = self._make_api()
        self.node.injected = injected(self.api)
        self._values = self._write_values(seed_bulk, drain_s)
        self.licet = helm.render("licet", "-f", self._file("trial"), "-f", self._file("licet"))
        self.door = helm.render(service.chart, "-f", self._file(service.chart))

    # --- what an operator brings ---

    def prepare(self) -> None:
        """Servers, passwords, certificates, policy."""
        self.nats.start()
        self.front.start()
        self.node.serve(self.licet)
        self.node.serve(self.door)
        for user, secret in (
            (SETUP, "licet-nats-setup"),
            (DECIDER, "licet-nats-decider"),
            (AUDIT_WRITER, "licet-nats-audit-writer"),
            (RECONCILER, "licet-nats-reconciler"),
            (sidecar_user(self.service.tool), f"licet-nats-sidecar-{self.service.tool}"),
        ):
            self.node.store.put("secrets", secret, {"password": self.nats.password_file(user).read_bytes()})
        self.front.wait_ready()
        for user in ("migrate", "writer", "reconciler"):
            self.node.store.put(
                "secrets", f"licet-clickhouse-{user}", {"password": self._password.read_bytes()}
            )
        self._certificate("licet-decider-tls", "decider", self.node.services["licet"].ip)
        self._certificate("licet-reconciler-tls", "reconciler", "127.0.0.1")
        tool, door = self.service.tool, self.node.services[self.service.chart]
        self._certificate(f"licet-{tool}-tls", f"sidecar/{tool}", door.ip)
        policy = {file.name: file.read_bytes() for file in self.service.policy.iterdir() if file.is_file()}
        self.node.store.put("configmaps", "licet-policy", policy)
        self.node.store.put("configmaps", "licet-tasks", {"tasks.yaml": policy["tasks.yaml"]})

    def install(self) -> None:
        """Run the hooks in the order of their weights; between keys and bundle a person signs the catalog."""
        for name in HOOKS:
            self.hook(name)
            if name == "keys":
                self.publish_catalog()

    def hook(self, name: str) -> str:
        """Run one hook's job; returns what it said."""
        if name == "keys":
            (found,) = self._all(self.licet, "ConfigMap")
            self.node.store.put(
                "configmaps", found["metadata"]["name"], {k: v.encode() for k, v in found["data"].items()}
            )
        jobs = {one["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in self._jobs()}
        return self.node.run_job(jobs[name])

    def publish_catalog(self) -> None:
        """Sign the catalog as docs/operations.md says, and put it where both charts mount it."""
        key = self.node.store.get("secrets", "licet-publisher-keys")["catalog.key"]
        with tempfile.TemporaryDirectory() as name:
            directory, policy = Path(name), str(self.service.policy)
            (directory / "catalog.key").touch(mode=0o600)
            (directory / "catalog.key").write_bytes(key)
            out = directory / f"{self.service.tool}.catalog"
            subprocess.run(
                [sys.executable, "-m", "licet", "catalog", "build", "--policy", policy, "--key",
                 str(directory / "catalog.key"), "--out", str(out), "--environment", ENVIRONMENT,
                 "--trust-domain", DOMAIN],
                check=True, capture_output=True,
            )  # fmt: skip
            self.node.store.put("configmaps", f"{self.service.tool}-catalog", {out.name: out.read_bytes()})

    # --- what the charts say ---

    def workload(self, component: str) -> Object:
        """The Deployment or StatefulSet of a component."""
        objects = (*self.licet, *self.door)
        (found,) = [
            one
            for one in objects
            if one["kind"] in {"Deployment", "StatefulSet"}
            and one["metadata"]["labels"]["app.kubernetes.io/component"] == component
        ]
        return found

    def client(self) -> Client:
        """An agent with a certificate of its own; threads may make one each."""
        certificate, key = self._agent
        credentials = grpc.ssl_channel_credentials(
            self.authority.file.read_bytes(), key.read_bytes(), certificate.read_bytes()
        )
        return Client(
            decider=self._address("licet"),
            tools={self.service.tool: self._address(self.service.chart)},
            credentials=credentials,
        )

    async def leave_open(self, order_id: str, call_id: str) -> None:
        """Store a reserve as a door would have that died right after it, under a permit that ends at once.

        The decider decided it; only the permit's end is another: a test cannot wait for a permit's life.
        """
        request = IssueRefundRequest(order_id=order_id, amount=Amount(minor=100, currency="USD"))
        with self.client() as client:
            permitted = client.decide(
                Step("/fin.v1.Finance/IssueRefund", request.SerializeToString(), "task_789", call_id)
            )
        now_ms = time.time_ns() // 1_000_000
        decision = permitted.decision
        decision.not_after_ms = now_ms + 1_000
        payload = reserve_payload(
            environment=ENVIRONMENT,
            permit=self._key("licet-decider-keys", "decider").sign(PayloadType.PERMIT, canonical(decision)),
            attempt="a" * 32,
            sidecar=f"spiffe://{DOMAIN}/{ENVIRONMENT}/sidecar/{TOOL}",
            reserved_at_ms=now_ms,
            call_digest=decision.call_digest,
        )
        spend = self._key(f"licet-{TOOL}-sidecar-keys", f"spend-{TOOL}")
        record = spend.sign(PayloadType.SPEND, payload)
        nc = await connect(self.nats.settings(sidecar_user(TOOL)), "dead-sidecar")
        publisher = await Publisher.open(nc)
        subject = subject_spend(ENVIRONMENT, TOOL, decision.spend_id, decision.round, "reserve")
        await publisher.publish(subject, canonical(record), msg_id=os.urandom(16).hex())
        await publisher.close()
        await nc.close()

    def _key(self, secret: str, key_id: str) -> SigningKey:
        text = self.node.store.get("secrets", secret)[f"{key_id}.key"].decode()
        return SigningKey.from_seed(key_id, bytes.fromhex(text.strip()))

    def ask(self, sql: str) -> str:
        """Ask the audit store."""
        import clickhouse_connect

        client = clickhouse_connect.get_client(
            host="127.0.0.1",
            port=self._front_port,
            username="licet",
            password=self._password.read_text().strip(),
            connect_timeout=30,
        )
        try:
            return str(client.query(sql).result_rows)
        finally:
            client.close()

    @property
    def ledger(self) -> Path:
        return self.node.claim(f"{DOOR}-ledger") / "ledger.db"

    def __enter__(self) -> Self:
        """Prepare and install; whatever fails, nothing runs on."""
        try:
            self.prepare()
            self.install()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.node.close()
        self.front.stop()
        self.nats.stop()
        self.api.close()

    # --- small print ---

    def _address(self, service: str) -> str:
        one = self.node.services[service]
        return f"{one.ip}:{one.port}"

    def _jobs(self) -> list[Object]:
        return self._all(self.licet, "Job")

    @staticmethod
    def _all(objects: tuple[Object, ...], kind: str) -> list[Object]:
        return [one for one in objects if one["kind"] == kind]

    def _certificate(self, secret: str, path: str, ip: str) -> None:
        certificate, key = self.authority.issue(secret, f"spiffe://{DOMAIN}/{ENVIRONMENT}/{path}", ips=(ip,))
        files = {"tls.crt": certificate, "tls.key": key, "ca.crt": self.authority.file}
        self.node.store.put("secrets", secret, {name: file.read_bytes() for name, file in files.items()})

    def _make_front(self) -> Process:
        command = ("audit", "front", "--path", str(self.node.directory / "clickhouse"))
        return Process(
            "front",
            (sys.executable, "-m", "licet", *command, "--listen", f"127.0.0.1:{self._front_port}"),
            log=self.node.directory / "front.log",
            environment={"LICET_CLICKHOUSE_PASSWORD_FILE": str(self._password)},
            ready=lambda: accepts_tcp(self._front_port),
        )

    def _make_api(self) -> Api:
        certificate, key = self.authority.issue("api", ips=("127.0.0.1",))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.node.store.put("configmaps", "kube-root-ca.crt", {"ca.crt": self.authority.file.read_bytes()})
        return Api(self.node.store, context, self.node.token)

    def _write_values(self, seed_bulk: int, drain_s: int) -> Mapping[str, Mapping[str, Any]]:
        clickhouse = {
            name: {"name": "licet", "secret": f"licet-clickhouse-{name}"}
            for name in ("migrate", "writer", "reconciler")
        }
        values: dict[str, dict[str, Any]] = {
            "licet": {
                "environment": ENVIRONMENT,
                "trustDomain": DOMAIN,
                "nats": {"url": self.nats.url},
                "clickhouse": {"url": f"http://127.0.0.1:{self._front_port}", "users": clickhouse},
                "tools": {
                    self.service.tool: {
                        "address": f"{self.service.chart}.tools.svc:8443",
                        "catalog": f"{self.service.tool}-catalog",
                    },
                },
            },
            self.service.chart: {
                **({"seedBulk": seed_bulk} if seed_bulk else {}),
                "licet-sidecar": {
                    "decider": "licet:8443",
                    "environment": ENVIRONMENT,
                    "trustDomain": DOMAIN,
                    "nats": {"url": self.nats.url},
                    "drainSeconds": drain_s,
                    "preStopSeconds": 2,
                },
            },
        }
        trial = yaml.safe_load((CHARTS / "licet/ci/trial-values.yaml").read_text())
        values["trial"] = {name: value for name, value in trial.items() if name != "tools"}
        for chart, given in values.items():
            (self.node.directory / f"{chart}-values.yaml").write_text(yaml.safe_dump(given))
        return values

    def _file(self, chart: str) -> str:
        return str(self.node.directory / f"{chart}-values.yaml")
