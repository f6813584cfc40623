"""Events of a batch, read strictly, many at once. Pure.

Guarantees: what is returned for each message is what `strict_parse` returns for it alone. Events are put into
one message and parsed, stripped and serialised together, which the protobuf runtime does in C: equal bytes
then mean that each event is canonical, for all lengths and bytes before it are. Of a group that is not, the
events are read one by one.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from audit.store.stored import Stored
from licet.refusal import Refusal
from licet.strict import canonical, strict_parse
from licet.v1.event_pb2 import Event

GROUP: Final = 500
"""Events that are read together: one that is not canonical costs these few a second reading."""

Read = Event | Refusal


def _make_group() -> Any:
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="licet/audit/batch.proto",
        package="licet.audit",
        syntax="proto3",
        dependency=[Event.DESCRIPTOR.file.name],
    )
    file.message_type.add(name="Group").field.add(
        name="events",
        number=1,
        type=types.TYPE_MESSAGE,
        type_name="." + Event.DESCRIPTOR.full_name,
        label=types.LABEL_REPEATED,
    )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("licet.audit.Group"))


_Group: Final = _make_group()
_TAG: Final = b"\x0a"


def varint(number: int) -> bytes:
    """Return a number as protobuf and RowBinary write lengths: seven bits a byte, the low ones first."""
    if number < len(_VARINTS):
        return _VARINTS[number]
    return _varint(number)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_VARINTS: Final = tuple(_varint(number) for number in range(1 << 13))
"""Lengths of ordinary events and their rows."""


def read_events(messages: Sequence[Stored]) -> Iterator[Read]:
    """Yield the event of each message, or why it is none; a group at a time, so look at each as it comes."""
    for start in range(0, len(messages), GROUP):
        yield from _read_group([message.data for message in messages[start : start + GROUP]])


def _read_group(bodies: list[bytes]) -> Sequence[Read]:
    whole = b"".join(_parts(bodies))
    try:
        group = _Group.FromString(whole)
    except (DecodeError, RecursionError):
        group = None
    if group is not None:
        group.DiscardUnknownFields()
        if canonical(group) == whole:
            events: Sequence[Read] = group.events
            return events
    return [strict_parse(Event, body) for body in bodies]


def _parts(bodies: list[bytes]) -> Iterator[bytes]:
    for body in bodies:
        yield _TAG
        yield varint(len(body))
        yield body
