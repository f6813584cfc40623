"""Templates over argument paths: `order:{order_id}` makes a resource id, `Refund {amount}` a plain summary.

A resource id is unambiguous: every value is percent-encoded (RFC 3986: all but letters, digits, `-`, `.`,
`_`, `~`), and between two values stands a character that no encoded value holds. So no value can play
another part of the id.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote

_PART = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)\}", re.ASCII)
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]*", re.ASCII)
_RESOURCE_TEXT = re.compile(r"[!#-$&-z|~]*", re.ASCII)

MAX_TEMPLATE_BYTES = 512
"""Length of a template."""


@dataclass(frozen=True, slots=True)
class Template:
    """Literal texts with a path between each two: `texts[0] paths[0] texts[1] … texts[-1]`."""

    texts: tuple[str, ...]
    paths: tuple[str, ...]

    def render(self, values: tuple[str, ...]) -> str:
        """Return the text with one value for each path, in order; raises ValueError on another number."""
        pairs = zip(self.texts[1:], values, strict=True)
        return self.texts[0] + "".join(value + text for text, value in pairs)

    def identify(self, values: tuple[str, ...]) -> str:
        """Return the text with each value percent-encoded."""
        return self.render(tuple(quote(value, safe="") for value in values))

    def check_resource(self) -> None:
        """Raise ValueError if two different lists of values could give one resource id."""
        if not all(_RESOURCE_TEXT.fullmatch(text) for text in self.texts):
            raise ValueError("a resource template holds a space, a quote, `%` or no ASCII")
        if any(_UNRESERVED.fullmatch(text) for text in self.texts[1:-1]):
            raise ValueError("two paths of a resource template need a separator such as `:` between them")


def read_template(text: str) -> Template:
    """Return the template that `text` spells; raises ValueError on braces that hold no path."""
    if len(text.encode()) > MAX_TEMPLATE_BYTES:
        raise ValueError(f"a template of more than {MAX_TEMPLATE_BYTES} bytes")
    parts = _PART.split(text)
    texts, paths = tuple(parts[::2]), tuple(parts[1::2])
    if any(brace in text for text in texts for brace in "{}"):
        raise ValueError(f"template `{text}` has braces that hold no path")
    return Template(texts, paths)
