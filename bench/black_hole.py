"""What a collector that takes everything and never answers costs callers: their latency over that without.

Real sidecar processes on real transports, asked by turns, one call each, so that whatever else this machine
does hits all alike: `off` (no telemetry), `again` (the same: how far two equal doors differ here), `answers`
(spans and metrics to a collector that takes them), `silent` (both to one that accepts and says nothing). Each
is a read: verified, forwarded to the tool, recorded, its spans handed over.

Run: `python bench/black_hole.py [--seconds N] [--json]`; writes bench/results/black_hole.json with `--save`.
The exit status is 1 where `silent` is above 1.1 × `off` or `answers`, at p50 or p99, by more than two equal
doors differ: on a busy machine a p99 says little, and `again/off` says how little.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import licet.embedded  # noqa: F401, E402 - before grpc
from bench.tracing import read  # noqa: E402 - the repository comes first
from licet.embedded.otlp_receiver import OtlpReceiver  # noqa: E402 - as above
from licet.embedded.trace_store import TraceStore  # noqa: E402 - as above
from tests.integration.sidecar.test_process import Served  # noqa: E402 - as above
from tests.integration.test_black_hole import BlackHole  # noqa: E402 - as above
from tests.worlds.rig import Rig  # noqa: E402 - as above

MAX_RATIO = 1.1
WARM = 200
RESULT = ROOT / "bench" / "results" / "black_hole.json"


async def run(seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(Path(directory))
        await rig.start(sidecars=0)
        store = TraceStore(Path(directory) / "traces.db")
        receiver, hole = OtlpReceiver(store), BlackHole()
        receiver.start()
        ways: dict[str, dict[str, Any]] = {
            "off": {},
            "again": {},
            "answers": {"otlp_endpoint": receiver.endpoint, "metrics_endpoint": receiver.endpoint},
            "silent": {"otlp_endpoint": hole.endpoint, "metrics_endpoint": hole.endpoint},
        }
        try:
            doors = {name: await Served.start(rig, **settings) for name, settings in ways.items()}
            times = await by_turns(rig, doors, seconds)
            assert hole.taken, "the silent collector was asked"
        finally:
            await rig.stop()
            receiver.stop()
            store.close()
            hole.close()
    return figures(times, seconds)


async def by_turns(rig: Rig, doors: dict[str, Served], seconds: float) -> dict[str, list[float]]:
    """Ask the doors by turns, in a new order each time; return each call's ms at the caller."""
    times: dict[str, list[float]] = {name: [] for name in doors}
    names, end, turn = list(doors), time.monotonic() + seconds, 0
    while time.monotonic() < end or turn <= WARM:
        random.shuffle(names)
        for name in names:
            started = time.perf_counter()
            said = await read(rig, doors[name])
            assert said == "passed", said
            if turn >= WARM:
                times[name].append((time.perf_counter() - started) * 1000)
        turn += 1
    return times


def figures(times: dict[str, list[float]], seconds: float) -> dict[str, Any]:
    cuts = {name: statistics.quantiles(one, n=100) for name, one in times.items()}
    shown = {name: {"p50_ms": round(cut[49], 3), "p99_ms": round(cut[98], 3)} for name, cut in cuts.items()}
    pairs = (("again", "off"), ("answers", "off"), ("silent", "off"), ("silent", "answers"))
    ratios = {
        f"{one}/{other}": {
            "p50": round(cuts[one][49] / cuts[other][49], 3),
            "p99": round(cuts[one][98] / cuts[other][98], 3),
        }
        for one, other in pairs
    }
    load = round(os.getloadavg()[0], 1)
    return {"seconds": seconds, "calls": len(times["off"]), "load": load, "ms": shown, "ratios": ratios}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the collector is silent")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    chosen = parser.parse_args()
    result = asyncio.run(run(chosen.seconds))
    if chosen.save:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    if chosen.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{result['calls']} calls each in {result['seconds']:.0f} s, load {result['load']}")
        for pair, row in result["ratios"].items():
            print(f"{pair:15}  p50 {row['p50']:6.3f} ×   p99 {row['p99']:6.3f} ×")
    return 0 if held(result["ratios"]) else 1


def held(ratios: dict[str, dict[str, float]]) -> bool:
    """Tell whether the silent collector costs no more than it may, beyond what equal doors differ."""
    noise = {cut: max(value, 1 / value) for cut, value in ratios["again/off"].items()}
    pairs = (ratios["silent/off"], ratios["silent/answers"])
    return all(pair[cut] <= MAX_RATIO * noise[cut] for pair in pairs for cut in noise)


if __name__ == "__main__":
    sys.exit(main())
