"""Where the CPU of a write goes: the main thread by cProfile in CPU time, others by the kernel's count.

A profiler slows what has many small functions more than what has few: read the shares, not the microseconds.
"""

import asyncio
import pstats
import signal
import time
from pathlib import Path
from typing import Final

from bench.enforcing.world import World, measure

UNSEEN: Final = "grpc.aio: C, and the event loop"
GROUPS: Final = (
    ("licet/journal/", "journal and spool"),
    ("licet/streams/", "publishing: ours"),
    ("nats/", "publishing: nats-py"),
    ("nacl/", "Ed25519"),
    ("licet/tracing", "spans"),
    ("sidecar/trace", "spans"),
    ("sidecar/record", "door event"),
    ("sidecar/store/spend", "reserve and outcome"),
    ("sidecar/store/prompt", "reserve and outcome"),
    ("sidecar/store/floor", "reserve and outcome"),
    ("licet/spend", "reserve and outcome"),
    ("licet/permit/", "checks"),
    ("licet/call/", "checks"),
    ("licet/catalog/", "checks"),
    ("grpc/", "grpc.aio: Python"),
    ("sidecar/", "door"),
    ("licet/", "checks"),
    ("asyncio/runners", UNSEEN),
    ("asyncio/", "asyncio: tasks, timeouts, streams"),
)
REST: Final = "rest"

Entry = tuple[str, int, str]


def group_of(function: Entry) -> str:
    """Return what a function counts as; `~` is a C function, which counts as its caller."""
    return next((group for part, group in GROUPS if part in function[0]), REST)


def main_thread(stats_file: Path) -> dict[str, float]:
    """Return CPU seconds of the main thread by group."""
    found: dict[str, float] = {}
    for function, (_, _, own, _, callers) in pstats.Stats(str(stats_file)).stats.items():  # type: ignore[attr-defined]
        if function[0] != "~":
            found[group_of(function)] = found.get(group_of(function), 0.0) + own
            continue
        for caller, (_, _, part, _) in callers.items():
            found[group_of(caller)] = found.get(group_of(caller), 0.0) + part
    return found


async def profile(world: World, calls: int, at_once: int) -> dict[str, float]:
    """Return shares of a write's CPU by group, of a sidecar of its own."""
    stats_file = world.directory / "write.profile"
    target = await world.sidecar(profile=stats_file)
    permits = await asyncio.to_thread(world.refund_permits, calls + 200)
    await measure(target, world.write(target, permits[:200]), 200, at_once)
    target.process.send_signal(signal.SIGUSR1)
    before = target.thread_seconds()
    await measure(target, world.write(target, permits[200:]), calls, at_once)
    after = target.thread_seconds()
    target.process.send_signal(signal.SIGUSR2)
    deadline = time.monotonic() + 30
    while not stats_file.exists():
        if time.monotonic() > deadline:
            raise SystemExit("the sidecar wrote no profile")
        await asyncio.sleep(0.05)
    shares = main_thread(stats_file)
    unseen = after["main"] - before["main"] - sum(shares.values())  # a profiler of Python sees no Cython
    shares[UNSEEN] = shares.get(UNSEEN, 0.0) + max(0.0, unseen)
    for name, seconds in after.items():
        if name != "main":
            key = "threads of grpc's core" if name == "event_engine" else "threads: spool, poller, telemetry"
            shares[key] = shares.get(key, 0.0) + seconds - before.get(name, 0.0)
    whole = sum(shares.values())
    return dict(sorted(((key, part / whole) for key, part in shares.items()), key=lambda one: -one[1]))
