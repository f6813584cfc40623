"""What enforcement costs: the sidecar beside a bare grpc.aio proxy that verifies one signature.

All stand in front of the same tool on the same Unix socket and take callers over mTLS, each a process of its
own whose CPU is read by its clock. Rounds alternate between them, so that a busy machine slows all. A ratio
is the median of the rounds' ratios; `least` is the ratio of the least that each took in any round, which load
disturbs less. Read the ratios, and the load beside them.

Run: `python bench/enforce.py [--quick] [--profile] [--against DIR] [--save]`.
"""

import argparse
import asyncio
import gc
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import licet.embedded  # noqa: F401, E402 - before grpc
from bench.enforcing.report import render, write_table  # noqa: E402 - as above
from bench.enforcing.shares import profile  # noqa: E402 - the repository comes first
from bench.enforcing.world import Call, Sample, Target, World, measure  # noqa: E402 - as above
from tests.worlds.mint import GET_ORDER, REFUND, SEARCH  # noqa: E402 - as above

RESULT: Final = ROOT / "bench" / "results" / "enforce.json"
AT_ONCE: Final = (1, 32, 64)
WARM_CALLS: Final = 150
YARDSTICK: Final = "proxy"

Samples = dict[str, dict[str, list[Sample]]]


class Bench:
    """One run: the targets, and the samples of every case."""

    def __init__(self, world: World, arguments: argparse.Namespace) -> None:
        self.world = world
        self.arguments = arguments
        self.samples: Samples = {}
        self.sidecars: dict[str, Target] = {}

    async def start(self) -> None:
        await self.world.start()
        self.sidecars[""] = await self.world.sidecar()
        self.sidecars["ngh2: "] = await self.world.sidecar(tool_client="ngh2")
        if not self.arguments.quick:
            self.sidecars["2 workers: "] = await self.world.sidecar(workers=2)
            collector = await self.world.collector()
            self.sidecars["spans sent: "] = await self.world.sidecar(otlp_endpoint=collector)
        if self.arguments.against:
            self.sidecars["before: "] = await self.world.sidecar(root=self.arguments.against.resolve())

    async def run(self) -> None:
        for at_once in AT_ONCE:
            for number in range(-1, self.arguments.rounds):
                calls = self.arguments.calls if number >= 0 else WARM_CALLS
                cases = await self._cases(calls)
                for name, (target, call) in cases.items():
                    gc.collect()  # of the callers, not in the middle of a sample
                    sample = await measure(target, call, calls, at_once)
                    if number >= 0:
                        self.samples.setdefault(f"C={at_once}", {}).setdefault(name, []).append(sample)
                    await asyncio.sleep(0.02)

    async def _cases(self, calls: int) -> dict[str, tuple[Target, Call]]:
        world = self.world
        cases: dict[str, tuple[Target, Call]] = {YARDSTICK: (world.proxy, world.proxied())}
        for prefix, target in self.sidecars.items():
            permits = await asyncio.to_thread(world.refund_permits, calls)
            every = {
                "read, tier 0": world.read(target, SEARCH),
                "read, tier 1": world.read(target),
                "write, tier 4": world.write(target, permits),
                "read on call": world.on_call(target, GET_ORDER),
                "write on call": world.on_call(target, REFUND),
                "no permit": world.refused(target, None),
                "bad signature": world.refused(target, world.forged()),
            }
            few = ("read, tier 1", "write, tier 4")
            cases |= {
                f"{prefix}{name}": (target, call) for name, call in every.items() if not prefix or name in few
            }
        return cases


def summary(samples: Samples) -> dict[str, dict[str, dict[str, float]]]:
    """Return medians over the rounds, and ratios to the yardstick: medians, and of the least of each."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for at_once, by_name in samples.items():
        base = by_name[YARDSTICK]
        for name, found in by_name.items():
            pairs = list(zip(found, base, strict=True))
            table.setdefault(at_once, {})[name] = {
                "cpu_ratio": round(median(one.cpu_us / other.cpu_us for one, other in pairs), 2),
                "cpu_least": round(min(one.cpu_us for one in found) / min(one.cpu_us for one in base), 2),
                "cpu_us": round(median(one.cpu_us for one in found), 1),
                "p50_ratio": round(median(one.p50_ms / other.p50_ms for one, other in pairs), 2),
                "p50_ms": round(median(one.p50_ms for one in found), 2),
                "p99_ms": round(median(one.p99_ms for one in found), 2),
                "p50_added_ms": round(median(one.p50_ms - other.p50_ms for one, other in pairs), 2),
                "p99_added_ms": round(median(one.p99_ms - other.p99_ms for one, other in pairs), 2),
                "per_second": round(median(one.per_second for one in found)),
            }
    return table


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    begun, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), mtls=not arguments.plain)
        bench = Bench(world, arguments)
        shares: dict[str, float] = {}
        try:
            await bench.start()
            await bench.run()
            if arguments.profile:
                shares = await profile(world, 4 * arguments.calls, 32)
        finally:
            await world.stop()
    return {
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "grpcio": version("grpcio"),
            "load_before": round(load, 2),
            "load_after": round(os.getloadavg()[0], 2),
        },
        "settings": {
            "calls": arguments.calls,
            "rounds": arguments.rounds,
            "mtls": not arguments.plain,
            "seconds": round(time.monotonic() - begun),
        },
        "table": summary(bench.samples),
        "profile": {name: round(share, 3) for name, share in shares.items()},
        "raw": {
            at_once: {name: [asdict(one) for one in found] for name, found in by_name.items()}
            for at_once, by_name in bench.samples.items()
        },
    }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, one worker: a minute")
    parser.add_argument("--calls", type=int, default=0, help="calls of each case in a round")
    parser.add_argument("--rounds", type=int, default=0, help="rounds; medians are reported")
    parser.add_argument("--plain", action="store_true", help="callers come without TLS")
    parser.add_argument("--profile", action="store_true", help="say where a write's CPU goes")
    parser.add_argument("--against", type=Path, help="another checkout whose sidecar is measured beside")
    parser.add_argument("--json", type=Path, help="where to write everything")
    parser.add_argument(
        "--save", action="store_true", help="write bench/results and the table of docs/sidecar.md"
    )
    arguments = parser.parse_args()
    arguments.calls = arguments.calls or (100 if arguments.quick else 300)
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 9)
    return arguments


def main() -> None:
    arguments = parsed()
    report = asyncio.run(run(arguments))
    print(render(report))
    text = json.dumps(report, indent=1) + "\n"
    if arguments.json:
        arguments.json.write_text(text)
    if arguments.save:
        RESULT.write_text(text)
        write_table(report)


if __name__ == "__main__":
    main()
