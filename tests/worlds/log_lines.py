"""The log lines of this process, as JSON, as they would be written."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from licet.log import _JsonLines


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_JsonLines("test"))
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@contextmanager
def log_lines() -> Iterator[list[dict[str, Any]]]:
    """Keep every line from the least level on while the block runs."""
    handler, root = _Kept(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
