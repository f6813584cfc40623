"""Yardstick and sidecars up before one tool, calls of every kind to them, and what a call costs each."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import nacl.signing
from grpc import aio

from examples.refund.fin.v1 import finance_pb2
from licet.v1 import decider_pb2, decider_pb2_grpc, decision_pb2
from licet.v1.statement_pb2 import Signed
from tests.integration.sidecar.test_process import environment_of
from tests.worlds.certificates import Authority
from tests.worlds.mint import AGENT, GET_ORDER, REFUND, SEARCH, refund
from tests.worlds.rig import Rig

ROOT = Path(__file__).parents[2]
PROCESSES = Path(__file__).with_name("processes.py")
CONNECTIONS = 8
"""From the callers to each target when many calls are in flight: workers share connections, not calls."""
READY_S = 30.0

Call = Callable[[int], Awaitable[None]]


@dataclass
class Sample:
    """One round of one target."""

    cpu_us: float
    p50_ms: float
    p99_ms: float
    per_second: float


@dataclass
class Target:
    """A process under measurement, with those it started, and the connections to it."""

    process: subprocess.Popen[bytes]
    channels: list[aio.Channel]

    def pids(self) -> list[int]:
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def cpu_seconds(self) -> float:
        """User and system time so far; a process's clock is `~pid << 3 | 2` (clock_getcpuclockid)."""
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in self.pids())

    def thread_seconds(self) -> dict[str, float]:
        """CPU time so far by name of thread; threads of one name together."""
        found: dict[str, float] = {}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            name = "main" if task.name == str(self.process.pid) else (task / "comm").read_text().strip()
            spent = int((task / "schedstat").read_text().split()[0]) / 1e9
            found[name] = found.get(name, 0.0) + spent
        return found


async def measure(target: Target, call: Call, count: int, at_once: int) -> Sample:
    """Make `count` calls, `at_once` in flight, and say what they cost the target."""
    took: list[float] = []
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            begun = time.perf_counter()
            await call(number)
            took.append(time.perf_counter() - begun)

    cpu, begun = target.cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    spent, cpu = time.perf_counter() - begun, target.cpu_seconds() - cpu
    took.sort()
    return Sample(
        cpu_us=cpu / count * 1e6,
        p50_ms=took[count // 2] * 1e3,
        p99_ms=took[count * 99 // 100] * 1e3,
        per_second=count / spent,
    )


class World:
    """The rig's NATS and beacons, an echoing tool, a decider's word, the yardstick; sidecars by `sidecar`."""

    def __init__(self, directory: Path, *, mtls: bool) -> None:
        self.directory = directory
        self.rig = Rig(directory)
        on_call = {"decide_on_call": True}
        self.rig.mint.write_catalog(
            IssueRefund=on_call, GetOrder=on_call, SearchPolicy={"decide_on_call": False}
        )
        self.mint = self.rig.mint
        self.mtls = mtls
        self.signer = nacl.signing.SigningKey.generate()
        self.authority = Authority(directory / "ca") if mtls else None
        self.processes: list[subprocess.Popen[bytes]] = []
        self.targets: list[Target] = []
        self.word_server: aio.Server | None = None
        self._files = 0
        self._keep_keys()

    def _keep_keys(self) -> None:
        """Read the mint's files once: a benchmark's callers should not be the slow part."""
        mint, keys, methods = self.mint, {}, {}
        for name in ("decider", "beacon", "catalog", "root"):
            keys[name] = mint.key(name)
        for path in (REFUND, GET_ORDER, SEARCH):
            methods[path] = mint.method(path)
        mint.key = keys.__getitem__  # type: ignore[method-assign]
        mint.method = methods.__getitem__  # type: ignore[method-assign]

    async def start(self) -> None:
        rig = self.rig
        rig.start_tool = lambda: self._spawn("tool", str(rig.socket))  # type: ignore[assignment, method-assign]
        rig.stop_tool = lambda: None  # type: ignore[method-assign]
        rig.word.decide = self._decide
        await rig.start(sidecars=0)
        await rig.until(rig.socket.exists)
        self.word_port = rig.decider_port
        if self.authority is not None:
            await self._serve_word_over_tls()
        port_file = self._file("port")
        key = self.signer.verify_key.encode().hex()
        process = self._spawn(
            "proxy", str(rig.socket), str(port_file), key, *map(str, self._files_of("proxy"))
        )
        await rig.until(port_file.exists, within_s=READY_S)
        self.proxy = self._target(process, int(port_file.read_text()))

    async def sidecar(
        self, *, workers: int = 1, root: Path = ROOT, profile: Path | None = None, **changes: Any
    ) -> Target:
        """Start a sidecar of the checkout at `root`; returns once a refund passed it."""
        if self.authority is not None:
            certificate, key, authority = self._files_of("sidecar")
            changes |= {
                "tls_certificate_file": certificate,
                "tls_key_file": key,
                "tls_ca_file": authority,
                "dev_identity": False,
                "decider": f"localhost:{self.word_port}",
            }
        port_file, log_file = self._file("port"), self._file("log")
        settings = self.rig.settings(
            port_file=port_file, workers=workers, quota_per_second=1e9, quota_burst=10**9, **changes
        )
        command = [sys.executable, "-m", "licet", "sidecar", "serve"]
        if profile is not None:
            command = [sys.executable, str(PROCESSES), "profiled", str(profile)]
        environment = environment_of(settings) | {"PYTHONPATH": str(root)}
        process = self._run(command, environment, root, log_file)
        await self.rig.until(port_file.exists, log_file.read_text, within_s=READY_S)
        target = self._target(process, int(port_file.read_text()))
        for channel in target.channels:  # each may lead to another worker
            await self._until_it_passes(Target(process, [channel]), log_file)
        return target

    async def collector(self) -> str:
        """Start a collector of spans and return its endpoint."""
        port_file = self._file("port")
        self._spawn("collector", str(port_file))
        await self.rig.until(port_file.exists, within_s=READY_S)
        return f"http://127.0.0.1:{port_file.read_text()}"

    async def _until_it_passes(self, target: Target, log_file: Path) -> None:
        begun, last = time.monotonic(), ""
        while time.monotonic() < begun + READY_S:
            try:
                await self.write(target, self.refund_permits(1))(0)
                return
            except aio.AioRpcError as error:
                last = str(error.details())
            await asyncio.sleep(0.1)
        raise SystemExit(f"no call passes: {last}, see {log_file}")

    async def stop(self) -> None:
        for target in self.targets:
            for channel in target.channels:
                await channel.close()
        if self.word_server is not None:
            await self.word_server.stop(0)
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            await asyncio.to_thread(process.wait, 60)
        await self.rig.stop()

    # --- calls

    def refund_permits(self, count: int) -> list[bytes]:
        """Permits for as many steps."""
        body = refund().SerializeToString()
        return [self.mint.permit(REFUND, body) for _ in range(count)]

    def write(self, target: Target, permits: list[bytes]) -> Call:
        """Refunds, one for each permit."""
        body = refund().SerializeToString()
        pairs = [self._pairs(("licet-permit-bin", permit)) for permit in permits]
        return self._call(target, REFUND, body, pairs.__getitem__)

    def read(self, target: Target, path: str = GET_ORDER) -> Call:
        """Reads, with one permit for all."""
        body = b"\n\x02O1" if path == GET_ORDER else b""
        pairs = self._pairs(("licet-permit-bin", self.mint.permit(path, body)))
        return self._call(target, path, body, lambda _: pairs)

    def on_call(self, target: Target, path: str) -> Call:
        """Calls without a permit, for which the sidecar asks the decider."""
        body = refund().SerializeToString() if path == REFUND else b"\n\x02O1"
        begun = time.time_ns()

        def pairs(number: int) -> Any:
            return self._pairs(("licet-task-id", "task_789"), ("licet-call-id", f"{begun}-{number}"))

        return self._call(target, path, body, pairs)

    def refused(self, target: Target, permit: bytes | None) -> Call:
        """Calls that must not pass: a refund with a bad permit, or a search with none."""
        pairs = self._pairs(*(() if permit is None else (("licet-permit-bin", permit),)))
        path, body = (REFUND, refund().SerializeToString()) if permit is not None else (SEARCH, b"")
        call = self._call(target, path, body, lambda _: pairs)

        async def refused(number: int) -> None:
            with suppress(aio.AioRpcError):
                await call(number)
                raise SystemExit("a call that must be refused passed")

        return refused

    def forged(self) -> bytes:
        """A permit whose signature is none."""
        permit = self.mint.permit(REFUND, refund().SerializeToString())
        at = permit.index(b"\x12\x40") + 2
        return permit[:at] + bytes(64) + permit[at + 64 :]

    def proxied(self) -> Call:
        """Refunds through the yardstick, with a permit of the same size."""
        payload = self.refund_permits(1)[0][:-64]
        pairs = (("licet-permit-bin", payload + self.signer.sign(payload).signature),)
        return self._call(self.proxy, REFUND, refund().SerializeToString(), lambda _: pairs)

    def _call(self, target: Target, path: str, body: bytes, pairs: Callable[[int], Any]) -> Call:
        methods = [channel.unary_unary(path) for channel in target.channels]

        async def call(number: int) -> None:
            await methods[number % len(methods)](body, metadata=pairs(number))

        return call

    def _pairs(self, *pairs: tuple[str, Any]) -> tuple[tuple[str, Any], ...]:
        return pairs if self.mtls else (("licet-dev-identity", AGENT), *pairs)

    # --- parts

    async def _decide(self, request: Any, _context: Any) -> Any:
        """Allow, as a decider would that takes no time to think."""
        body = request.request
        if request.method == REFUND:
            finance_pb2.IssueRefundRequest.FromString(body)
        permit = self.mint.permit(request.method, body, call_id=request.call_id, task_id=request.task_id)
        return decider_pb2.DecideResponse(
            decision=decision_pb2.DECISION_TYPE_ALLOW, signed=Signed.FromString(permit)
        )

    async def _serve_word_over_tls(self) -> None:
        """Let the sidecar reach the decider's word over mTLS, as it reaches a decider."""
        certificate, key, authority = self._files_of("decider")
        pair = [(key.read_bytes(), certificate.read_bytes())]
        credentials = grpc.ssl_server_credentials(pair, authority.read_bytes(), require_client_auth=True)
        self.word_server = aio.server()
        decider_pb2_grpc.add_DeciderServiceServicer_to_server(self.rig.word, self.word_server)
        self.word_port = self.word_server.add_secure_port("127.0.0.1:0", credentials)
        await self.word_server.start()

    def _spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen([sys.executable, str(PROCESSES), *arguments], env=environment)
        self.processes.append(process)
        return process

    def _run(
        self, command: list[str], environment: dict[str, str], root: Path, log_file: Path
    ) -> subprocess.Popen[bytes]:
        with log_file.open("wb") as log:
            process = subprocess.Popen(command, env=environment, cwd=root, stderr=log)
        self.processes.append(process)
        return process

    def _file(self, kind: str) -> Path:
        self._files += 1
        return self.directory / f"{self._files}.{kind}"

    def _files_of(self, name: str) -> tuple[Path, ...]:
        """Certificate, key and authority of a part; nothing without TLS."""
        if self.authority is None:
            return ()
        uri = f"spiffe://licet.local/dev/{name}" + ("" if name == "decider" else "/finance")
        return (*self.authority.issue(name, uri, dns=("localhost",)), self.authority.file)

    def _target(self, process: subprocess.Popen[bytes], port: int) -> Target:
        target = Target(process, [self._channel(port, number) for number in range(CONNECTIONS)])
        self.targets.append(target)
        return target

    def _channel(self, port: int, number: int) -> aio.Channel:
        options = (("grpc.use_local_subchannel_pool", 1),)
        if self.authority is None:
            return aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        certificate, key = self.authority.issue(f"agent-{port}-{number}", AGENT)
        credentials = grpc.ssl_channel_credentials(
            self.authority.file.read_bytes(), key.read_bytes(), certificate.read_bytes()
        )
        return aio.secure_channel(f"localhost:{port}", credentials, options=options)
