"""Deciders as programs of their own, so that one can be killed; and what a door records, as it does."""

import asyncio
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from licet.embedded.process import on_a_leash
from licet.identity import TRUST_DOMAIN_DEV, sidecar_id
from licet.keyfile import read_signing_key
from licet.metadata import DEV_IDENTITY
from licet.spend import outcome_payload, reserve_payload
from licet.statement import PayloadType, canonical
from licet.streams import Publisher, subject_spend
from licet.v1 import decider_pb2, decider_pb2_grpc
from licet.v1.decision_pb2 import CODEC_PROTOBUF, Decision
from licet.v1.spend_pb2 import Outcome
from tests.worlds.decisions import ENV, REFUND, REFUND_BOT, Ground, refund

LICET = str(Path(sys.executable).with_name("licet"))
START_S = 240.0
"""A limit for hangs, not for speed: a loaded machine takes its time to start a program."""


@dataclass
class DeciderProgram:
    """`licet decider serve`, and a way to ask it."""

    process: "subprocess.Popen[bytes]"
    channel: grpc.aio.Channel
    stub: Any

    async def decide(self, call_id: str, body: bytes | None = None, *, task: str = "task_789") -> Any:
        request = decider_pb2.DecideRequest(
            method=REFUND,
            request=refund() if body is None else body,
            codec=CODEC_PROTOBUF,
            task_id=task,
            call_id=call_id,
        )
        return await self.stub.Decide(request, metadata=((DEV_IDENTITY, REFUND_BOT),), timeout=60)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()

    async def close(self) -> None:
        await self.channel.close()
        self.process.terminate()
        self.process.wait(60)


def _launched(environment: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as file:
        command = on_a_leash([LICET, "decider", "serve"])  # a run that is killed leaves no decider behind
        return subprocess.Popen(command, env=environment, stderr=file, stdout=file)


async def start_program(ground: Ground, finance_port: int, instance: str) -> DeciderProgram:
    """Start a decider and return when it listens."""
    port_file = ground.directory / f"port-{instance}"
    port_file.unlink(missing_ok=True)
    values = {
        "ENVIRONMENT": ENV,
        "INSTANCE": instance,
        "DEV_IDENTITY": "true",
        "PORT_FILE": port_file,
        "KEYS_DIR": ground.keys_dir,
        "ROOT_KEY_FILE": ground.keys_dir / "root.pub",
        "MASTER_KEY_FILE": ground.keys_dir / "master.key",
        "CATALOGS": ground.catalog,
        "TASKS_FILE": ground.policy / "tasks.yaml",
        "TOOLS": f"finance=127.0.0.1:{finance_port}",
        "NATS_URL": ground.nats.url,
        "NATS_USER": "decider",
        "NATS_PASSWORD_FILE": ground.nats.password_file("decider"),
        "SPOOL_DIR": ground.directory / f"spool-{instance}",
        "QUOTA_PER_SECOND": "100000",
        "QUOTA_BURST": "100000",
    }
    environment = {**os.environ, **{f"LICET_{name}": str(value) for name, value in values.items()}}
    process = _launched(environment, ground.directory / f"decider-{instance}.log")
    deadline = time.monotonic() + START_S
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError((ground.directory / f"decider-{instance}.log").read_text())
        await asyncio.sleep(0.02)
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port_file.read_text().strip()}")
    return DeciderProgram(process, channel, decider_pb2_grpc.DeciderServiceStub(channel))


class DoorRecords:
    """Writes what the finance tool's sidecar writes: reserves and outcomes, under its own key and user."""

    def __init__(self, ground: Ground, publisher: Publisher) -> None:
        self._key = read_signing_key(ground.keys_dir / "spend-finance.key")
        self._publisher = publisher
        self._sidecar = sidecar_id(TRUST_DOMAIN_DEV, ENV, "finance")

    async def _write(self, decision: Decision, record: str, payload: bytes) -> None:
        subject = subject_spend(ENV, "finance", decision.spend_id, decision.round, record)
        body = canonical(self._key.sign(PayloadType.SPEND, payload))
        await self._publisher.publish(subject, body, msg_id=secrets.token_hex(16), timeout=30)

    async def reserve(self, signed: Any, decision: Decision) -> None:
        """Use the step up."""
        payload = reserve_payload(
            environment=ENV,
            permit=signed,
            attempt="ab" * 16,
            sidecar=self._sidecar,
            reserved_at_ms=time.time_ns() // 1_000_000,
            call_digest=decision.call_digest,
        )
        await self._write(decision, "reserve", payload)

    async def outcome(self, decision: Decision, outcome: Outcome.ValueType) -> None:
        """Say how it ended."""
        payload = outcome_payload(
            environment=ENV,
            spend_id=decision.spend_id,
            round=decision.round,
            attempt="ab" * 16,
            outcome=outcome,
            sidecar=self._sidecar,
            recorded_at_ms=time.time_ns() // 1_000_000,
            status_code=0,
            decision_id=decision.decision_id,
        )
        await self._write(decision, "outcome", payload)
