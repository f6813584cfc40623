"""What tools really serve, from files that their deployments write, against what their catalogs list.

A file is a descriptor set, or as `*.json` the answer of an MCP server to `tools/list`. Guarantees: a method
that is served otherwise than listed is held, for as long as it is; so is every method of a tool whose file
cannot be read, because nobody knows what it serves then. A tool without a file is not looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from decider.catalog.descriptors import DescriptorsError
from decider.catalog.drift import drifted, served_by
from decider.catalog.mcp import McpToolsError
from decider.source import SourceError
from licet.catalog import Catalog, Method

UNREADABLE = "what is served cannot be read"


@dataclass(frozen=True, slots=True)
class Change:
    """A method that began to be served otherwise than listed, or, with an empty `how`, ceased to."""

    tool: str
    method: str
    how: str


class Drift:
    """Which methods are served otherwise than listed, as of the last look. Shared by all that decide."""

    def __init__(self, files: Mapping[str, Path] | None = None) -> None:
        self._files = dict(files or {})
        self._found: dict[str, Mapping[str, str]] = {}
        self._looked: dict[str, tuple[int, int, int] | None] = {}

    def covers(self, catalog: Catalog, method: Method) -> bool:
        """Tell whether the method, or what its facts are read from, is served otherwise than listed."""
        found = self._found.get(catalog.tool)
        if not found:
            return False
        return method.path in found or (method.facts is not None and method.facts.method in found)

    def look(self, catalogs: Mapping[str, Catalog]) -> tuple[Change, ...]:
        """Look at each file that changed since the last time; return what is otherwise than it was."""
        changes: list[Change] = []
        for catalog in catalogs.values():
            path = self._files.get(catalog.tool)
            if path is not None:
                changes.extend(self._look(catalog, path))
        return tuple(changes)

    def _look(self, catalog: Catalog, path: Path) -> list[Change]:
        state = _state(path)
        if state is not None and self._looked.get(catalog.tool) == state:
            return []
        self._looked[catalog.tool] = state
        before, after = self._found.get(catalog.tool, {}), _read(catalog, path)
        self._found[catalog.tool] = after
        return [
            Change(catalog.tool, method, after.get(method, ""))
            for method in sorted(before.keys() | after.keys())
            if before.get(method, "") != after.get(method, "")
        ]


NO_DRIFT = Drift()
"""Where no file says what is served."""


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(catalog: Catalog, path: Path) -> Mapping[str, str]:
    try:
        return drifted(catalog, **served_by(path))
    except (SourceError, DescriptorsError, McpToolsError):
        return dict.fromkeys(catalog.methods, UNREADABLE)
