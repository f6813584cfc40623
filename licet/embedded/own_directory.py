"""The data directory of `licet up` is made for one process, and for no repository: it holds every key.

Guaranteed: one process at a time, as long as the kernel keeps locks of this file system; git sees nothing in
a directory that was empty or absent at first. Not guaranteed: anything of a directory that already held
files: it may be a person's work tree, and what git sees there is theirs to say.
"""

import fcntl
import os
from pathlib import Path

from licet.embedded.layout import DataLayout
from licet.embedded.process import StartError


def take_directory(layout: DataLayout) -> int:
    """Make the data directory where it is missing, and return the lock that keeps it.

    Raises:
        StartError: another process has it.
        OSError: it cannot be made.
    """
    layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    _hide_from_git(layout.root)
    return _lock(layout)


def _hide_from_git(directory: Path) -> None:
    """A `git add .` around a new data directory must not take its keys along."""
    if not any(directory.iterdir()):
        (directory / ".gitignore").write_text("*\n", "ascii")


def _lock(layout: DataLayout) -> int:
    """Take the data directory for this process alone; the kernel gives it free when the process ends."""
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StartError(
            f"`{layout.root}` is in use by another `licet up`: stop that one, or name another directory "
            "with --data"
        ) from None
    return descriptor
