"""A first `tools.yaml` from what an MCP server lists: strict guesses, each for the owner to look at.

Nothing of the server's own words stands in the draft but names, escaped into one line of ASCII: a description
could hold another line of YAML, or words meant for a model. Whose a resource is cannot be guessed; methods
that change something are waived until their owner has looked. Pure: a list in, text out.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from decider.catalog.guess import Guess, guess_tool
from decider.catalog.lint import DRAFT_WAIVER, FLOATS_TIER
from decider.catalog.mcp import McpTool, McpTools
from decider.catalog.verbs import TIERS, words_of
from licet.call import CatalogError
from licet.catalog.fields import Kind, SchemaFields
from licet.catalog.mcp import mcp_path

_NAMES: Final = re.compile(r"(?:.*_)?(?:id|key|path|name|number|owner|repo|slug|ref|url|uri|email)\Z")
_SECRETS: Final = re.compile(
    r"(?:.*_)?(?:password|passwd|passphrase|secret|api_?key|private_?key|credentials?|token)\Z"
)
_NO_SECRETS: Final = re.compile(r"(?:.*_)?(?:page|next|continuation|cursor|max|sync)_?tokens?\Z")
_PATH_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MOST_NAMES: Final = 4


def draft_mcp(tool: str, listed: McpTools) -> str:
    """Return the text of a first `tools.yaml` for the tools of an MCP server."""
    lines = [
        "# A draft: each `guessed` wants a look. Then: licet catalog lint DIR",
        f"tool: {tool}",
        "methods:",
    ]
    for one in listed:
        lines.extend(_method(tool, one))
    lines.extend(
        f"  # left out: {json.dumps(unusable.name[:100])}: {_line(unusable.why)}"
        for unusable in listed.unusable
    )
    return "\n".join(lines) + "\n"


def guess_of(listed: McpTool) -> Guess:
    """Return the tier that everything known of a listed tool suggests, and why."""
    return guess_tool(
        listed.name,
        title=listed.title,
        description=listed.description,
        schema=listed.schema,
        annotations=listed.annotations,
    )


def _method(tool: str, listed: McpTool) -> Iterator[str]:
    guess, shape = guess_of(listed), json.loads(listed.closed.text)
    fields = SchemaFields(listed.closed.text)
    path = mcp_path(tool, listed.name).removeprefix("/")
    yield f"  {path}:"
    if "%" in path:
        yield f"    # is called {json.dumps(listed.name[:100])}"
    yield f"    tier: {guess.tier}  # guessed: {_line(guess.why)}"
    names = _identifiers(shape, fields)
    if names:
        parts = "/".join(f"{{{name}}}" for name in names)
        yield f'    resource: "{_kind(listed.name, names)}:{parts}"  # guessed: what it must be told'
    secrets = [name for name in shape["properties"] if _secret(name, fields)]
    if secrets:
        yield f"    sensitive: [{', '.join(secrets)}]  # guessed from the names"
    if guess.tier == 5:
        yield "    approvers: {owner: 1}  # guessed: who must approve, and how many"
    elif guess.tier == 4:
        yield "    unguarded: at_most_once  # guessed: an outcome that is not known goes to a person"
    if guess.tier >= FLOATS_TIER:
        yield f'    waiver: "{DRAFT_WAIVER}"'
    words = " ".join(words_of(listed.name)[:8]).capitalize() or "Call a tool"
    yield f'    say: "{" ".join([words, *(f"{{{name}}}" for name in names)])}"'
    for note in listed.closed.notes:
        yield f"    # the server's schema: {_line(note)}"


def _identifiers(shape: Any, fields: SchemaFields) -> tuple[str, ...]:
    """Return the names of what the tool must be told and that look like what it touches."""
    found = [
        name
        for name in shape["properties"]
        if name in shape.get("required", ())
        and _kind_at(name, fields) in {Kind.INTEGER, Kind.TEXT}
        and _NAMES.match("_".join(words_of(name)))
    ]
    return tuple(found[:_MOST_NAMES])


def _secret(name: str, fields: SchemaFields) -> bool:
    spelled = "_".join(words_of(name))
    secret = bool(_SECRETS.match(spelled)) and not _NO_SECRETS.match(spelled)
    return secret and _kind_at(name, fields) is Kind.TEXT


def _kind_at(name: str, fields: SchemaFields) -> Kind | None:
    try:
        return fields.kind(name) if _PATH_NAME.match(name) else None
    except CatalogError:
        return None


def _kind(name: str, names: tuple[str, ...]) -> str:
    """Return the kind of the resource: what the last name is of, else what the tool's name speaks of."""
    last = words_of(names[-1])[:-1]
    about = [word for word in words_of(name) if word not in TIERS]
    return "_".join((last or tuple(about) or ("resource",))[:4])[:64]


def _line(text: str) -> str:
    """Return a text as a comment may have it: printable ASCII in one line."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)[:300]
