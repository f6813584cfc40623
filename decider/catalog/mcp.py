"""The tools of an MCP server, as its `tools/list` answers: read from a file, without believing any of it.

Guarantees of `McpTools`: names are unique; every schema is one that arguments can be checked by, closed where
the server's is open (`decider.catalog.close`); what cannot be used is in `unusable` with its reason and is
never listed half. Text of the server is only ever hashed or judged, never put into a catalog or on a screen.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from decider.catalog.close import Closed, NotClosableError, close_schema
from licet.catalog.mcp import mcp_name, mcp_path, model_facing_sha256

MAX_TOOLS: Final = 500
"""Tools of one list: what one catalog may list."""


class McpToolsError(ValueError):
    """A list of tools cannot be used; `str()` says why."""


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool that can be listed."""

    name: str
    closed: Closed
    model_facing_sha256: bytes
    title: str = ""
    description: str = field(default="", repr=False)
    schema: Any = field(default=None, repr=False)
    annotations: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Unusable:
    """A tool that cannot be listed, and why; `name` is the server's text."""

    name: str
    why: str


class McpTools:
    """The parsed answer to `tools/list`: the answer, the JSON-RPC response around it, or the bare list.

    Raises `McpToolsError` where the bytes are no such answer.
    """

    def __init__(self, data: bytes = b'{"tools": []}') -> None:
        self.tools: dict[str, McpTool] = {}
        self.unusable: list[Unusable] = []
        seen: dict[str, Any] = {}
        for entry in _entries(data):
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if not isinstance(name, str):
                self.unusable.append(Unusable("", "a tool without a name"))
            elif name in seen:
                if entry != seen[name]:  # a client calls one of them, and nobody knows which
                    self._drop(name, "two tools have this name")
            else:
                seen[name] = entry
                self._add(name, entry)

    def _drop(self, name: str, why: str) -> None:
        if self.tools.pop(name, None) is not None:
            self.unusable.append(Unusable(name, why))

    def _add(self, name: str, entry: Mapping[str, Any]) -> None:
        description, title = entry.get("description"), entry.get("title")
        schema = entry.get("inputSchema", {})
        try:
            mcp_path("tool", name)
            self.tools[name] = McpTool(
                name,
                close_schema(schema),
                model_facing_sha256(name, description if isinstance(description, str) else "", schema),
                title if isinstance(title, str) else "",
                description if isinstance(description, str) else "",
                schema,
                entry.get("annotations"),
            )
        except (NotClosableError, ValueError, RecursionError) as error:
            self.unusable.append(Unusable(name, str(error) or "nested too deeply"))

    def at(self, path: str) -> McpTool | None:
        """Return the tool with this method path; None where there is none."""
        name = mcp_name(path)
        return None if name is None else self.tools.get(name)

    def __iter__(self) -> Iterator[McpTool]:
        """Yield the tools, in the order of the list."""
        yield from self.tools.values()


def _entries(data: bytes) -> list[Any]:
    try:
        parsed = json.loads(
            data.decode("utf-8", "strict"), object_pairs_hook=_object, parse_constant=_constant
        )
    except UnicodeDecodeError as error:
        raise McpToolsError(f"is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise McpToolsError("is nested too deeply") from error
    except McpToolsError:
        raise
    except ValueError as error:
        raise McpToolsError(f"is not JSON: {error}") from error
    for name in ("result", "tools"):
        if isinstance(parsed, dict) and name in parsed:
            parsed = parsed[name]
    if not isinstance(parsed, list):
        raise McpToolsError("is no answer to `tools/list`: it has no list `tools`")
    if len(parsed) > MAX_TOOLS:
        raise McpToolsError(f"lists {len(parsed)} tools, at most {MAX_TOOLS}")
    return parsed


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise McpToolsError("has a name twice in one object, so that two readers may see two tools")
    return found


def _constant(name: str) -> Any:
    raise McpToolsError(f"holds `{name}`, which is no JSON")
