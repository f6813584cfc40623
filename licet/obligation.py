"""The obligations that a door itself can do; a tool's side may know more, as its catalog says. Pure."""

from typing import Any, Final

from licet.call import Plan
from licet.refusal import Reason, Refusal

MASK_REPLY: Final = "mask_reply"
"""`paths` are cleared in the reply, and error texts of the tool do not leave."""

DOOR_OBLIGATIONS: Final = frozenset({MASK_REPLY})
"""Obligations that every door can do."""


def check_masked(output: Plan | None, paths: tuple[str, ...]) -> Refusal | None:
    """Check that every path names a field of the reply: after the effect it is too late to find out."""
    if output is None:
        return Refusal(Reason.OBLIGATION_UNKNOWN, "a reply of unknown type cannot be masked")
    for path in paths:
        descriptor: Any = output.root.message_class.DESCRIPTOR
        for name in path.split("."):
            field = descriptor.fields_by_name.get(name) if descriptor is not None else None
            if field is None:
                return Refusal(Reason.OBLIGATION_UNKNOWN, f"the reply has no field `{path}`")
            descriptor = field.message_type
            if descriptor is not None and descriptor.GetOptions().map_entry:
                descriptor = descriptor.fields_by_name["value"].message_type
    return None
