"""What files of running servers hold, while those merge, rotate and delete."""

import os
from collections.abc import Iterator
from pathlib import Path


def files_with(root: Path, *wanted: bytes) -> Iterator[Path]:
    """Give the files under `root` that have one of `wanted` in them; one that goes meanwhile has nothing."""
    for folder, _, names in os.walk(root):  # unlike rglob, it minds no folder that goes meanwhile
        for name in names:
            path = Path(folder) / name
            if any(one in _read(path) for one in wanted):
                yield path


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""
