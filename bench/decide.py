"""What a decision costs: the rules alone, the whole way over gRPC signed and stored, and Cerbos beside it.

Read the ratios. `evaluate` compares, in one process and by turns, our evaluation (handles parsed once,
sliced by action, validated at each call) with cedarpy used as its documentation begins (rule text at each
call) and with the full set unsliced. `decide` gives, with 1, 10 and 100 rules, CPU of the decider process a
decision, behind each of its two servers, with real NATS and a read side that answers facts, and of Cerbos a
check, at 1 and 32 in flight: the cases of one size take turns. Cerbos neither signs nor records; its facts
come with the request. Run:
`python bench/decide.py [--seconds N] [--json] [--out FILE]`.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter_ns, thread_time_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import _cerbos
import _deciding
import cedarpy
import grpc.aio
import orjson

from decider.policy.cedar import RuleCall, RuleSet, slice_of
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
SIZES = (1, 10, 100)
TURNS = 3
SERVERS = {"grpcio": "licet", "ngh2": "licet_ngh2"}
"""Settings of `LICET_SERVER`, and how their rows are called."""
ONE_RULE = '@id("refund-bot") permit (principal == Agent::"refund-bot", action, resource);\n'

Ask = Callable[[int], Awaitable[None]]
Figures = dict[str, Any]


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
    """Return µs of this thread's own CPU a call: a busy machine lengthens the wait, not the work."""
    start = thread_time_ns()
    for _ in range(CALLS):
        call()
    return (thread_time_ns() - start) / CALLS / 1000


def measure_evaluation(rounds: int) -> dict[str, float]:
    """Return the median µs of each way at each size; the cases take turns, so a busy machine slows all."""
    cases = {
        f"{name}_{count}": way(rules_of(count))
        for count in SIZES
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


def start_decider(ground: Ground, finance: Finance, server: str) -> tuple[subprocess.Popen[bytes], int]:
    settings = ground.settings(
        f"finance=127.0.0.1:{finance.port}", quota_per_second=1e6, quota_burst=1_000_000
    )
    port_file = ground.directory / "port"
    environment = {
        f"LICET_{name.upper()}": str(value)
        for name, value in settings.model_dump().items()
        if value is not None and value != {} and name not in {"tools", "catalogs", "port_file"}
    } | {
        "LICET_TOOLS": f"finance=127.0.0.1:{finance.port}",
        "LICET_CATALOGS": str(ground.catalog),
        "LICET_PORT_FILE": str(port_file),
        "LICET_SERVER": server,
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


async def drive(pid: int, ask: Ask, seconds: float, flying: int) -> dict[str, float]:
    """Ask for `seconds`, `flying` at once; return figures, CPU of the process `pid` among them."""
    numbers, times = iter(range(10**9)), list[float]()

    async def worker(until: float) -> None:
        while time.monotonic() < until:
            began = perf_counter_ns()
            await ask(next(numbers))
            times.append((perf_counter_ns() - began) / 1e6)

    await asyncio.gather(*(worker(time.monotonic() + 0.5) for _ in range(flying)))
    times.clear()
    before, start = cpu_s(pid), time.monotonic()
    await asyncio.gather(*(worker(start + seconds) for _ in range(flying)))
    cpu, wall = cpu_s(pid) - before, time.monotonic() - start
    times.sort()
    each = cpu / len(times)
    return {
        "per_core_second": 1 / each if each else 0.0,
        "cpu_us": each * 1e6,
        "per_second": len(times) / wall,
        "p50_ms": times[len(times) // 2],
        "p99_ms": times[len(times) * 99 // 100],
    }


def policy_of(count: int, directory: Path) -> Path:
    """Return a policy with `count` rules: those of the refund example, then rules on other actions."""
    policy = directory / "policy"
    shutil.copytree(POLICY, policy)
    file = policy / "rules.cedar"
    text = file.read_text() if count > 1 else ONE_RULE
    if count == 1:
        (policy / "bundle.yaml").write_text('version: 1\nescalate_to: "desk@example.com"\n')
        (policy / "tests.yaml").unlink()
    have = text.count("@id(")
    others = (
        f'\n@id("other-{number}") forbid (principal, action == Action::"search_policy", resource)'
        f" when {{ context.amount_minor > {100_000 + number} }};"
        for number in range(count - have)
    )
    file.write_text(text + "".join(others))
    return policy


@contextlib.asynccontextmanager
async def deciding(count: int, directory: Path, server: str) -> AsyncIterator[tuple[int, House]]:
    """Run NATS, the tool's read side and a decider behind `server`; yield its process id and a way to ask."""
    policy = policy_of(count, directory)
    keys = make_dev_keys(directory / "keys", ENV, ["finance"], (), TRUST_DOMAIN_DEV)
    nats = NatsServer(directory / "nats", environment=ENV, tools=["finance"])
    nats.start()
    ground = Ground(directory, nats, keys, policy)
    ground.build_catalog()
    nc = await connect(nats.settings("setup"), "setup")
    await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
    await nc.close()
    await ground.activate()
    finance = Finance(keys, {"O1": order()}, types=TYPES)
    await finance.start()
    process, port = start_decider(ground, finance, server)
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    stub = decider_pb2_grpc.DeciderServiceStub(channel)
    try:
        yield process.pid, House(ground, None, finance, channel, stub)  # type: ignore[arg-type]
    finally:
        process.terminate()
        process.wait(20)
        await channel.close()
        await finance.server.stop(0)
        nats.stop()


def asks_of(house: House) -> dict[str, Ask]:
    body = bytes(TYPES("GetOrderRequest")(order_id="O1").SerializeToString())

    async def read(number: int) -> None:
        call_id = f"r{number}-{time.monotonic_ns()}"
        response = await house.decide(body, method=GET_ORDER, call_id=call_id)
        assert response.decision == DECISION_TYPE_ALLOW, response

    async def write(number: int) -> None:
        response = await house.decide(call_id=f"w{number}-{time.monotonic_ns()}")
        assert response.decision == DECISION_TYPE_ALLOW, response

    return {"without_facts": read, "with_facts": write}


async def measure_size(count: int, seconds: float, directory: Path, cerbos: Path | None) -> Figures:
    """Return CPU, rate and latency of every way with `count` rules; they take turns, in `TURNS` rounds."""
    async with contextlib.AsyncExitStack() as exits:
        asks = {}
        for server, label in SERVERS.items():
            pid, house = await exits.enter_async_context(deciding(count, directory / server, server))
            asks |= {f"{label}_{name}": (pid, ask) for name, ask in asks_of(house).items()}
        if cerbos is not None:
            served = exits.enter_context(_cerbos.serving(cerbos, directory / "cerbos", count))
            channel = await exits.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{served.port}"))
            check = served.client(channel)
            asks["cerbos"] = (served.pid, lambda _number: check())
        cases = [(name, flying) for flying in (1, 32) for name in asks]
        rounds: dict[str, list[dict[str, float]]] = {f"{name}_c{flying}": [] for name, flying in cases}
        for _ in range(TURNS):
            for name, flying in cases:
                rounds[f"{name}_c{flying}"].append(await drive(*asks[name], seconds / TURNS, flying))
    return {
        name: {key: round(statistics.median(row[key] for row in rows), 2) for key in rows[0]}
        for name, rows in rounds.items()
    }


def spoken(results: Figures) -> Iterator[str]:
    """Yield the lines for people: ratios first."""
    evaluation = results["evaluate_us"]
    for count in SIZES:
        base = evaluation[f"ours_{count}"]
        others = ", ".join(
            f"{name} {evaluation[f'{name}_{count}'] / base:.1f} ×" for name in ("unsliced", "as_documented")
        )
        yield f"evaluate {count:>3} rules: {base:7.1f} µs, {1e6 / base:7.0f} a core and second; {others}"
    for count in SIZES:
        rows = results[f"decide_{count}"]
        for name, row in rows.items():
            peer = rows.get(f"cerbos_{name.rpartition('_')[2]}")
            ratio = f"{row['per_core_second'] / peer['per_core_second']:5.2f} × Cerbos" if peer else ""
            yield (
                f"decide {count:>3} rules, {name:<24} {row['per_core_second']:7.0f} a core and second"
                f" ({row['cpu_us']:6.0f} µs), p50 {row['p50_ms']:6.2f}, p99 {row['p99_ms']:6.2f} ms {ratio}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds of 50 evaluations a case (default 20)")
    parser.add_argument("--seconds", type=float, default=6.0, help="seconds of load a case (default 6)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", type=Path, help="write JSON there, too")
    parser.add_argument("--doc", action="store_true", help="write the table of docs/decider.md, too")
    options = parser.parse_args()
    cerbos = _cerbos.binary()
    if cerbos is None:
        print("Cerbos is not measured: no npm to fetch it with", file=sys.stderr)
    load = os.getloadavg()[0]
    results: Figures = {"evaluate_us": measure_evaluation(options.rounds)}
    for count in SIZES:
        print(f"{count} rules …", file=sys.stderr)
        with tempfile.TemporaryDirectory() as directory:
            measured = measure_size(count, options.seconds, Path(directory), cerbos)
            results[f"decide_{count}"] = asyncio.run(measured)
    results["machine"] = {
        "cores": os.cpu_count(),
        "load_before": round(load, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "cerbos": _cerbos.VERSION if cerbos is not None else "",
    }
    text = orjson.dumps(results, option=orjson.OPT_INDENT_2).decode()
    if options.out is not None:
        options.out.write_text(text + "\n")
    if options.doc:
        _deciding.DOC.write_text(_deciding.written(_deciding.DOC.read_text(), results))
    print(text if options.json else "\n".join(spoken(results)))


if __name__ == "__main__":
    main()
