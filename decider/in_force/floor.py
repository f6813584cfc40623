"""The highest configuration that this decider ever took, kept beside its spool: a restart forgets nothing.

The active record in JetStream is not signed; what it names is. Whoever can write there can name a bundle,
key set or revocation list that was lawful once. A running decider refuses to go back; this file has a decider
that was restarted refuse it, too. Guarantees: raised before the first decision under a configuration, synced
to disk, never lowered but by a higher generation. Each decider keeps its own; a new one has none, and takes
what the stream remembers (`decider.in_force.configuration`). Where the stream was replaced as well, the
doors, who refuse a beacon that goes back, are what remains.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from decider.in_force.in_force import InForce

FILE: Final = "configuration.floor"
MAX_BYTES: Final = 4_096


class FloorDamaged(Exception):  # noqa: N818 - a state of the file, told to whoever starts the decider
    """The file is there and cannot be read; `str()` says what to do."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The versions of one configuration."""

    generation: int
    config_seq: int
    keyset: int
    bundle: int
    bundle_sha256: str
    revocations: int

    def refuses(self, new: "Marks") -> str:
        """Return why `new` may not follow, empty where it may. A higher generation starts anew."""
        if new.generation > self.generation:
            return ""
        pairs = (
            ("generation", self.generation, new.generation),
            ("configuration", self.config_seq, new.config_seq),
            ("key set", self.keyset, new.keyset),
            ("bundle", self.bundle, new.bundle),
            ("revocation list", self.revocations, new.revocations),
        )
        for name, before, after in pairs:
            if after < before:
                return f"{name} goes back from {before} to {after}"
        if new.bundle == self.bundle and new.bundle_sha256 != self.bundle_sha256:
            return f"two bundles have the version {new.bundle}: give the changed one a greater version"
        return ""


def marks_of(in_force: InForce) -> Marks:
    """Return the versions of a configuration."""
    return Marks(
        generation=in_force.generation,
        config_seq=in_force.config_seq,
        keyset=in_force.keys.version,
        bundle=in_force.bundle.version,
        bundle_sha256=in_force.config.bundle_sha256.hex(),
        revocations=in_force.revocations.seq,
    )


class Floor:
    """The marks in a file. Raises `FloorDamaged` where the file is none of ours, OSError where it is shut."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._marks = self._read()

    def _read(self) -> Marks | None:
        try:
            text = self._path.read_bytes()[:MAX_BYTES]
        except FileNotFoundError:
            return None
        try:
            values = json.loads(text)
            return Marks(
                generation=int(values["generation"]),
                config_seq=int(values["config_seq"]),
                keyset=int(values["keyset"]),
                bundle=int(values["bundle"]),
                bundle_sha256=str(values["bundle_sha256"]),
                revocations=int(values["revocations"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FloorDamaged(
                f"`{self._path}` cannot be read: it says below which bundle nothing may come into force; "
                "restore it, or remove it if you know what was in force last"
            ) from error

    def seq_in(self, generation: int) -> int:
        """Return the sequence of the highest record that was taken in a generation; 0 for none."""
        marks = self._marks
        return marks.config_seq if marks is not None and marks.generation == generation else 0

    def refuses(self, in_force: InForce) -> str:
        """Return why a configuration may not come into force, empty where it may."""
        return "" if self._marks is None else self._marks.refuses(marks_of(in_force))

    def keep(self, in_force: InForce) -> None:
        """Raise the floor to a configuration that was taken. Raises OSError."""
        marks = marks_of(in_force)
        if marks == self._marks:
            return
        partial = self._path.with_name(f".{self._path.name}.partial")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="ascii") as file:
            json.dump(asdict(marks), file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        self._marks = marks
