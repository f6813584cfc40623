"""Several processes on one port: the kernel spreads connections over them (SO_REUSEPORT).

Guaranteed: each worker is a whole sidecar with a spool, a journal run and quotas of its own; one that ends
by itself is started again on the same spool, so what it left is published; SIGTERM drains them all. Not
guaranteed: an even
spread: one long connection stays with its worker.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Final

from licet.log import log
from sidecar.settings import SidecarSettings

LOG: Final = logging.getLogger(__name__)

RESTART_S: Final = 0.5
"""Between the end of a worker and its next start."""


class Workers:
    """Starts workers and keeps them until told to stop.

    Args:
        settings: Of the sidecar as a whole; `workers` says how many.
    """

    def __init__(self, settings: SidecarSettings) -> None:
        self._settings = settings
        self._stopping = asyncio.Event()
        self._running: dict[int, asyncio.subprocess.Process] = {}

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT; return 0 when every worker drained in time."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        with (
            reserve_port(self._settings.listen) as door,
            reserve_port(self._settings.health_listen) as health,
        ):
            addresses = {"LICET_LISTEN": _address(door), "LICET_HEALTH_LISTEN": _address(health)}
            kept = [self._keep(index, addresses) for index in range(self._settings.workers)]
            statuses = await asyncio.gather(*kept)
        return max(statuses)

    def _stop(self) -> None:
        self._stopping.set()
        for process in self._running.values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)

    async def _keep(self, index: int, addresses: Mapping[str, str]) -> int:
        """Run one worker, again and again; return its last status."""
        environment = {**os.environ, **addresses, **self._own(index)}
        while True:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "licet", "sidecar", "serve", env=environment
            )
            self._running[index] = process
            if self._stopping.is_set():
                process.send_signal(signal.SIGTERM)
            status = _status(await process.wait())
            if self._stopping.is_set():
                return status
            log(LOG, logging.ERROR, "sidecar.worker_ended", worker=index, status=status)
            await asyncio.sleep(RESTART_S)
            if self._stopping.is_set():
                return status

    def _own(self, index: int) -> dict[str, str]:
        settings = self._settings
        own = {
            "LICET_WORKERS": "1",
            "LICET_SHARED_PORT": "true",
            "LICET_INSTANCE": f"{settings.instance}-{index}",
            "LICET_SPOOL_DIR": str(settings.spool_dir / f"worker-{index}"),
        }
        if settings.metrics_listen is not None:  # each counts its own calls, so each is scraped
            own["LICET_METRICS_LISTEN"] = _next_port(settings.metrics_listen, index)
        if index:  # one worker tells the chosen ports; they are the same for all
            own |= {"LICET_PORT_FILE": "", "LICET_HEALTH_PORT_FILE": ""}
        return own


def _status(returned: int) -> int:
    """Return an exit status. A worker that SIGTERM ends by itself did not listen yet: nothing was cut off."""
    return 0 if returned == -signal.SIGTERM else abs(returned)


def reserve_port(address: str) -> socket.socket:
    """Bind `address` for sharing, without listening: workers bind the same port, and nobody else gets it."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reserved = socket.socket(family, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind((host.strip("[]"), int(port)))
    return reserved


def _next_port(address: str, index: int) -> str:
    """Return the address of one worker's own port: the first port and those after it; 0 stays free choice."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + index if int(port) else 0}"


def _address(reserved: socket.socket) -> str:
    host, port = reserved.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
