"""Records on disk, in order, until somebody else has them.

A spool is a row of segment files, each named for the position of its first byte in the whole row. A record
is its length and its CRC-32 (u32 each, big-endian) and its bytes; its position is where it ends. `done`
says up to which position records need not be kept; it survives a kill, so what was done is not done again.

Guaranteed: a record for which `sync` returned survives kill -9 and power loss. A torn record at the end,
which no `sync` ever promised, is cut off when the spool is opened; damage before it is set aside in a
`.damaged` file. Only one process can have a spool open.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
SEGMENT_BYTES: Final = 4 << 20
MAX_RECORD_BYTES: Final = 1 << 20
READ_BYTES: Final = 256 * 1024

_HEAD: Final = struct.Struct(">II")
_DONE: Final = struct.Struct(">QI")


class SpoolError(Exception):
    """The spool cannot be used; whoever needed it denies."""


class SpoolFull(SpoolError):  # noqa: N818 - a state, told to callers as such
    """The spool holds as many bytes as it may; what it holds must be published first."""


class SpoolBroken(SpoolError):  # noqa: N818 - as above
    """The disk refused a write or a sync, or another process has this spool; only a restart helps."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What `open` found: how many records wait, and bytes that were no records."""

    records: int
    torn_bytes: int
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unsynced:
    """What is not durable yet: files left behind, the one being written, and whether it is a new one."""

    left: tuple[int, ...]
    current: int
    new: bool


@dataclass(slots=True)
class _Segment:
    start: int
    end: int
    path: Path


class Spool:
    """Blocking and for one thread, but for `sync`, which may run in another."""

    def __init__(self, directory: Path, lock: IO[bytes]) -> None:
        self._directory = directory
        self._lock = lock
        self._segments: list[_Segment] = []
        self._file: int = -1
        self._reader: tuple[Path, int] | None = None
        self._left: list[int] = []
        self._new = False
        self._done_file = os.open(directory / "done", os.O_RDWR | os.O_CREAT, FILE_MODE)
        self.done = 0
        self.end = 0
        self.recovery = Recovery(0, 0, ())

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Open or make the spool in `directory`. Raises SpoolBroken when another process has it."""
        directory.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        lock = (directory / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise SpoolBroken(f"spool `{directory}` is in use by another process") from error
        spool = cls(directory, lock)
        spool._recover()
        return spool

    @property
    def depth_bytes(self) -> int:
        """How many bytes wait."""
        return self.end - self.done

    def append(self, record: bytes) -> int:
        """Write `record` and return its position; durable after the next `sync`.

        Raises:
            ValueError: it is larger than 1 MiB.
            SpoolBroken: the disk refused; nothing of the record remains.
        """
        if len(record) > MAX_RECORD_BYTES:
            raise ValueError(f"a record of {len(record)} bytes is larger than {MAX_RECORD_BYTES}")
        if not self._segments or self._segments[-1].end - self._segments[-1].start >= SEGMENT_BYTES:
            self._rotate()
        framed = _HEAD.pack(len(record), zlib.crc32(record)) + record
        segment = self._segments[-1]
        try:
            written = os.write(self._file, framed)
        except OSError as error:
            self._cut(segment)
            raise SpoolBroken(f"cannot write to spool `{self._directory}`: {error.strerror}") from error
        if written != len(framed):
            self._cut(segment)
            raise SpoolBroken(f"cannot write to spool `{self._directory}`: the disk is full")
        segment.end += written
        self.end = segment.end
        return self.end

    def unsynced(self) -> "Unsynced":
        """Return what `sync` must make durable for every record appended so far to be."""
        left, self._left = self._left, []
        new, self._new = self._new, False
        return Unsynced(tuple(left), self._file, new)

    def sync(self, files: "Unsynced") -> None:
        """Make `files` durable; safe in another thread, one at a time.

        Raises SpoolBroken; after that nothing can be promised: the kernel may have dropped what it could
        not write.
        """
        try:
            if files.new:
                self._sync_directory()
            for left in files.left:
                os.fdatasync(left)
                os.close(left)
            if files.current >= 0:
                os.fdatasync(files.current)
        except OSError as error:
            raise SpoolBroken(f"cannot sync spool `{self._directory}`: {error.strerror}") from error

    def read(self, position: int) -> Iterator[tuple[int, bytes]]:
        """Yield (position, record) of some records that begin at `position`; none when there are none."""
        segment = next((part for part in self._segments if part.end > position), None)
        if segment is None:
            return
        position = max(position, segment.start)  # bytes that were damaged leave a gap in the positions
        offset = position - segment.start
        block = os.pread(self._open_reader(segment.path), READ_BYTES, offset)
        if len(block) >= _HEAD.size:
            needed = _HEAD.size + _HEAD.unpack_from(block)[0]
            if needed > len(block):
                block = os.pread(self._open_reader(segment.path), needed, offset)
        for end, record in _records(block[: segment.end - position]):
            yield position + end, record

    def finish(self, position: int) -> None:
        """Records up to `position` need not be kept; whole segments of them go."""
        if position <= self.done:
            return
        self.done = position
        packed = position.to_bytes(8, "big")
        os.pwrite(self._done_file, packed + zlib.crc32(packed).to_bytes(4, "big"), 0)
        while len(self._segments) > 1 and self._segments[0].end <= position:
            self._remove(self._segments.pop(0))

    def close(self) -> None:
        """Sync, remove what is done, and let another process have the spool."""
        self.sync(self.unsynced())
        if self.done == self.end:
            for segment in self._segments:
                self._remove(segment)
            self._segments.clear()
        if self._reader is not None:
            os.close(self._reader[1])
            self._reader = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        os.close(self._done_file)
        self._lock.close()

    def _remove(self, segment: _Segment) -> None:
        if self._reader is not None and self._reader[0] == segment.path:
            os.close(self._reader[1])
            self._reader = None
        segment.path.unlink(missing_ok=True)

    def _open_reader(self, path: Path) -> int:
        if self._reader is None or self._reader[0] != path:
            if self._reader is not None:
                os.close(self._reader[1])
            self._reader = (path, os.open(path, os.O_RDONLY))
        return self._reader[1]

    def _cut(self, segment: _Segment) -> None:
        os.ftruncate(self._file, segment.end - segment.start)

    def _sync_directory(self) -> None:
        parent = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    def _rotate(self) -> None:
        path = self._directory / f"{self.end:020d}.seg"
        try:
            fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
        except OSError as error:
            raise SpoolBroken(f"cannot write to spool `{self._directory}`: {error.strerror}") from error
        if self._file >= 0:
            self._left.append(self._file)
        self._file = fresh
        self._new = True  # its name is synced with its first records, by whoever waits for those
        self._segments.append(_Segment(self.end, self.end, path))

    def _recover(self) -> None:
        raw = os.pread(self._done_file, _DONE.size, 0)
        if len(raw) == _DONE.size and zlib.crc32(raw[:8]) == _DONE.unpack(raw)[1]:
            self.done = _DONE.unpack(raw)[0]
        torn, damaged, waiting = 0, [], 0
        paths = sorted(self._directory.glob("*.seg"))
        for path in paths:
            segment, rest = self._check(path)
            waiting += sum(1 for position, _ in self._all(segment) if position > self.done)
            if rest and path == paths[-1]:
                torn += rest
            elif rest:
                damaged.append(path.name)
            self._segments.append(segment)
        self.end = max([self.done, *(segment.end for segment in self._segments)])
        self.recovery = Recovery(waiting, torn, tuple(damaged))
        for segment in tuple(self._segments):
            if segment.end <= max(self.done, segment.start):
                self._segments.remove(segment)
                self._remove(segment)
        self._rotate()  # a new run begins a segment of its own

    def _check(self, path: Path) -> tuple[_Segment, int]:
        """Return the segment in `path` up to its first byte that is no record, and how many bytes follow."""
        start, content = int(path.stem), path.read_bytes()
        good = 0
        for end, _ in _records(content):
            good = end
        rest = len(content) - good
        if rest:
            path.with_suffix(".damaged").write_bytes(content[good:])
            os.truncate(path, good)
        return _Segment(start, start + good, path), rest

    def _all(self, segment: _Segment) -> Iterator[tuple[int, bytes]]:
        for end, record in _records(segment.path.read_bytes()):
            yield segment.start + end, record


def _records(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (offset of its end, record) for every whole record of `block`, up to the first that is none."""
    offset = 0
    while len(block) - offset >= _HEAD.size:
        length, checksum = _HEAD.unpack_from(block, offset)
        record = block[offset + _HEAD.size : offset + _HEAD.size + length]
        if length > MAX_RECORD_BYTES or len(record) != length or zlib.crc32(record) != checksum:
            return
        offset += _HEAD.size + length
        yield offset, record
