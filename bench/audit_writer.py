"""How fast the writer is: `python bench/audit_writer.py [--events N] [--batch N] [--json FILE]`.

A real nats-server holds N events; the writer process takes them all into the embedded engine over the front.
Events per second and core, once the writer has started up: events by the CPU seconds of writer and front
together (engine included), and by the writer's own (writer alone). nats-server's CPU is told beside them.
Checks that nothing is lost or doubled.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from audit.store.client import StoreAddress
from audit.store.migrate import Layout, migrate
from licet.embedded.nats_server import NatsServer
from licet.event import ZERO_HASH, event_hash, uuid7
from licet.streams import EMBEDDED_SIZES, Publisher, apply_streams, connect, subject_audit
from licet.strict import canonical
from licet.v1.event_pb2 import Event

LICET = str(Path(sys.executable).with_name("licet"))
TICKS = os.sysconf("SC_CLK_TCK")
AT_MS = 1_790_000_000_000


def events(count: int) -> list[bytes]:
    """Chained decision events of about 600 bytes, as a decider writes them."""
    tip, bodies = ZERO_HASH, []
    for number in range(1, count + 1):
        allowed = number % 5 != 0
        event = Event(
            version=1,
            event_id=uuid7(AT_MS + number, number.to_bytes(10, "big")),
            source="spiffe://licet.local/dev/decider",
            stream="ab" * 16,
            seq=number,
            prev_hash=tip,
            time_us=(AT_MS + number) * 1000,
            kind="decision.allowed" if allowed else "decision.denied",
            decision="allow" if allowed else "deny",
            reason="" if allowed else "POLICY_DENIED",
            environment="dev",
            tenant=f"t{number % 40}",
            principal=f"user{number % 500}@example.com",
            caller=f"spiffe://licet.local/dev/agent/bot{number % 20}",
            agent=f"bot{number % 20}",
            task_id=f"task_{number // 20}",
            call_id=f"call_{number}",
            decision_id=uuid7(AT_MS + number, (number << 1).to_bytes(10, "big")),
            spend_id=f"{number:032x}",
            tool="finance",
            method="/fin.v1.Finance/IssueRefund",
            tool_version="cd" * 32,
            operation="refund",
            tier=4,
            resource=f"order:O{number % 100_000}",
            call_digest="ef" * 32,
            bundle_version=3,
            rule_ids=["refund-bot-refunds"],
            amount_minor=5000 + number % 100,
            currency="USD",
            trace_id=f"{number:032x}",
            span_id=f"{number:016x}",
            summary=f"Refund 50.00 USD for order O{number}",
        )
        body = canonical(event)
        bodies.append(body)
        tip = event_hash(tip, body)
    return bodies


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def publish(nats: NatsServer, bodies: list[bytes]) -> None:
    setup = await connect(nats.settings("setup"), "bench")
    await apply_streams(setup, "dev", sizes=EMBEDDED_SIZES)
    await setup.close()
    nc = await connect(nats.settings("decider"), "bench")
    publisher = await Publisher.open(nc)
    subject = subject_audit("dev", "decider", "main")
    for start in range(0, len(bodies), 4000):
        part = bodies[start : start + 4000]
        await asyncio.gather(*(publisher.publish(subject, body, timeout=30) for body in part))
    await publisher.close()
    await nc.close()


def measure(count: int, batch: int, directory: Path) -> dict[str, Any]:
    nats = NatsServer(directory / "nats", environment="dev", tools=["finance"])
    nats.start()
    environment = {
        **os.environ,
        "LICET_ENVIRONMENT": "dev",
        "LICET_NATS_URL": nats.url,
        "LICET_NATS_USER": "audit-writer",
        "LICET_NATS_PASSWORD_FILE": str(nats.password_file("audit-writer")),
        "LICET_CLICKHOUSE_PASSWORD_FILE": str(directory / "password"),
        "LICET_PORT_FILE": str(directory / "port"),
        "LICET_BATCH_ROWS": str(batch),
    }
    processes: list[subprocess.Popen[bytes]] = []
    try:
        command = [LICET, "audit", "front", "--path", str(directory / "data")]
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
        while not (directory / "port").exists():
            time.sleep(0.02)
        url = f"http://127.0.0.1:{(directory / 'port').read_text().strip()}"
        environment["LICET_CLICKHOUSE_URL"] = url
        client = StoreAddress(url, password_file=directory / "password").client()
        list(migrate(client, Layout(retention_days=9000)))
        bodies = events(count)
        size = sum(map(len, bodies)) / count
        asyncio.run(publish(nats, bodies))
        del bodies
        assert nats.pid is not None
        before = cpu_seconds(nats.pid)
        started = time.monotonic()
        processes.append(
            subprocess.Popen([LICET, "audit", "write"], env=environment, stderr=subprocess.DEVNULL)
        )
        first = (0, 0.0, 0.0)  # events done, CPU of writer and front, when the writer had started up
        while (done := int(client.command("SELECT max(js_seq) FROM events"))) < count:
            if done and not first[0]:
                first = (done, cpu_seconds(processes[1].pid), cpu_seconds(processes[0].pid))
            time.sleep(0.25)  # the front pays for each look
        wall = time.monotonic() - started
        writer, front = cpu_seconds(processes[1].pid) - first[1], cpu_seconds(processes[0].pid) - first[2]
        measured = count - first[0]
        server = cpu_seconds(nats.pid) - before
        rows = client.query("SELECT count(), uniqExact(event_id), max(js_seq) FROM events").result_rows[0]
        assert tuple(rows) == (count, count, count), rows
        disk = client.query("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'events'")
        client.close()
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(30)
        nats.stop()
    return {
        "events": count,
        "batch": batch,
        "bytes_an_event": round(size),
        "bytes_on_disk_an_event": round(disk.result_rows[0][0] / count),
        "events_measured": measured,
        "wall_s": round(wall, 2),
        "writer_cpu_s": round(writer, 2),
        "front_cpu_s": round(front, 2),
        "nats_cpu_s": round(server, 2),
        "events_per_core_engine_included": round(measured / (writer + front)),
        "events_per_core_writer_alone": round(measured / writer),
        "events_per_second": round(count / wall),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = measure(chosen.events, chosen.batch, Path(directory))
    for name, value in found.items():
        print(f"{name:34} {value}")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
