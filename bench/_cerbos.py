"""Cerbos beside us: the same checks by an engine that is known to be fast. It signs and records nothing.

The binary comes from the npm package `@cerbos/cerbos-linux-x64`, into a cache directory elsewhere.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from licet.embedded.ports import free_port

PACKAGE = "@cerbos/cerbos-linux-x64"
VERSION = "0.55.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "licet-bench"
SERVICE = "cerbos.svc.v1.CerbosService"

CONFIG = """
server: {{httpListenAddr: "127.0.0.1:{http}", grpcListenAddr: "127.0.0.1:{grpc}"}}
storage: {{driver: disk, disk: {{directory: "{policies}", watchForChanges: false}}}}
telemetry: {{disabled: true}}
audit: {{enabled: false}}
"""

DENIALS = (
    "R.attr.refund_allowed == false",
    "R.attr.tenant != P.attr.tenant",
    'R.attr.status != "paid"',
    "P.attr.currency != R.attr.currency",
    "P.attr.amount_minor < 1.0",
    "P.attr.amount_minor > R.attr.amount_minor - R.attr.refunded_minor",
    '"secret" in P.attr.risk_flags',
)
"""The forbids of the refund example, in the language of Cerbos."""


def binary() -> Path | None:
    """Return the binary, fetched once by npm; None where there is neither."""
    found = CACHE / "node_modules" / PACKAGE / "cerbos-linux-x64"
    npm = shutil.which("npm")
    if not found.exists() and npm is not None:
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(CACHE), "--no-audit", "--no-fund", f"{PACKAGE}@{VERSION}"]
        subprocess.run(command, check=False, capture_output=True, timeout=300)
    return found if found.exists() else None


def policy(count: int) -> str:
    """Return `count` rules: those of the refund example, then rules on other actions."""
    rules = [("refund", "ALLOW", 'P.id == "refund-bot"')]
    if count > 1:
        rules += [("read_order", "ALLOW", 'P.id == "refund-bot" || P.id == "support-bot"')]
        rules += [("refund", "DENY", condition) for condition in DENIALS]
    rules += [
        ("search_policy", "DENY", f"P.attr.amount_minor > {100_000 + number}.0")
        for number in range(count - len(rules))
    ]
    text = "apiVersion: api.cerbos.dev/v1\nresourcePolicy:\n  resource: order\n  version: default\n  rules:\n"
    for number, (action, effect, condition) in enumerate(rules):
        text += (
            f"    - {{actions: [{action}], effect: EFFECT_{effect}, roles: [agent], name: rule-{number},"
            f" condition: {{match: {{expr: '{condition}'}}}}}}\n"
        )
    return text


REQUEST: dict[str, Any] = {
    "requestId": "r",
    "principal": {
        "id": "refund-bot",
        "roles": ["agent"],
        "attr": {"tenant": "t1", "amount_minor": 5000, "currency": "USD", "risk_flags": []},
    },
    "resources": [
        {
            "actions": ["refund"],
            "resource": {
                "kind": "order",
                "id": "O1",
                "attr": {
                    "tenant": "t1",
                    "status": "paid",
                    "refund_allowed": True,
                    "amount_minor": 5000,
                    "refunded_minor": 0,
                    "currency": "USD",
                },
            },
        }
    ],
}


@dataclass
class Cerbos:
    """A running server and what its checks are made of."""

    pid: int
    port: int
    request: Any
    response_class: Any

    def client(self, channel: grpc.aio.Channel) -> Any:
        """Return a callable that makes one check and fails unless it is allowed."""
        call = channel.unary_unary(
            f"/{SERVICE}/CheckResources",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self.response_class.FromString,
        )

        async def check() -> None:
            answer = await call(self.request)
            assert answer.results[0].actions["refund"] == 1, answer  # EFFECT_ALLOW

        return check


@contextlib.contextmanager
def serving(executable: Path, directory: Path, count: int) -> Iterator[Cerbos]:
    """Run Cerbos with `count` rules."""
    policies = directory / "policies"
    policies.mkdir(parents=True)
    (policies / "order.yaml").write_text(policy(count))
    port = free_port()
    config = directory / "cerbos.yaml"
    config.write_text(CONFIG.format(http=free_port(), grpc=port, policies=policies))
    with (directory / "cerbos.log").open("wb") as log:
        process = subprocess.Popen(
            [str(executable), "server", f"--config={config}", "--log-level=error"], stdout=log, stderr=log
        )
    try:
        yield _described(process, port, directory / "cerbos.log")
    finally:
        process.terminate()
        process.wait(20)


def _described(process: subprocess.Popen[bytes], port: int, log: Path) -> Cerbos:
    """Learn the messages from the server itself, once it answers."""
    deadline = time.monotonic() + 30
    while True:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=1)
                pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
                method = pool.FindServiceByName(SERVICE).methods_by_name["CheckResources"]
                request = message_factory.GetMessageClass(method.input_type)()
                response = message_factory.GetMessageClass(method.output_type)
                break
            except (grpc.RpcError, grpc.FutureTimeoutError, KeyError):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(log.read_text()[-2000:]) from None
    return Cerbos(process.pid, port, json_format.ParseDict(REQUEST, request), response)
