"""Policies to start from: the packs that come with this distribution, or lie in its source checkout."""

from pathlib import Path
from typing import Final

import decider

MANIFEST: Final = "bundle.yaml"
TEXTS: Final = (
    "bundle.yaml",
    "rules.cedar",
    "schema.cedarschema",
    "entities.yaml",
    "relations.yaml",
    "tests.yaml",
    "tools.yaml",
    "tasks.yaml",
    "descriptors.binpb",
)
"""What a policy directory of a pack may have; what is none of these is not copied."""


class PackError(ValueError):
    """There is no such pack, or no place for it; `str()` says what to do."""


def packs() -> dict[str, Path]:
    """Return the policy directory of each pack, by name.

    A wheel has them beside this module, a source checkout under `examples/packs`.
    """
    checkout = Path(decider.__file__).resolve().parents[1] / "examples" / "packs"
    found = [path.parent for path in Path(__file__).parent.glob(f"*/{MANIFEST}")]
    named = {path.name: path for path in found}
    return named or {path.parent.parent.name: path.parent for path in checkout.glob(f"*/policy/{MANIFEST}")}


def copy_pack(name: str, directory: Path) -> tuple[Path, ...]:
    """Copy a pack's policy into `directory`; return what was written.

    Nothing is overwritten: a file that is there already is a PackError, and then nothing is written. Raises
    OSError.
    """
    known = packs()
    if name not in known:
        raise PackError(f"there is no pack `{name}`; known: {', '.join(sorted(known)) or 'none'}")
    sources = [known[name] / text for text in TEXTS if (known[name] / text).is_file()]
    taken = [directory / path.name for path in sources if (directory / path.name).exists()]
    if taken:
        raise PackError(f"`{taken[0]}` is there already: name a new directory")
    directory.mkdir(parents=True, exist_ok=True)
    for source in sources:
        (directory / source.name).write_bytes(source.read_bytes())
    return tuple(directory / source.name for source in sources)
