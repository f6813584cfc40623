"""How an MCP tool is named and pinned: its method path, and the digest of what a model is shown of it.

Each name has one path and each path one name: `/mcp.<tool>/<name>`, the name percent-encoded (RFC 3986: all
but letters, digits, `-`, `.`, `_`, `~`; a name of dots alone, too). So two names that look alike are two
paths that do not, and no name can reach into another's path.
"""

import re
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, unquote

import rfc8785

MCP_PREFIX: Final = "/mcp."
"""What the path of every MCP tool begins with."""

MAX_NAME_BYTES: Final = 256
"""Length of a tool's name, in UTF-8."""

_PATH: Final = re.compile(r"/mcp\.[a-z0-9_-]{1,64}/([A-Za-z0-9._~%-]{1,768})", re.ASCII)
_EXACT: Final = 2**53 - 1


def mcp_path(tool: str, name: str) -> str:
    """Return the method path of the MCP tool called `name` of the catalog's tool `tool`.

    Raises ValueError on a name that is empty, too long, or holds a lone surrogate.
    """
    if not name or len(name.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"a tool's name is 1 to {MAX_NAME_BYTES} bytes of UTF-8")
    spelled = quote(name, safe="")
    return f"{MCP_PREFIX}{tool}/{spelled if spelled.strip('.') else spelled.replace('.', '%2E')}"


def mcp_name(path: str) -> str | None:
    """Return the tool name that a path spells, or None where it is not the one path of any name."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    try:
        name = unquote(found[1], errors="strict")
        return name if mcp_path(path[len(MCP_PREFIX) :].partition("/")[0], name) == path else None
    except ValueError:
        return None


def is_mcp_path(path: str) -> bool:
    """Tell whether a path is that of an MCP tool."""
    return mcp_name(path) is not None


def model_facing_sha256(name: str, description: str, schema: Any) -> bytes:
    """Return the SHA-256 over what a model is shown of a tool: RFC 8785 of name, description, input schema.

    `schema` is parsed JSON. Integers that a double does not hold stand as the double they are, as RFC 8785
    has it. Raises ValueError on what is no JSON.
    """
    shown = {"name": name, "description": description, "inputSchema": _as_doubles(schema)}
    return sha256(rfc8785.dumps(shown)).digest()


def _as_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_doubles(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_doubles(part) for part in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return float(value)
    return value
