"""What of a tool's answer may leave: all of it, or only what the permit's mask obligation lets through.

Guaranteed: nothing that licet and its tool say to one another leaves (`licet-*`), nor transport keys. With
a mask obligation the named fields are cleared in the reply, and metadata, trailers, message and details of
the tool do not leave at all, since an error text may hold what the reply must not. Not guaranteed: that a
tool does not put a masked value into a field that is not named.
"""

from typing import Final

from google.protobuf.message import Message

from licet.call import Plan
from licet.obligation import MASK_REPLY
from licet.permit import Permit
from sidecar.exchange import OK, Answered, Pairs, ToolAnswer

_OWN_PREFIXES: Final = ("licet-", "grpc-", ":")
_STATUS_DETAILS: Final = "grpc-status-details-bin"


def masked(permit: Permit, answer: ToolAnswer, trailers: Pairs) -> Answered:
    """Return `answer` as the caller may see it, with `trailers` of our own added."""
    masks = [one for one in permit.decision.obligations if one.id == MASK_REPLY]
    if masks:
        paths = tuple(path for one in masks for path in one.paths)
        body = cleared(permit.method.output, answer.body, paths) if answer.code == OK else b""
        return Answered(code=answer.code, message="", body=body, metadata=(), trailers=trailers)
    return Answered(
        code=answer.code,
        message=answer.message,
        body=answer.body,
        metadata=outbound(answer.metadata),
        trailers=(*outbound(answer.trailers), *trailers),
    )


def outbound(pairs: Pairs) -> Pairs:
    """Return the metadata of a tool that a caller may see."""
    return tuple(
        [pair for pair in pairs if pair[0] == _STATUS_DETAILS or not pair[0].startswith(_OWN_PREFIXES)]
    )


def cleared(output: Plan | None, body: bytes, paths: tuple[str, ...]) -> bytes:
    """Return a reply without the fields at `paths`, and without any field the catalog does not know.

    Raises DecodeError for a reply that is none, and ValueError or TypeError for a path that names no field:
    the door then answers OUTCOME_UNKNOWN rather than show what it could not mask.
    """
    if output is None:
        raise ValueError("the catalog has no output type to mask by")
    message = output.root.message_class.FromString(body)
    message.DiscardUnknownFields()
    for path in paths:
        _clear(message, path.split("."))
    # Partial: a cleared proto2 field may be a required one, and upb ends the process when one is missing.
    return message.SerializePartialToString(deterministic=True)


def _clear(message: Message, names: list[str]) -> None:
    name, *rest = names
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise ValueError(f"no field `{name}` in the reply")
    if not rest:
        message.ClearField(name)
        return
    value = getattr(message, name)
    if field.message_type is None:
        raise ValueError(f"`{name}` holds no fields")
    if field.message_type.GetOptions().map_entry:
        held = tuple(value.values())
    elif field.is_repeated:
        held = tuple(value)
    else:
        held = (value,) if message.HasField(name) else ()
    for one in held:
        if not isinstance(one, Message):
            raise TypeError(f"`{name}` holds no fields")
        _clear(one, rest)
