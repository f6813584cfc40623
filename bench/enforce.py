"""What enforcement costs: the sidecar beside a bare grpc.aio proxy that verifies one signature.

Both stand in front of the same tool on the same Unix socket, both take callers over mTLS when asked to
(`--mtls`), each is a process of its own whose CPU is read from /proc. Rounds alternate between the two, so
that a busy machine slows both; read the ratios. Run: `python bench/enforce.py`.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
import nacl.signing
from grpc import aio

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from licet.v1 import decider_pb2_grpc  # noqa: E402 # after the path is set

REFUND = "/fin.v1.Finance/IssueRefund"
GET_ORDER = "/fin.v1.Finance/GetOrder"
TICKS = os.sysconf("SC_CLK_TCK")


# --- processes: `python bench/enforce.py tool|proxy ...`


class Echo(grpc.GenericRpcHandler):
    """A tool that answers at once, with its guard's word."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method.startswith("/licet.v1."):
            return None
        return grpc.unary_unary_rpc_method_handler(self.answer)

    async def answer(self, body: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("licet-effect", "executed"),))
        return body


async def serve_tool(socket: str) -> None:
    server = aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await server.wait_for_termination()


class Proxy(grpc.GenericRpcHandler):
    """The yardstick: verifies one Ed25519 signature over the permit's payload and forwards the caller's
    bytes.
    """

    def __init__(self, channel: aio.Channel, key: bytes) -> None:
        self._channel = channel
        self._key = nacl.signing.VerifyKey(key)
        self._methods: dict[str, Any] = {}

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        path = details.method

        async def forward(body: bytes, context: Any) -> bytes:
            permit = next(value for key, value in context.invocation_metadata() if key == "licet-permit-bin")
            self._key.verify(permit[:-64], permit[-64:])
            method = self._methods.get(path)
            if method is None:
                method = self._methods[path] = self._channel.unary_unary(path)
            return bytes(await method(body, metadata=(("licet-permit-bin", permit),)))

        return grpc.unary_unary_rpc_method_handler(forward)


def proxy_port(server: aio.Server, tls: list[str]) -> int:
    if not tls:
        return int(server.add_insecure_port("127.0.0.1:0"))
    certificate, private, authority = (Path(part).read_bytes() for part in tls)
    credentials = grpc.ssl_server_credentials([(private, certificate)], authority, require_client_auth=True)
    return int(server.add_secure_port("127.0.0.1:0", credentials))


async def serve_proxy(socket: str, port_file: str, key: str, tls: list[str]) -> None:
    server = aio.server()
    server.add_generic_rpc_handlers((Proxy(aio.insecure_channel(f"unix:{socket}"), bytes.fromhex(key)),))
    port = proxy_port(server, tls)
    await server.start()
    await asyncio.to_thread(Path(port_file).write_text, str(port))
    await server.wait_for_termination()


# --- measurement


@dataclass
class Sample:
    """One round of one target."""

    cpu_us: float
    p50_ms: float
    p99_ms: float
    per_second: float


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process and its waited-for children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def measure(pid: int, call: Callable[[int], Awaitable[None]], count: int, at_once: int) -> Sample:
    """Make `count` calls, `at_once` in flight, and say what they cost the process."""
    took: list[float] = []
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            begun = time.perf_counter()
            await call(number)
            took.append(time.perf_counter() - begun)

    cpu, begun = cpu_seconds(pid), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    spent, cpu = time.perf_counter() - begun, cpu_seconds(pid) - cpu
    took.sort()
    return Sample(
        cpu_us=cpu / count * 1e6,
        p50_ms=took[count // 2] * 1e3,
        p99_ms=took[count * 99 // 100] * 1e3,
        per_second=count / spent,
    )


class Bench:
    """Both targets up, and permits to spend."""

    def __init__(self, directory: Path, *, mtls: bool, workers: int) -> None:
        from tests.worlds.certificates import Authority
        from tests.worlds.rig import Rig

        self.directory = directory
        self.rig = Rig(directory)
        self.workers = workers
        self.mtls = mtls
        self.signer = nacl.signing.SigningKey.generate()
        self.authority = Authority(directory / "ca") if mtls else None
        self.processes: list[subprocess.Popen[bytes]] = []

    async def start(self) -> None:
        rig = self.rig
        rig.start_tool = lambda: self._spawn("tool", str(rig.socket))  # type: ignore[method-assign]
        rig.stop_tool = lambda: None  # type: ignore[method-assign]
        await rig.start(sidecars=0)
        await rig.until(rig.socket.exists)
        tls = self._certificates("proxy")
        port_file = self.directory / "proxy.port"
        key = self.signer.verify_key.encode().hex()
        self.proxy = self._spawn("proxy", str(rig.socket), str(port_file), key, *map(str, tls))
        await rig.until(port_file.exists)
        self.proxy_channel = self._channel(int(port_file.read_text()), "agent-proxy")
        await self._start_sidecar()

    async def _start_sidecar(self) -> None:
        from tests.integration.sidecar.test_process import environment_of

        changes: dict[str, Any] = {}
        if self.authority is not None:
            certificate, key, authority = self._certificates("sidecar")
            await self._serve_word_over_tls()
            changes = {
                "tls_certificate_file": certificate,
                "tls_key_file": key,
                "tls_ca_file": authority,
                "dev_identity": False,
                "decider": f"localhost:{self.word_port}",
            }
        port_file = self.directory / "sidecar.port"
        settings = self.rig.settings(port_file=port_file, workers=self.workers, quota_burst=10**9, **changes)
        environment = environment_of(settings)
        self.sidecar = self._spawn_sidecar(environment)
        await self.rig.until(port_file.exists, self._sidecar_log)
        self.sidecar_channel = self._channel(int(port_file.read_text()), "agent-sidecar")
        begun = time.monotonic()
        while time.monotonic() < begun + 10:
            with suppress(aio.AioRpcError):
                await self.enforced(self.refund_permits(1))(0)
                return
            await asyncio.sleep(0.1)
        raise SystemExit(self._sidecar_log())

    async def _serve_word_over_tls(self) -> None:
        """Let the sidecar reach the decider's word over mTLS, as it reaches a decider."""
        certificate, key, authority = self._certificates("decider")
        pair = [(key.read_bytes(), certificate.read_bytes())]
        credentials = grpc.ssl_server_credentials(pair, authority.read_bytes(), require_client_auth=True)
        self.word_server = aio.server()
        decider_pb2_grpc.add_DeciderServiceServicer_to_server(self.rig.word, self.word_server)
        self.word_port = self.word_server.add_secure_port("127.0.0.1:0", credentials)
        await self.word_server.start()

    def _spawn_sidecar(self, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        profile = os.environ.get("BENCH_PROFILE")
        command = [sys.executable, "-m", "licet", "sidecar", "serve"]
        if profile:
            command = [sys.executable, __file__, "profiled", profile]
        with (self.directory / "sidecar.log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stderr=log)
        self.processes.append(process)
        return process

    def _sidecar_log(self) -> str:
        return (self.directory / "sidecar.log").read_text()

    async def stop(self) -> None:
        if self.authority is not None:
            await self.word_server.stop(0)
        await self.proxy_channel.close()
        await self.sidecar_channel.close()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(30)
        await self.rig.stop()

    def _spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, __file__, *arguments])
        self.processes.append(process)
        return process

    def _certificates(self, name: str) -> tuple[Path, ...]:
        if self.authority is None:
            return ()
        uri = f"spiffe://licet.local/dev/{name}/finance"
        return (*self.authority.issue(name, uri, dns=("localhost",)), self.authority.file)

    def _channel(self, port: int, label: str) -> aio.Channel:
        from tests.worlds.mint import AGENT

        options = (("grpc.use_local_subchannel_pool", 1),)
        if self.authority is None:
            return aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        certificate, key = self.authority.issue(label, AGENT)
        credentials = grpc.ssl_channel_credentials(
            self.authority.file.read_bytes(), key.read_bytes(), certificate.read_bytes()
        )
        return aio.secure_channel(f"localhost:{port}", credentials, options=options)

    def refund_permits(self, count: int) -> list[bytes]:
        from tests.worlds.mint import refund

        body = refund().SerializeToString()
        return [self.rig.mint.permit(REFUND, body) for _ in range(count)]

    def enforced(self, permits: list[bytes]) -> Callable[[int], Awaitable[None]]:
        from tests.worlds.mint import AGENT, refund

        body = refund().SerializeToString()
        method = self.sidecar_channel.unary_unary(REFUND)
        identity = () if self.mtls else (("licet-dev-identity", AGENT),)

        async def call(number: int) -> None:
            await method(body, metadata=(*identity, ("licet-permit-bin", permits[number])))

        return call

    def read(self) -> Callable[[int], Awaitable[None]]:
        from tests.worlds.mint import AGENT

        body = b"\n\x02O1"
        permit = self.rig.mint.permit(GET_ORDER, body)
        method = self.sidecar_channel.unary_unary(GET_ORDER)
        identity = () if self.mtls else (("licet-dev-identity", AGENT),)

        async def call(_: int) -> None:
            await method(body, metadata=(*identity, ("licet-permit-bin", permit)))

        return call

    def refused(self, permit: bytes | None) -> Callable[[int], Awaitable[None]]:
        from tests.worlds.mint import AGENT, refund

        body = refund().SerializeToString()
        method = self.sidecar_channel.unary_unary(REFUND)
        identity = () if self.mtls else (("licet-dev-identity", AGENT),)
        pairs = identity if permit is None else (*identity, ("licet-permit-bin", permit))

        async def call(_: int) -> None:
            with suppress(aio.AioRpcError):
                await method(body, metadata=pairs)
                raise SystemExit("a call that must be refused passed")

        return call

    def proxied(self) -> Callable[[int], Awaitable[None]]:
        from tests.worlds.mint import refund

        body = refund().SerializeToString()
        payload = self.refund_permits(1)[0][:400]
        permit = payload + self.signer.sign(payload).signature
        method = self.proxy_channel.unary_unary(REFUND)

        async def call(_: int) -> None:
            await method(body, metadata=(("licet-permit-bin", permit),))

        return call


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    results: dict[str, dict[str, list[Sample]]] = {}
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), mtls=arguments.mtls, workers=arguments.workers)
        await bench.start()
        try:
            for at_once in (1, 32):
                await _warm(bench, at_once)
                for _ in range(arguments.rounds):
                    await _round(bench, results, at_once, arguments.calls)
        finally:
            await bench.stop()
    return _report(results, arguments)


async def _warm(bench: Bench, at_once: int) -> None:
    permits = bench.refund_permits(200)
    await measure(bench.proxy.pid, bench.proxied(), 200, at_once)
    await measure(bench.sidecar.pid, bench.enforced(permits), 200, at_once)


async def _round(bench: Bench, results: dict[str, dict[str, list[Sample]]], at_once: int, count: int) -> None:
    permits = bench.refund_permits(count)
    forged = bench.rig.mint.sign(bench.rig.mint.decision(), key="decider")
    at = forged.index(b"\x12\x40") + 2
    forged = forged[:at] + bytes(64) + forged[at + 64 :]
    targets = {
        "proxy": (bench.proxy.pid, bench.proxied()),
        "write": (bench.sidecar.pid, bench.enforced(permits)),
        "read": (bench.sidecar.pid, bench.read()),
        "no permit": (bench.sidecar.pid, bench.refused(None)),
        "bad signature": (bench.sidecar.pid, bench.refused(forged)),
    }
    for name, (pid, call) in targets.items():
        sample = await measure(pid, call, count, at_once)
        results.setdefault(f"C={at_once}", {}).setdefault(name, []).append(sample)
        await asyncio.sleep(0.05)


def _report(results: dict[str, dict[str, list[Sample]]], arguments: argparse.Namespace) -> dict[str, Any]:
    def median(samples: list[Sample], field: str) -> float:
        return statistics.median(getattr(sample, field) for sample in samples)

    table: dict[str, Any] = {}
    for at_once, targets in results.items():
        base = targets["proxy"]
        for name, samples in targets.items():
            table[f"{at_once} {name}"] = {
                "cpu_ratio": round(median(samples, "cpu_us") / median(base, "cpu_us"), 2),
                "cpu_us": round(median(samples, "cpu_us"), 1),
                "p50_ms": round(median(samples, "p50_ms"), 2),
                "p99_ms": round(median(samples, "p99_ms"), 2),
                "p50_added_ms": round(median(samples, "p50_ms") - median(base, "p50_ms"), 2),
                "p99_added_ms": round(median(samples, "p99_ms") - median(base, "p99_ms"), 2),
                "per_second": round(median(samples, "per_second")),
            }
    raw = {
        at: {name: [asdict(one) for one in list_] for name, list_ in by.items()} for at, by in results.items()
    }
    return {"settings": vars(arguments), "table": table, "raw": raw}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=400, help="calls of each kind in a round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; medians are reported")
    parser.add_argument("--mtls", action="store_true", help="callers come over mTLS")
    parser.add_argument("--workers", type=int, default=1, help="sidecar processes on one port")
    parser.add_argument("--json", type=Path, help="where to write the raw results")
    arguments = parser.parse_args()
    report = asyncio.run(run(arguments))
    print(f"{'':22}{'CPU':>7}{'us':>8}{'p50 ms':>8}{'p99 ms':>8}{'+p50':>7}{'+p99':>7}{'/s':>7}")
    for name, row in report["table"].items():
        print(
            f"{name:22}{row['cpu_ratio']:7.2f}{row['cpu_us']:8.0f}{row['p50_ms']:8.2f}{row['p99_ms']:8.2f}"
            f"{row['p50_added_ms']:7.2f}{row['p99_added_ms']:7.2f}{row['per_second']:7}"
        )
    if arguments.json:
        report["settings"]["json"] = ""
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def profiled(target: str) -> None:
    """Run the sidecar under cProfile; its statistics go to `target`."""
    import cProfile

    from sidecar.cli import app

    profile = cProfile.Profile()
    profile.enable()
    try:
        app(["serve"], standalone_mode=False)
    except BaseException as end:  # noqa: BLE001 # a profile of a run that ended badly is a profile too
        print(repr(end), file=sys.stderr)
    finally:
        profile.disable()
        profile.dump_stats(target)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tool", socket]:
            import uvloop

            uvloop.run(serve_tool(socket))
        case ["proxy", socket, port_file, key, *tls]:
            import uvloop

            uvloop.run(serve_proxy(socket, port_file, key, tls))
        case ["profiled", target]:
            profiled(target)
        case _:
            main()
