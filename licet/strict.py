"""Strict reading of signed payloads: one message has exactly one encoding, and every field of it is known.

The canonical encoding is protobuf's deterministic one: present fields once, in ascending order of number,
defaults of implicit presence left out, minimal varints, packed where the schema packs, map entries sorted
by key. Whoever signs serialises with `canonical`; whoever reads refuses other bytes. So no two parsers can
read one payload in two ways: no field given twice (last wins), no sub-message in parts (merges), no oneof
overridden, and no field that a newer writer meant as a restriction and an older reader would have ignored.

Guarantees nothing about values: an unknown enum number is refused by the reader of that enum.
"""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from licet.refusal import Reason, Refusal

M = TypeVar("M", bound=Message)


def canonical(message: Message) -> bytes:
    """Return the one encoding of `message` that `strict_parse` accepts."""
    return message.SerializeToString(deterministic=True)


def strict_parse(message_type: type[M], payload: bytes) -> M | Refusal:
    """Return the message that `payload` spells, or why not: PERMIT_MALFORMED or PERMIT_UNKNOWN_FIELD.

    An unknown field at any depth refuses: ignoring a restriction one does not know widens authority.
    """
    try:
        message = message_type.FromString(payload)
    except (DecodeError, RecursionError):
        return Refusal(Reason.PERMIT_MALFORMED, f"`{message_type.DESCRIPTOR.name}` cannot be parsed")
    # A round trip keeps unknown fields, so equal bytes alone prove nothing: drop them first, at every depth.
    message.DiscardUnknownFields()
    if canonical(message) == payload:
        return message
    name = message_type.DESCRIPTOR.name
    if message_type.FromString(payload).ByteSize() != message.ByteSize():
        return Refusal(Reason.PERMIT_UNKNOWN_FIELD, f"`{name}` holds an unknown field")
    return Refusal(Reason.PERMIT_MALFORMED, f"`{name}` is not in its canonical encoding")
