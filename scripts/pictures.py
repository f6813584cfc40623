#!/usr/bin/env python3
"""Take the pictures of docs/pictures: the opening case's trace, ungated and gated, in Arize Phoenix.

Phoenix is large and stands in an environment of its own; Chromium takes the pictures. Phoenix listens on
every address, so this runs in a network of its own, where there is none but loopback:

    python3.11 -m venv /path/to/phoenix && /path/to/phoenix/bin/pip install arize-phoenix
    apt-get install chromium
    unshare --net sh -c 'ip link set lo up; .venv/bin/python scripts/pictures.py /path/to/phoenix'
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import licet.embedded  # noqa: F401, E402 - before grpc
from examples.refund.demo.evidence import wait_for_spans  # noqa: E402 - the repository comes first
from examples.refund.demo.house import House  # noqa: E402 - as above
from examples.refund.demo.story import Ungated, tell_gated, tell_ungated  # noqa: E402 - as above
from licet.embedded.ports import free_port  # noqa: E402 - as above
from licet.embedded.process import Process, accepts_tcp  # noqa: E402 - as above
from licet.embedded.trace_send import send  # noqa: E402 - as above

PICTURES = ROOT / "docs" / "pictures"
PROJECT = "UHJvamVjdDox"
"""Phoenix' own id of its first project: base64 of `Project:1`."""
SIZES = {"ungated": "1500,800", "gated": "1500,1800"}
RENDER_MS = 20_000
START_S = 120.0


def phoenix(environment: Path, directory: Path, http: int, grpc: int) -> Process:
    """Return Phoenix, not started yet."""
    return Process(
        "phoenix",
        (str(environment / "bin" / "phoenix"), "serve"),
        log=directory / "phoenix.log",
        environment={
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(http),
            "PHOENIX_GRPC_PORT": str(grpc),
            "PHOENIX_WORKING_DIR": str(directory / "phoenix"),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        },
        ready=lambda: accepts_tcp(http) and accepts_tcp(grpc),
    )


def tell(directory: Path) -> dict[str, tuple[str, tuple[object, ...]]]:
    """Play the opening ungated and gated; return trace id and spans of each."""
    house = House(directory / "house")
    with Ungated(directory / "ungated", house.stack.otlp_endpoint) as tool, house:
        told = {"ungated": tell_ungated(house, tool), "gated": tell_gated(house)[0]}
        traces = house.stack.traces
        assert traces is not None
        for one in told.values():
            wait_for_spans(house, one.trace_id)
        return {name: (one.trace_id, traces.trace(one.trace_id)) for name, one in told.items()}


def take(url: str, file: Path, size: str) -> None:
    """Take one picture."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--user-data-dir={profile}", f"--window-size={size}", f"--virtual-time-budget={RENDER_MS}",
            f"--screenshot={file}", url,
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> int:
    """Take the pictures; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("environment", type=Path, help="environment that Phoenix is installed in")
    environment = parser.parse_args().environment
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        print("run it where there is no network but loopback; see the head of this file", file=sys.stderr)
        return 2
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        http, grpc = free_port(), free_port()
        viewer = phoenix(environment, directory, http, grpc)
        viewer.start()
        try:
            told = tell(directory)
            viewer.wait_ready(START_S)
            for name, (trace_id, spans) in told.items():
                send(spans, f"http://127.0.0.1:{grpc}")  # type: ignore[arg-type]
                time.sleep(5)  # it takes them in batches
                url = f"http://127.0.0.1:{http}/projects/{PROJECT}/traces/{trace_id}"
                take(url, PICTURES / f"{name}.png", SIZES[name])
        finally:
            viewer.stop()
    return 0


if __name__ == "__main__":
    os.environ.pop("DISPLAY", None)
    sys.exit(main())
