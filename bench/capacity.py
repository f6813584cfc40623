"""What one gated refund costs each part: CPU, messages, bytes in JetStream and in ClickHouse.

The example's stack with two doors, real processes; agents in this process make refunds, facts included, and
the measure ends when ClickHouse has the last event. CPU is what each process used, of all its threads, so
other work on the machine changes it little; the time that calls took is not kept. What an idle stack uses
(beacons, polls) is measured first and taken off.

Run: `python bench/capacity.py [--calls N] [--callers N] [--json]`; writes bench/results/capacity.json with
`--save`, from which `scripts/capacity.py` makes the table of docs/operations.md.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import licet.embedded  # noqa: F401, E402 - before grpc
from bench.tracing import cpu_seconds  # noqa: E402 - the repository comes first
from examples.refund.demo.house import TASK, TOOL, House  # noqa: E402 - as above
from examples.refund.fin.v1.finance_pb2 import Amount, IssueRefundRequest  # noqa: E402 - as above
from examples.refund.fin.v1.finance_pb2_grpc import FinanceStub  # noqa: E402 - as above
from licet.client import Client  # noqa: E402 - as above
from licet.embedded.nats_accounts import SETUP  # noqa: E402 - as above
from licet.streams import (  # noqa: E402
    connect,
    stream_audit,
    stream_info,
    stream_ledger,
    stream_spend,
    stream_spend_log,
)

RESULT = ROOT / "bench" / "results" / "capacity.json"
WARM_CALLS = 20
IDLE_S = 10.0
GIVE_UP_S = 600.0
STORED = (
    "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() "
    "AND table IN ('events', 'call_states')"
)


def parts(house: House) -> dict[str, int]:
    """Pids by part; both doors are one part, their sum is what counts."""
    return {name: process.pid for name, process in house.stack.processes.items() if process.pid}


def used(house: House) -> dict[str, float]:
    """CPU seconds so far, by part, and NATS."""
    found: dict[str, float] = {"nats": cpu_seconds(house.stack.nats.pid)}
    for name, pid in parts(house).items():
        part = "door" if name.startswith("sidecar-") else "tool" if name.startswith("tool-") else name
        found[part] = found.get(part, 0.0) + cpu_seconds(pid)
    return found


async def stored(house: House) -> dict[str, tuple[int, int]]:
    """Messages ever and bytes held, by stream."""
    environment = house.stack.project.environment
    names = (stream_spend, stream_spend_log, stream_audit, stream_ledger)
    connection = await connect(house.stack.nats.settings(SETUP), "bench")
    try:
        found = {}
        for name in names:
            info = await stream_info(connection, name(environment))
            assert info is not None
            found[name(environment)] = (int(info["state"]["last_seq"]), int(info["state"]["bytes"]))
        return found
    finally:
        await connection.close()


def refunds(house: House, count: int, callers: int) -> None:
    """Make so many gated refunds, each of an order of its own."""
    orders = iter([(house.order(), house.call_id()) for _ in range(count)])
    lock, failed = threading.Lock(), list[str]()

    def work(replica: int) -> None:
        tools = {TOOL: house.stack.sidecar(TOOL, replica % 2)}
        with Client(decider=house.stack.decider, tools=tools, identity=house.identity) as client:
            finance = client.stub(FinanceStub, task=TASK)
            while True:
                with lock:
                    order, call_id = next(orders, ("", ""))
                if not order:
                    return
                request = IssueRefundRequest(order_id=order, amount=Amount(minor=100, currency="USD"))
                try:
                    finance.IssueRefund(request, call_id=call_id, timeout=60)
                except Exception as error:  # noqa: BLE001 - told below
                    failed.append(f"{order}: {error!r}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[:3]


def settle(house: House) -> None:
    """Wait until the store has every event and every step its finding."""
    end, before = time.monotonic() + GIVE_UP_S, -1
    while True:
        now = house.store.query("SELECT count() FROM events").result_rows[0][0]
        open_steps = house.store.query(
            "SELECT uniqExact(spend_id) FROM events WHERE kind = 'spend.reserved' AND spend_id NOT IN "
            "(SELECT spend_id FROM events WHERE kind = 'finding.raised')"
        ).result_rows[0][0]
        if now == before and not open_steps:
            return
        assert time.monotonic() < end, f"{open_steps} steps without a finding"
        before = now
        time.sleep(2)


def measure(house: House, calls: int, callers: int) -> dict[str, Any]:
    refunds(house, WARM_CALLS, callers)
    settle(house)
    idle, idle_from = used(house), time.monotonic()
    time.sleep(IDLE_S)
    idle = {part: (now - idle[part]) / (time.monotonic() - idle_from) for part, now in used(house).items()}
    rows = house.store.query("SELECT count() FROM events").result_rows[0][0]
    bytes_before = house.store.query(STORED).result_rows[0][0]
    streams, cpu, started = asyncio.run(stored(house)), used(house), time.monotonic()
    refunds(house, calls, callers)
    settle(house)
    took = time.monotonic() - started
    after = asyncio.run(stored(house))
    cost = {part: max(0.0, now - cpu[part] - idle[part] * took) for part, now in used(house).items()}
    house.store.command("OPTIMIZE TABLE events FINAL")
    more = house.store.query("SELECT count() FROM events").result_rows[0][0] - rows
    return {
        "calls": calls,
        "callers": callers,
        "cpu_us_a_call": {part: round(seconds / calls * 1e6, 1) for part, seconds in sorted(cost.items())},
        "idle_cpu_us_a_second": {part: round(share * 1e6, 1) for part, share in sorted(idle.items())},
        "messages_a_call": {name: round((after[name][0] - streams[name][0]) / calls, 2) for name in streams},
        "stream_bytes_a_call": {name: round((after[name][1] - streams[name][1]) / calls) for name in streams},
        "rows_a_call": round(more / calls, 2),
        "store_bytes_a_call": round((house.store.query(STORED).result_rows[0][0] - bytes_before) / calls),
    }


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help="write bench/results/capacity.json")
    given = parser.parse_args()
    orders = given.calls + WARM_CALLS
    with tempfile.TemporaryDirectory() as directory, House(Path(directory), orders=orders) as house:
        result = measure(house, given.calls, given.callers)
    text = json.dumps(result, indent=1) + "\n"
    if given.save:
        RESULT.write_text(text)
    print(text if given.json or not given.save else f"{RESULT}: written", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
