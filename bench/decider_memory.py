"""What a decider holds in memory: with 100 rules, after decisions, and with 10,000 holds that wait.

Resident bytes (VmRSS) and their peak (VmHWM) of the decider process, behind each of its two servers, with
real NATS, a read side that answers facts, and its metrics read, so that the holds are looked through. Run:
`python bench/decider_memory.py [--holds N] [--json] [--out FILE]`.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import decide
import orjson
import yaml

from licet.embedded.ports import free_port
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_HOLD

RULES = 100
EACH = 100
"""Holds of one task: as many as it may have."""
DECISIONS = 2_000
FLYING = 16
SEEN_WITHIN_S = 600.0


def resident_mb(pid: int) -> dict[str, float]:
    """Return MB (10^6 bytes) that a process has now, and the most it had."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    found = {line[0]: int(line[1]) * 1024 / 1e6 for line in lines if line[0] in {"VmRSS:", "VmHWM:"}}
    return {"now": round(found["VmRSS:"], 1), "peak": round(found["VmHWM:"], 1)}


def more_tasks(policy: Path, count: int) -> list[str]:
    """Add `count` tasks whose refunds wait for people to a policy; return their ids."""
    file = policy / "tasks.yaml"
    listed = yaml.safe_load(file.read_text())
    names = [f"held_{number}" for number in range(count)]
    listed["tasks"] |= dict.fromkeys(names, listed["tasks"]["task_792"])
    file.write_text(json.dumps(listed))  # JSON is YAML, without aliases
    return names


async def at_once(count: int, ask: Callable[[int], Awaitable[None]]) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await ask(number)

    await asyncio.gather(*(worker() for _ in range(FLYING)))


def holds_seen(port: int) -> int:
    """Return how many open holds the decider's metrics show."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
    found = [line for line in text.splitlines() if line.startswith("licet_holds_open")]
    return int(float(found[0].split()[-1])) if found else 0


async def measure(server: str, holds: int, directory: Path) -> dict[str, Any]:
    port = free_port()
    os.environ["LICET_METRICS_LISTEN"] = f"127.0.0.1:{port}"
    tasks: list[str] = []
    policy_of = decide.policy_of

    def policy(count: int, where: Path) -> Path:
        made = policy_of(count, where)
        tasks.extend(more_tasks(made, holds // EACH))
        return made

    decide.policy_of = policy
    try:
        async with decide.deciding(RULES, directory, server) as (pid, house):
            figures: dict[str, Any] = {"started": resident_mb(pid)}

            async def allowed(number: int) -> None:
                response = await house.decide(call_id=f"a{number}")
                assert response.decision == DECISION_TYPE_ALLOW, response

            async def held(number: int) -> None:
                response = await house.decide(call_id=f"h{number}", task_id=tasks[number // EACH])
                assert response.decision == DECISION_TYPE_HOLD, response

            await at_once(DECISIONS, allowed)
            figures["decided"] = resident_mb(pid)
            await at_once(holds, held)
            figures["held"] = resident_mb(pid)
            until = time.monotonic() + SEEN_WITHIN_S
            seen = 0
            while seen < min(holds, 1_000) and time.monotonic() < until:
                await asyncio.sleep(2)
                seen = await asyncio.to_thread(holds_seen, port)
            figures |= {"seen": seen, "looked_through": resident_mb(pid)}
            await at_once(DECISIONS, lambda number: allowed(DECISIONS + number))
            figures["decided_again"] = resident_mb(pid)
            return figures
    finally:
        decide.policy_of = policy_of
        del os.environ["LICET_METRICS_LISTEN"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--holds", type=int, default=10_000, help="open holds (default 10000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", type=Path, help="write JSON there, too")
    options = parser.parse_args()
    results = {}
    for server in decide.SERVERS:
        with tempfile.TemporaryDirectory() as directory:
            results[server] = asyncio.run(measure(server, options.holds, Path(directory)))
    text = orjson.dumps(results, option=orjson.OPT_INDENT_2).decode()
    if options.out is not None:
        options.out.write_text(text + "\n")
    if options.json:
        print(text)
        return
    for server, figures in results.items():
        for name, value in figures.items():
            print(f"{server:<7} {name:<15} {value}")


if __name__ == "__main__":
    main()
