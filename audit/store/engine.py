"""The embedded ClickHouse engine (chDB): statements in, bytes out.

Guarantees: one process per data directory (a lock file says so before the engine is opened); every request
gets a handle of its own, so settings and `USE` of one never reach another; an insert is one statement over
all its bytes, and a failed one raises. Does not guarantee what chDB lacks: users, quotas, row policies,
Replicated tables, `query_log`; whoever can call this can read and change everything.

Calls block (the engine frees the interpreter lock meanwhile): run them in threads.
"""

import fcntl
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

SETTING_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ERROR_CODE: Final = re.compile(r"Code: (\d+)\.")
UNKNOWN_SETTING: Final = 115
STREAMED: Final = frozenset({"Native", "RowBinary", "TabSeparated", "TSV", "CSV", "JSONEachRow"})
"""Formats without header or footer: the engine's chunks, put one after another, are the whole answer."""

_UNSAFE: Final = re.compile(r"[?&#%\s]")
_LEADING: Final = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
_QUOTED: Final = r"""'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|"(?:[^"\\]|\\.)*\""""
_INSERT: Final = re.compile(
    (
        rf"{_LEADING}(?P<head>INSERT\s+INTO\b(?:{_QUOTED}|[^'`\"])*?)"
        r"\bFORMAT\s+(?P<format>\w+)[ \t]*;?(?:\r?\n|\s|\Z)"
    ).encode(),
    re.IGNORECASE | re.DOTALL,
)
_READS: Final = re.compile(rf"{_LEADING}\(?\s*(SELECT|WITH)\b".encode(), re.IGNORECASE | re.DOTALL)
_TRAILING_FORMAT: Final = re.compile(rb"\bFORMAT\s+(\w+)\s*;?\s*\Z", re.IGNORECASE)
_HEAD_LIMIT: Final = 1 << 16
"""An INSERT statement's text ends within this many bytes; only data comes later."""


class EngineError(Exception):
    """The engine refused or failed a statement; `code` is ClickHouse's number, 0 where it gave none."""

    def __init__(self, message: str) -> None:
        start = message.find("Code: ")
        super().__init__(message[start:] if start > 0 else message)
        found = ERROR_CODE.search(message)
        self.code = int(found[1]) if found else 0


class EngineBusyError(Exception):
    """Another process has this data directory."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One request: the text, its data where it is an insert, and what it runs under."""

    sql: bytes
    data: bytes | None
    format: str
    database: str
    settings: Mapping[str, str]
    parameters: Mapping[str, str]

    @property
    def reads(self) -> bool:
        """Whether the statement only selects."""
        return self.data is None and _READS.match(self.sql) is not None

    @property
    def streams(self) -> bool:
        """Whether its answer can leave chunk by chunk."""
        return self.reads and self.format in STREAMED


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gave: bytes in `format`, what it read from tables, and how many rows it wrote."""

    body: bytes
    format: str
    read_rows: int
    read_bytes: int
    written_rows: int


def statement(
    text: bytes,
    data: bytes,
    *,
    default_format: str = "TabSeparated",
    database: str = "",
    settings: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Statement:
    """Read one request as ClickHouse's HTTP interface does: `text` from the URL, then the body `data`.

    The data of `INSERT … FORMAT name` begins after the name and one line break; everything else is all text.
    """
    settings, parameters = settings or {}, parameters or {}
    insert = _INSERT.match(_joined(text, data[:_HEAD_LIMIT])[:_HEAD_LIMIT])
    if insert and insert["format"].upper() != b"VALUES":
        head, name = insert["head"].strip(), insert["format"].decode()
        return Statement(head, _after(text, data, insert.end()), name, database, settings, parameters)
    joined = _joined(text, data)
    found = _TRAILING_FORMAT.search(joined)
    output = found[1].decode() if found else default_format
    return Statement(joined, None, output, database, settings, parameters)


def _joined(text: bytes, data: bytes) -> bytes:
    return text + b"\n" + data if text and data else text or data


def _after(text: bytes, data: bytes, end: int) -> bytes:
    """What follows the first `end` bytes of both, joined; a body that is all of it is not copied."""
    start = end - len(text) - 1
    return data[start:] if text and data and start >= 0 else _joined(text, data)[end:]


def quote(text: str) -> str:
    """Return `text` as an SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Engine:
    """The engine over one data directory; made once in a process.

    `backups`: the one directory below which it writes and reads backups; without, it takes none.

    Raises EngineBusyError where another process has the directory, ValueError on a directory of backups whose
    name the engine would read as settings.
    """

    def __init__(self, directory: Path, backups: Path | None = None) -> None:
        if backups is not None and _UNSAFE.search(str(backups)):
            raise ValueError(f"backups cannot lie in `{backups}`: a name without ? & # % and spaces, please")
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock: IO[str] = (directory / ".licet-front.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise EngineBusyError(f"another process has `{directory}` open") from error
        self._path = str(directory)
        if backups is not None:
            self._path += f"?backups.allowed_path={backups.absolute()}/"
        self._connect: Any = importlib.import_module("chdb").connect  # 180 MB: only here
        self._root: Any = self._connect(self._path)  # keeps the engine alive between requests

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the engine and give the directory free. Idempotent."""
        if self._root is not None:
            self._root.close()
            self._root = None
            self._lock.close()

    def run(self, request: Statement) -> Answer:
        """Run one statement and return its whole answer; raises EngineError."""
        handle = self._handle(request)
        try:
            if request.data is not None:
                return _insert(handle, request)
            result = handle.query(_text(request.sql), request.format, params=dict(request.parameters))
            read = result.storage_rows_read(), result.storage_bytes_read()
            return Answer(result.bytes() or b"", request.format, *read, result.rows_written())
        except EngineError:
            raise
        except (RuntimeError, ValueError) as error:
            raise EngineError(str(error)) from error
        finally:
            handle.close()

    def stream(self, request: Statement) -> Iterator[bytes]:
        """Run one select and yield its answer in chunks; raises EngineError, also midway."""
        handle = self._handle(request)
        try:
            with handle.send_query(
                _text(request.sql), request.format, params=dict(request.parameters)
            ) as chunks:
                for chunk in chunks:
                    yield chunk.bytes()
        except (RuntimeError, ValueError) as error:
            raise EngineError(str(error)) from error
        finally:
            handle.close()

    def _handle(self, request: Statement) -> Any:
        if self._root is None:
            raise EngineError("Code: 210. the engine is closed")
        handle = self._connect(self._path)
        try:
            if request.database and request.database != "default":
                handle.query("USE `" + request.database.replace("\\", "\\\\").replace("`", "\\`") + "`")
            for name, value in request.settings.items():
                handle.query(f"SET {_setting(name)} = {quote(value)}")
        except EngineError:
            handle.close()
            raise
        except (RuntimeError, ValueError) as error:
            handle.close()
            raise EngineError(str(error)) from error
        return handle


def _setting(name: str) -> str:
    if not SETTING_NAME.fullmatch(name):
        raise EngineError(f"Code: {UNKNOWN_SETTING}. unknown setting `{name}`")
    return name


def _insert(handle: Any, request: Statement) -> Answer:
    assert request.data is not None
    with handle.send_insert(_text(request.sql), request.format) as inserter:
        if request.data:
            inserter.append(request.data)
        done = inserter.finish()
    return Answer(b"", request.format, 0, 0, done.rows_written)


def _text(sql: bytes) -> str:
    try:
        return sql.decode()
    except UnicodeDecodeError as error:
        raise EngineError("Code: 62. the statement is not UTF-8 (SYNTAX_ERROR)") from error
