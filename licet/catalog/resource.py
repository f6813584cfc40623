"""How a resource id stands in a record when it may not stand there in clear: as an HMAC under the tool's key.

Guaranteed: one resource has one form wherever it is recorded for one tool and generation, so records join;
without the key the id cannot be had back nor tried. Not guaranteed: that the form lasts past the generation.
"""

import hmac
from hashlib import sha256
from typing import Final

from licet.catalog.template import Template

_DOMAIN: Final = b"licet-resource-v1\0"
_SHOWN_DIGITS: Final = 32


def hidden_resource(resource: str, template: Template | None, k_tool: bytes) -> str:
    """Return `order:hmac-…` for `order:O1`.

    The kind stands before it only where the template spells it: one that comes from an argument is part of
    what may not stand there.
    """
    if not resource:
        return ""
    digest = hmac.new(k_tool, _DOMAIN + resource.encode(), sha256).hexdigest()
    kind, colon, _ = (template.texts[0] if template is not None else "").partition(":")
    shown = f"{kind}{colon}" if colon and resource.startswith(f"{kind}:") else ""
    return f"{shown}hmac-{digest[:_SHOWN_DIGITS]}"
