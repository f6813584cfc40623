"""How fast budgets are booked: `python bench/budgets.py [--limit N] [--asked N] [--json FILE]`.

A real nats-server; two processes ask for bookings under the same five budgets, many at once, until N times
as many were asked for as the limit lets through. Then a thirtieth of it as a plain loop of one atomic
batch for each booking: what group commit gains. Checks that exactly the limit was booked, in all five
budgets. Says the machine's load: both processes, the server and everything else share it.
"""

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from decider.budgets.book import BudgetBook
from decider.budgets.booking import Book, Done
from decider.budgets.budget import Budget, Line, Period, Unit, Use, lines_of
from decider.budgets.records import budget_key
from licet.embedded.nats_server import NatsServer
from licet.refusal import Refusal
from licet.streams import EMBEDDED_SIZES, NatsSettings, Publisher, StreamsError, apply_streams, connect

SHARERS = ("tenant", "principal", "agent", "tool", "")
IN_FLIGHT = 500


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def lines(limit: int, name: str) -> tuple[Line, ...]:
    """Five budgets that every booking is about."""
    budgets = [
        Budget(f"{name}-{who or 'all'}", Unit.CALLS, {"": limit}, Period.MONTH, (who,) if who else ())
        for who in SHARERS
    ]
    who = dict.fromkeys(("tenant", "principal", "agent", "task", "tool", "operation"), "x")
    found = lines_of(budgets, Use("dev", 1, who, None, wall_ms() + 3_600_000), wall_ms())
    assert not isinstance(found, Refusal)
    return found


async def opened(url: str, password: Path, instance: str) -> tuple[Any, BudgetBook]:
    nc = await connect(NatsSettings(url, "decider", password), f"bench-{instance}")
    publisher = await Publisher.open(nc)
    return nc, BudgetBook(publisher, "dev", budget_key(bytes(32)), decider=instance, wall_ms=wall_ms)


async def work(url: str, password: Path, *, instance: str, limit: int, count: int, plain: bool) -> None:
    """One process: wait for a line on stdin, ask, print what came of it."""
    nc, book = await opened(url, password, instance)
    running = asyncio.create_task(book.run())
    wanted = lines(limit, "plain" if plain else "group")
    gate = asyncio.Semaphore(1 if plain else IN_FLIGHT)
    results = {"done": 0, "exhausted": 0, "unavailable": 0}

    async def one() -> None:
        async with gate:
            step = Book(
                secrets.token_hex(16), "finance", 0, secrets.token_hex(16), wall_ms() + 60_000, wanted
            )
            try:
                result = await book.change(step)
            except StreamsError:
                results["unavailable"] += 1
                return
            results["done" if isinstance(result, Done) else "exhausted"] += 1

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one() for _ in range(count)))
    seconds = time.perf_counter() - started
    print(json.dumps(results | {"seconds": seconds, "cpu": time.process_time() - cpu, "lost": book.lost}))
    running.cancel()
    await nc.close()


def both(nats: NatsServer, limit: int, count: int, *, plain: bool) -> dict[str, Any]:
    """Run two processes at once; return their results together."""
    command = [sys.executable, __file__, "--limit", str(limit), "--asked", str(count)]
    command += ["--url", nats.url, "--password", str(nats.password_file("decider"))]
    workers = [
        subprocess.Popen(
            [*command, "--worker", name, *(["--plain"] if plain else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("0", "1")
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    found = [json.loads(worker.communicate()[0]) for worker in workers]
    sums: dict[str, Any] = {name: sum(one[name] for one in found) for name in found[0] if name != "seconds"}
    sums["done_per_cpu_second"] = round(sums["done"] / sums["cpu"])
    sums["seconds"] = max(one["seconds"] for one in found)
    sums["booked_per_second"] = round(sums["done"] / sums["seconds"])
    sums["answers_per_second"] = round(2 * count / sums["seconds"])
    return sums


async def booked(nats: NatsServer, limit: int, name: str) -> list[int]:
    nc, book = await opened(nats.url, nats.password_file("decider"), "check")
    found = [one.booked for one in await book.balances([line.account for line in lines(limit, name)])]
    await nc.close()
    return found


async def prepare(nats: NatsServer) -> None:
    nc = await connect(nats.settings("setup"), "bench")
    await apply_streams(nc, "dev", sizes=EMBEDDED_SIZES)
    await nc.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=int, default=10_000)
    parser.add_argument("--asked", type=int, default=6_000, help="by each of the two processes")
    parser.add_argument("--json", type=Path, help="where the raw results go")
    for name in ("--worker", "--url", "--password"):
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        asyncio.run(
            work(
                given.url,
                Path(given.password),
                instance=given.worker,
                limit=given.limit,
                count=given.asked,
                plain=given.plain,
            )
        )
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        nats = NatsServer(Path(scratch), environment="dev", tools=["finance"])
        nats.start()
        try:
            asyncio.run(prepare(nats))
            load = os.getloadavg()[0]
            group = both(nats, given.limit, given.asked, plain=False)
            exact = asyncio.run(booked(nats, given.limit, "group"))
            plain = both(nats, given.limit, given.asked // 30, plain=True)
        finally:
            nats.stop()
    expected = min(given.limit, 2 * given.asked)
    results = {
        "limit": given.limit,
        "asked": 2 * given.asked,
        "load_before": round(load, 1),
        "cores": os.cpu_count(),
        "group_commit": group,
        "one_batch_each": plain,
        "balances": exact,
        "exact": exact == [expected] * len(SHARERS) and group["done"] == expected,
        "gain": round(group["booked_per_second"] / max(plain["booked_per_second"], 1), 1),
    }
    print(json.dumps(results, indent=2))
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0 if results["exact"] else 1


if __name__ == "__main__":
    sys.exit(main())
