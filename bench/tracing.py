"""What spans and metrics cost a door: CPU and latency of a call with them, over one without, by turns.

Real sidecar processes on real transports, one for each way: `off`, `spans` (to a collector that answers),
`both` (spans, and metrics that Prometheus may scrape), `silent` (both, and metrics over OTLP, to a collector
that accepts and never answers). Reads are calls without a spend, writes spend and change the ledger. Read the
ratios; a p99 of so few writes on a busy machine says little.

Run: `python bench/tracing.py [--rounds N] [--json]`; writes bench/results/tracing.json with `--save`.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import licet.embedded  # noqa: F401, E402 - before grpc
from licet.embedded.otlp_receiver import OtlpReceiver  # noqa: E402 - the repository comes first
from licet.embedded.trace_store import TraceStore  # noqa: E402 - as above
from tests.integration.sidecar.test_process import Served  # noqa: E402 - as above
from tests.integration.test_black_hole import BlackHole  # noqa: E402 - as above
from tests.worlds.mint import GET_ORDER, refund  # noqa: E402 - as above
from tests.worlds.rig import Rig  # noqa: E402 - as above

READS = 100
WRITES = 10
RESULT = ROOT / "bench" / "results" / "tracing.json"

Sample = dict[str, list[float]]


def cpu_seconds(pid: int) -> float:
    """Return what all threads of a process have used, to the nanosecond."""
    return (
        sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    )


async def measure(pid: int, call: Callable[[], Awaitable[str]], count: int) -> tuple[float, list[float]]:
    """Return µs of the process's CPU a call, and each call's ms at the caller."""
    before, times = cpu_seconds(pid), []
    for _ in range(count):
        started = time.perf_counter()
        said = await call()
        times.append((time.perf_counter() - started) * 1000)
        assert said == "passed", said
    return (cpu_seconds(pid) - before) / count * 1e6, times


async def run(rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(Path(directory))
        await rig.start(sidecars=0)
        store = TraceStore(Path(directory) / "traces.db")
        receiver, hole = OtlpReceiver(store), BlackHole()
        receiver.start()
        both = {"metrics_listen": "127.0.0.1:0"}
        ways: dict[str, dict[str, Any]] = {
            "off": {},
            "spans": {"otlp_endpoint": receiver.endpoint},
            "both": {"otlp_endpoint": receiver.endpoint, **both},
            "silent": {"otlp_endpoint": hole.endpoint, "metrics_endpoint": hole.endpoint, **both},
        }
        try:
            doors = {name: await Served.start(rig, **settings) for name, settings in ways.items()}
            return await turns(rig, doors, rounds)
        finally:
            await rig.stop()
            receiver.stop()
            store.close()
            hole.close()


async def turns(rig: Rig, doors: dict[str, Served], rounds: int) -> dict[str, Any]:
    cpu: dict[str, Sample] = {name: {"read": [], "write": []} for name in doors}
    times: dict[str, Sample] = {name: {"read": [], "write": []} for name in doors}
    for number in range(rounds + 1):
        for name, door in doors.items():
            for kind, call, count in (("read", read, READS), ("write", write, WRITES)):
                used, taken = await measure(door.process.pid, lambda c=call, d=door: c(rig, d), count)
                if number:  # the first round warms
                    cpu[name][kind].append(used)
                    times[name][kind] += taken
    return {
        name: {
            kind: {
                "cpu_us": round(statistics.fmean(cpu[name][kind]), 1),
                "cpu": ratio(statistics.fmean(cpu[name][kind]), statistics.fmean(cpu["off"][kind])),
                "p50": ratio(quantile(times[name][kind], 50), quantile(times["off"][kind], 50)),
                "p99": ratio(quantile(times[name][kind], 99), quantile(times["off"][kind], 99)),
            }
            for kind in ("read", "write")
        }
        for name in doors
    }


async def read(rig: Rig, door: Any) -> str:
    body = b"\n\x02O1"
    return await rig.call(rig.mint.permit(GET_ORDER, body), body=body, path=GET_ORDER, sidecar=door)


async def write(rig: Rig, door: Any) -> str:
    message = refund(order_id=rig.order())
    return await rig.call(rig.permit(message), body=message.SerializeToString(), sidecar=door)


def ratio(value: float, base: float) -> float:
    return round(value / base, 3) if base else 0.0


def quantile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="rounds, at most 13: orders are finite")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    chosen = parser.parse_args()
    result = asyncio.run(run(min(chosen.rounds, 13)))
    text = json.dumps(result, indent=2)
    if chosen.save:
        RESULT.write_text(text + "\n")
    if chosen.json:
        print(text)
        return
    for name, kinds in result.items():
        for kind, row in kinds.items():
            print(f"{name:7} {kind:6} {row['cpu_us']:8.1f} µs CPU  {row['cpu']:6.3f} × off", end="")
            print(f"   p50 {row['p50']:6.3f} ×   p99 {row['p99']:6.3f} ×")


if __name__ == "__main__":
    main()
