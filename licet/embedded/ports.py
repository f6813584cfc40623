"""Loopback ports that a data directory keeps from its first start on, so that addresses stay valid."""

import json
from collections.abc import Iterable
from pathlib import Path

from licet.embedded.process import free_port


def keep_ports(file: Path, names: Iterable[str]) -> dict[str, int]:
    """Return a port for each name: the one in `file`, else one that is free now, which is then kept there.

    Not guaranteed: that a kept port is free today; whoever listens on it first has it.
    """
    kept = json.loads(file.read_text()) if file.exists() else {}
    ports = {name: int(kept.get(name) or free_port()) for name in names}
    file.write_text(json.dumps({**kept, **ports}, indent=2) + "\n")
    return ports
