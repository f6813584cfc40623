"""Files that people keep: there whole and durable, or not at all.

Guarantees: whatever ends the writing, under the file's name there is nothing, or all of it, synced to the
disk; what was there before is never replaced. Not guaranteed: that a kill leaves no hidden `.partial`
beside it, with the mode that the file would have had.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def new_file(path: Path, mode: int = 0o666) -> Iterator[IO[str]]:
    """Give a UTF-8 file to write, which gets the name `path` when the block ends well; `mode` before umask.

    Raises FileExistsError where the name is taken, before or after; OSError; what the block raises.
    """
    if path.exists():
        raise FileExistsError(f"`{path}` is there already")
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            _name(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _name(partial: Path, path: Path) -> None:
    try:
        os.link(partial, path)  # unlike rename, fails when the name is taken
    except FileExistsError:
        raise
    except OSError:  # a medium without links, such as a memory stick
        if path.exists():
            raise
        partial.rename(path)
