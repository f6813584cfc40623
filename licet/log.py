"""JSON lines on stderr: a constant event name, fields, never payloads or key material.

Guarantees: one line per record, one JSON object per line, keys `time` (RFC 3339, UTC), `level`, `process`,
`event`, then the fields; `trace_id` on each line that is written while a call is worked on (`of_trace`).
Exceptions are logged by type and frames, never by message. What a library logs has event `library.said`,
where in its source it stands, and its text only as it is before values are put into it: a library quotes what
it could not read. Not guaranteed: delivery. What must not be lost is an audit event (`licet.journal`).
"""

import json
import logging
import re
import sys
import traceback
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal["debug", "info", "warning", "error"]

_FIELDS: Final = "licet_fields"
MAX_FRAMES: Final = 60
MAX_TEXT: Final = 200
LIBRARY: Final = "library.said"
_EVENT: Final = re.compile(r"[a-z_]+(\.[a-z_]+)+\Z")
_TRACE_ID: Final[ContextVar[str]] = ContextVar("licet_trace_id", default="")


class of_trace:  # noqa: N801 - reads as the function it is to its callers
    """Give every log line that is written inside this trace id, also by tasks that begin here.

    Inside of another trace the inner one counts; an empty id changes nothing.
    """

    __slots__ = ("_token", "_trace_id")

    def __init__(self, trace_id: str) -> None:
        self._trace_id = trace_id
        self._token: Token[str] | None = None

    def __enter__(self) -> None:
        if self._trace_id:
            self._token = _TRACE_ID.set(self._trace_id)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _TRACE_ID.reset(self._token)


class _JsonLines(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            **_said(record),
        }
        trace_id = _TRACE_ID.get()
        if trace_id:
            line["trace_id"] = trace_id
        line.update(getattr(record, _FIELDS, {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["frames"] = frames(record.exc_info[1])
        return json.dumps(line, default=str, ensure_ascii=False)


def _said(record: logging.LogRecord) -> dict[str, str]:
    """Return event and, of a library's record, where it comes from and its text without values.

    A text that comes without values had them put into it, or might have: grpcio's servers do so with the
    message of whatever a handler raised.
    """
    if hasattr(record, _FIELDS) or (not record.args and _EVENT.match(str(record.msg))):
        return {"event": str(record.msg)}
    said = {"event": LIBRARY, "logger": record.name, "at": f"{record.filename}:{record.lineno}"}
    return said | {"text": str(record.msg)[:MAX_TEXT]} if record.args else said


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


def configure_logging(process: str, level: Level = "info") -> None:
    """Send every log record of this process that is of `level` or above to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def log(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    """Log a constant event name with fields; values of arguments, permits and keys never belong here."""
    logger.log(level, event, extra={_FIELDS: fields})
