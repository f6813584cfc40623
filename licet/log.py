"""JSON lines on stderr: a constant event name, fields, never payloads or key material.

Guarantees: one line per record, one JSON object per line, keys `time` (RFC 3339, UTC), `level`, `process`,
`event`, then the fields. Exceptions are logged by type and frames, never by message. Not guaranteed:
delivery. What must not be lost is an audit event (`licet.journal`).
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_FIELDS: Final = "licet_fields"
MAX_FRAMES: Final = 60


class _JsonLines(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "event": record.getMessage(),
        }
        line.update(getattr(record, _FIELDS, {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["frames"] = frames(record.exc_info[1])
        return json.dumps(line, default=str, ensure_ascii=False)


def frames(error: BaseException | None) -> list[str]:
    """Return where an exception came from, outermost call first, and what caused it.

    Its message is left out, and those of its causes: a parser's error quotes what it could not read.
    """
    found: list[str] = []
    while error is not None:
        stack = traceback.extract_tb(error.__traceback__)
        found += [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in stack]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if error is not None:
            found.append(f"caused by {type(error).__name__}")
        if len(found) > MAX_FRAMES:
            return found[:MAX_FRAMES]
    return found


def configure_logging(process: str, *, level: int = logging.INFO) -> None:
    """Send every log record of this process to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def log(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    """Log a constant event name with fields; values of arguments, permits and keys never belong here."""
    logger.log(level, event, extra={_FIELDS: fields})
