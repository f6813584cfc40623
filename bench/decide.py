"""What a decision costs: the rules alone, and the whole way over gRPC with signed permit and stored event.

Read the ratios. `evaluate` compares, in one process and by turns, our evaluation (handles parsed once,
sliced by action, validated at each call) with cedarpy used as its documentation begins (rule text at each
call) and with the full set unsliced. `decide` gives CPU of the decider process a decision, with real NATS
and a read side that answers facts, at 1 and 32 in flight. Run: `python bench/decide.py [--seconds N]
[--json]`.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import cedarpy
import grpc.aio
import orjson

from decider.cedar import RuleCall, RuleSet, slice_of
from licet.embedded.dev_keys import make_dev_keys
from licet.embedded.nats_server import NatsServer
from licet.identity import TRUST_DOMAIN_DEV
from licet.streams import EMBEDDED_SIZES, apply_streams, connect
from licet.v1 import decider_pb2_grpc
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW
from tests.worlds.decisions import ENV, GET_ORDER, POLICY, TYPES, Finance, Ground, House, order
from tests.worlds.policies import ALLOW, FACTS, FORBID, HOLD, SCHEMA

CONTEXT = {"tenant": "t1", "tier": 4, "amount_minor": 5000, "currency": "USD"}
CALL = RuleCall("bot", "refund", "Order", "order:O1", FACTS, CONTEXT)
CALLS = 50


def rules_of(count: int, schema_actions: tuple[str, ...] = ("read", "search")) -> str:
    """Return `count` rules, of which three speak of the call; the rest of other actions."""
    base = [ALLOW, FORBID, HOLD][:count]
    for number in range(count - len(base)):
        action = schema_actions[number % len(schema_actions)]
        base.append(
            f'@id("other-{number}") forbid (principal, action == Action::"{action}", resource)'
            f" when {{ context.amount_minor > {100_000 + number} }};\n"
        )
    return "".join(base)


def as_documented(text: str) -> Callable[[], object]:
    """Evaluate as cedarpy's first example does: text in, text parsed at each call."""
    entities = [{"uid": {"type": "Order", "id": "order:O1"}, "attrs": FACTS, "parents": []}]
    request = {
        "principal": 'Agent::"bot"',
        "action": 'Action::"refund"',
        "resource": 'Order::"order:O1"',
        "context": CONTEXT,
    }
    return lambda: cedarpy.is_authorized(request, text, entities, SCHEMA)


def unsliced(text: str) -> Callable[[], object]:
    rules = RuleSet(text, SCHEMA)
    rules._slices["refund"] = slice_of(rules.rules)  # noqa: SLF001 - what is measured
    return lambda: rules.evaluate(CALL)


def ours(text: str) -> Callable[[], object]:
    rules = RuleSet(text, SCHEMA)
    return lambda: rules.evaluate(CALL)


def timed(call: Callable[[], object]) -> float:
    start = perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (perf_counter_ns() - start) / CALLS / 1000


def measure_evaluation(rounds: int) -> dict[str, float]:
    """Return the median µs of each way at each size; the cases take turns, so a busy machine slows all."""
    cases = {
        f"{name}_{count}": way(rules_of(count))
        for count in (1, 10, 100)
        for name, way in (("ours", ours), ("unsliced", unsliced), ("as_documented", as_documented))
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, call in cases.items():
            times[name].append(timed(call))
    return {name: round(statistics.median(each), 1) for name, each in times.items()}


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_decider(ground: Ground, finance: Finance) -> tuple[subprocess.Popen[bytes], int]:
    settings = ground.settings(
        f"finance=127.0.0.1:{finance.port}", quota_per_second=1e6, quota_burst=1_000_000
    )
    port_file = ground.directory / "port"
    environment = {
        f"LICET_{name.upper()}": str(value)
        for name, value in settings.model_dump().items()
        if value is not None and name not in {"tools", "catalogs", "port_file"}
    } | {
        "LICET_TOOLS": f"finance=127.0.0.1:{finance.port}",
        "LICET_CATALOGS": str(ground.catalog),
        "LICET_PORT_FILE": str(port_file),
    }
    command = [sys.executable, "-m", "licet", "decider", "serve"]
    with (ground.directory / "decider.log").open("wb") as log:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=log, stderr=log)
    deadline = time.monotonic() + 30
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError((ground.directory / "decider.log").read_text()[-2000:])
        time.sleep(0.05)
    return process, int(port_file.read_text())


async def drive(pid: int, seconds: float, flying: int, ask: Callable[[int], Any]) -> dict[str, float]:
    numbers, times = iter(range(10**9)), list[float]()

    async def worker(until: float) -> None:
        while time.monotonic() < until:
            began = perf_counter_ns()
            response = await ask(next(numbers))
            assert response.decision == DECISION_TYPE_ALLOW, response
            times.append((perf_counter_ns() - began) / 1e6)

    await asyncio.gather(*(worker(time.monotonic() + 0.5) for _ in range(flying)))
    times.clear()
    before, start = cpu_s(pid), time.monotonic()
    await asyncio.gather(*(worker(start + seconds) for _ in range(flying)))
    cpu, wall = cpu_s(pid) - before, time.monotonic() - start
    times.sort()
    return {
        "per_second": round(len(times) / wall, 1),
        "cpu_us": round(cpu / len(times) * 1e6, 1),
        "p50_ms": round(times[len(times) // 2], 2),
        "p99_ms": round(times[len(times) * 99 // 100], 2),
    }


async def measure_decisions(seconds: float, directory: Path) -> dict[str, dict[str, float]]:
    policy = directory / "policy"
    shutil.copytree(POLICY, policy)
    with (policy / "rules.cedar").open("a") as rules:
        for number in range(92):
            rules.write(
                f'\n@id("other-{number}") forbid (principal, action == Action::"search_policy", resource)'
                f" when {{ context.amount_minor > {100_000 + number} }};"
            )
    keys = make_dev_keys(directory / "keys", ENV, ["finance"], (), TRUST_DOMAIN_DEV)
    server = NatsServer(directory / "nats", environment=ENV, tools=["finance"])
    server.start()
    ground = Ground(directory, server, keys, policy)
    ground.build_catalog()
    nc = await connect(server.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
    await nc.close()
    await ground.activate()
    finance = Finance(keys, {"O1": order()}, types=TYPES)
    await finance.start()
    process, port = start_decider(ground, finance)
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    stub = decider_pb2_grpc.DeciderServiceStub(channel)
    house = House(ground, None, finance, channel, stub)  # type: ignore[arg-type]
    body = bytes(TYPES("GetOrderRequest")(order_id="O1").SerializeToString())
    asks: dict[str, Callable[[int], Any]] = {
        "read_without_facts": lambda n: house.decide(
            body, method=GET_ORDER, call_id=f"r{n}-{time.monotonic_ns()}"
        ),
        "write_with_facts": lambda n: house.decide(call_id=f"w{n}-{time.monotonic_ns()}"),
    }
    try:
        return {
            f"{name}_c{flying}": await drive(process.pid, seconds, flying, ask)
            for name, ask in asks.items()
            for flying in (1, 32)
        }
    finally:
        process.terminate()
        process.wait(20)
        await channel.close()
        await finance.server.stop(0)
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds of 50 evaluations a case (default 20)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of load a case (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    evaluation = measure_evaluation(options.rounds)
    with tempfile.TemporaryDirectory() as directory:
        decisions = asyncio.run(measure_decisions(options.seconds, Path(directory)))
    results = {"evaluate_us": evaluation, "decide_100_rules": decisions}
    if options.json:
        print(orjson.dumps(results, option=orjson.OPT_INDENT_2).decode())
        return
    for count in (1, 10, 100):
        base = evaluation[f"ours_{count}"]
        others = ", ".join(
            f"{name} {evaluation[f'{name}_{count}'] / base:.1f}×" for name in ("unsliced", "as_documented")
        )
        print(f"evaluate {count:>3} rules: {base:7.1f} µs; {others}")
    for name, row in decisions.items():
        print(f"{name:<24} {json.dumps(row)}")


if __name__ == "__main__":
    main()
