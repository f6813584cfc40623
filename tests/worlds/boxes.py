"""Images as boxes: a container's command in the image's own file system, as a container runtime would run it.

In a box the root is read only, the process is the chart's user with no capability and no way to get one, and
what is mounted lies where the chart says. What is not here: a network or a process namespace of its own.
Needs root, and the image's root directory (`buildah mount`).
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RUN: Final = """
set -eu
root="$1"; shift
mount --bind "$root" "$root"
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
while [ "$1" != -- ]; do
  mount --bind "$1" "$root$2"
  [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
  shift 3
done
shift
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""
"""In a mount namespace of its own: root, (directory, path, ro or rw) of each mount, `--`, the command."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume in a box."""

    directory: Path
    path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Box:
    """An image: its root directory and what it sets for every process."""

    root: Path
    environment: Mapping[str, str]

    def command(
        self, mounts: Sequence[Mount], *, user: int, group: int, shared: int, words: Sequence[str]
    ) -> list[str]:
        """Return the command that runs `words` in this box; it stays one process, and ends with this one."""
        listed = []
        for mount in mounts:
            # A runtime makes the places of mounts before it closes the root.
            place = inside(self.root, mount.path)
            (self.root / place).mkdir(parents=True, exist_ok=True)
            listed += [str(mount.directory), f"/{place}", "ro" if mount.read_only else "rw"]
        as_nobody = (
            "/usr/bin/setpriv", f"--reuid={user}", f"--regid={group}", f"--groups={shared}", "--no-new-privs",
            "--bounding-set=-all", "--inh-caps=-all", "--pdeathsig=KILL",
        )  # fmt: skip
        return [
            "unshare", "--mount", "sh", "-c", RUN, "sh", str(self.root), *listed, "--", *as_nobody, *words
        ]  # fmt: skip


def inside(root: Path, path: str) -> str:
    """Return where a path lies below a root that has links of its own, such as /var/run."""
    parts, here = path.strip("/").split("/"), Path()
    while parts:
        part = parts.pop(0)
        link = root / here / part
        if link.is_symlink():
            target = str(link.readlink())
            here = Path() if target.startswith("/") else here
            parts = [*target.strip("/").split("/"), *parts]
        else:
            here = here.parent if part == ".." else here / part
    return str(here)


def give_to(directory: Path, group: int) -> None:
    """Let the pod's group have a volume, as `fsGroup` does: files keep what others may not do."""
    for path in (directory, *directory.rglob("*")):
        os.chown(path, -1, group)
        mode = path.stat().st_mode
        path.chmod(mode | (0o2070 if path.is_dir() else (mode & 0o600) >> 3))


def read_boxes(file: Path) -> dict[str, Box]:
    """Return the boxes that `scripts/images` names, by the image's name."""
    listed = json.loads(file.read_text("utf-8"))
    return {name: Box(Path(one["root"]), one["environment"]) for name, one in listed.items()}


def image_name(reference: str) -> str:
    """Return the name of an image without registry, tag and digest."""
    return reference.rpartition("/")[2].partition("@")[0].partition(":")[0]
