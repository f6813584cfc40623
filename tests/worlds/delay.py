"""A wire with a length: TCP proxies that hand on everything, in order, some ms later.

Run as a process of its own, so that a busy test does not make the wire longer:
`python -m tests.worlds.delay 5 out.json 4222 4223` delays what goes to and from two ports by 5 ms each way,
and writes to `out.json` by which ports they are reached.
"""

import asyncio
import contextlib
import json
import sys
import time
from functools import partial
from pathlib import Path

from licet.embedded.process import Process

WAITING = 1_024
"""Blocks on one way of one connection; more wait before the wire."""


class Delay:
    """Proxies before ports of this machine, as one child process."""

    def __init__(self, directory: Path, ports: list[int], each_way_ms: float) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / "delay.json"
        command = (sys.executable, "-m", "tests.worlds.delay", str(each_way_ms), str(self._file))
        self._process = Process(
            "delay",
            (*command, *map(str, ports)),
            log=directory / "delay.log",
            environment={"PYTHONPATH": str(Path(__file__).parents[2])},
            ready=self._file.exists,
        )

    def start(self) -> dict[int, int]:
        """Start; return by which port each port is reached."""
        self._process.start()
        self._process.wait_ready()
        return {int(port): int(by) for port, by in json.loads(self._file.read_text()).items()}

    def stop(self) -> None:
        self._process.stop()


async def _feed(
    reader: asyncio.StreamReader, wire: "asyncio.Queue[tuple[float, bytes]]", delay: float
) -> None:
    block = b"-"
    while block:
        with contextlib.suppress(OSError):
            block = await reader.read(65_536)
        await wire.put((time.monotonic() + delay, block))


async def _drain(wire: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
    while True:
        due, block = await wire.get()
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if not block:
            return
        writer.write(block)
        await writer.drain()


async def _serve(port: int, delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    ends = [writer]
    tasks: list[asyncio.Task[None]] = []
    try:
        inside, upstream = await asyncio.open_connection("127.0.0.1", port)
        ends.append(upstream)
        there: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING)
        back: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING)
        drains = [asyncio.ensure_future(_drain(there, upstream)), asyncio.ensure_future(_drain(back, writer))]
        feeds = [_feed(reader, there, delay), _feed(inside, back, delay)]
        tasks = [*drains, *map(asyncio.ensure_future, feeds)]
        await asyncio.wait(drains, return_when=asyncio.FIRST_COMPLETED)
    except OSError:  # the server behind is down, which is what kills are for
        pass
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            end.close()


async def _main(each_way_ms: float, file: Path, ports: list[int]) -> None:
    servers = [
        await asyncio.start_server(partial(_serve, port, each_way_ms / 1_000), "127.0.0.1", 0)
        for port in ports
    ]
    reached = {port: server.sockets[0].getsockname()[1] for port, server in zip(ports, servers, strict=True)}
    partial_file = file.with_suffix(".partial")
    partial_file.write_text(json.dumps(reached))
    partial_file.replace(file)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(float(sys.argv[1]), Path(sys.argv[2]), [int(port) for port in sys.argv[3:]]))
