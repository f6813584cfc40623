"""Relations from a file, `relations.yaml`, read again whenever it changed.

By resource, relation and people: `relations: {"supplier:S1": {manager: ["ana@t1.example.com"]}}`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from decider.relations.relation import RelationsUnavailable
from decider.source import SourceError, read
from licet.clock import wall_ns

SETTLED_NS: Final = 2_000_000_000
"""What changed less than this ago is read each time: a second change may leave the same time and size."""

Known = Mapping[str, Mapping[str, frozenset[str]]]
"""By resource and relation: who has it."""


class FileRelations:
    """A source of relations that is a file. A file that is missing, or has any fault, knows nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, int, int] | None = None
        self._known: Known = {}

    async def between(self, principal: str, resource: str) -> frozenset[str]:
        """Return what the file says now. Raises RelationsUnavailable."""
        try:
            found = self._path.stat()
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
            if state != self._state:
                self._state = None  # what cannot be read leaves nothing to go on with
                self._known = read_relations(self._path)
                settled = wall_ns() - found.st_mtime_ns > SETTLED_NS
                self._state = state if settled else None
        except (OSError, SourceError) as error:
            raise RelationsUnavailable(f"`{self._path.name}` cannot be read") from error
        named = self._known.get(resource, {})
        return frozenset(relation for relation, people in named.items() if principal in people)


def read_relations(path: Path) -> Known:
    """Return what a file says. Raises `SourceError` with every fault, OSError."""
    top, faults = read(path)
    listed = top.section("relations", required=True)
    known: dict[str, Mapping[str, frozenset[str]]] = {}
    for resource in listed.names() if listed is not None else ():
        inner = listed.section(resource) if listed is not None else None
        if inner is not None:
            known[resource] = {relation: frozenset(inner.texts(relation)) for relation in inner.names()}
    top.close()
    faults.raise_any()
    return known
