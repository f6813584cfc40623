"""The strict walk of protobuf arguments: bytes in, Arguments or a Refusal out. Check 10 of the door.

Guarantees: what is returned holds no unknown field at any depth, no unknown enum number, no extension, no
group, no unlisted Any, no NaN, infinity or -0.0, no invalid UTF-8; it is at most MAX_REQUEST_BYTES large,
MAX_DEPTH deep, MAX_NODES values wide. The wire's freedoms (merged and repeated fields, order, overlong
numbers, packing) are gone: what is digested is the message that was understood, and it is forwarded in our
own encoding, so a tool with another parser cannot understand another one.

Not done here: whether the values are right for anything.
"""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from licet.call import tree
from licet.call.arguments import Arguments
from licet.call.plan import FieldPlan, MessagePlan, Plan, Shape
from licet.call.stop import Stop
from licet.call.tree import MAX_DEPTH, MAX_NODES, MAX_REQUEST_BYTES, ListValue, MapValue, Record, Value
from licet.refusal import Reason, Refusal

_ONE, _LIST = Shape.ONE, Shape.LIST  # reading a member off an Enum costs as much as encoding a number

ANY_TYPE: Final = "@type"
"""Name under which the type URL of an Any stands among its fields, as in ProtoJSON; no field can have it."""


def walk(plan: Plan, body: bytes) -> Arguments | Refusal:
    """Walk the request `body` of a method.

    Returns:
        The arguments, or TOO_LARGE, ARGUMENTS_MALFORMED or UNKNOWN_FIELD. Never raises for any `body`.
    """
    if len(body) > MAX_REQUEST_BYTES:
        return Refusal(Reason.TOO_LARGE, f"{len(body)} bytes of arguments, at most {MAX_REQUEST_BYTES}")
    try:
        message, canonical = _known(plan.root, body)
        walker = _Walker(plan)
        values = walker.message(plan.root, message, 1)
        if walker.rewrote:
            canonical = message.SerializeToString(deterministic=True)
    except Stop as stop:
        return stop.refusal
    if len(canonical) > MAX_REQUEST_BYTES:  # packed numbers that the type keeps unpacked grow
        return Refusal(Reason.TOO_LARGE, f"{len(canonical)} bytes of canonical arguments")
    return Arguments(b"".join(walker.out), canonical, values)


def _known(plan: MessagePlan, body: bytes) -> tuple[Message, bytes]:
    """Parse, and refuse unknown fields anywhere below: in C, by whether discarding them makes it smaller.

    Comparing the message's bytes before and after a round trip would not do: unknown fields are written out
    again. Unknown numbers of closed enums and map entries with an unknown field count as unknown fields.
    Returns the message and its canonical bytes.

    A missing required field is found before anything is encoded: upb's encoder, which ByteSize uses too, ends
    the process with a segmentation fault when it meets one beside a map (protobuf 7.36.2).
    """
    try:
        message = plan.message_class.FromString(body)
    except DecodeError:
        raise Stop(Reason.ARGUMENTS_MALFORMED, f"not a `{plan.full_name}`") from None
    if plan.has_required and not message.IsInitialized():
        raise Stop(Reason.ARGUMENTS_MALFORMED, f"a required field of `{plan.full_name}` is missing")
    size = message.ByteSize()
    message.DiscardUnknownFields()
    canonical = message.SerializeToString(deterministic=True)
    if len(canonical) != size:
        raise Stop(Reason.UNKNOWN_FIELD, f"an unknown field in `{plan.full_name}`")
    return message, canonical


class _Walker:
    """One walk: the pieces of the encoding so far, and how many more values it may hold."""

    __slots__ = ("_any_types", "_left", "out", "rewrote")

    def __init__(self, plan: Plan) -> None:
        self._any_types = plan.any_types
        self._left = MAX_NODES - 1  # the top message is a value too
        self.out: list[bytes] = []
        self.rewrote = False
        """Whether the content of an Any was put into our own encoding."""

    def _count(self, nodes: int) -> None:
        self._left -= nodes
        if self._left < 0:
            raise Stop(Reason.ARGUMENTS_MALFORMED, f"more than {MAX_NODES} values")

    def message(self, plan: MessagePlan, message: Message, depth: int) -> Record:
        """Encode a message and return its present fields by name."""
        if depth > MAX_DEPTH:
            raise Stop(Reason.ARGUMENTS_MALFORMED, f"nested deeper than {MAX_DEPTH}")
        if plan.is_any:
            return self._any(message, depth)
        listed = message.ListFields()  # present fields, ascending by number
        self._count(len(listed))
        out, fields = self.out, plan.fields
        out.append(tree.message_head(len(listed)))
        record = Record()
        for descriptor, value in listed:
            part = fields.get(descriptor.number)
            if part is None:
                raise Stop(Reason.UNKNOWN_FIELD, f"extension `{descriptor.full_name}`")
            out.append(part.prefix)
            if part.shape is _ONE:
                record[part.name] = self._one(part, value, depth)
            elif part.shape is _LIST:
                record[part.name] = self._list(part, value, depth)
            else:
                record[part.name] = self._map(part, value, depth)
        return record

    def _one(self, part: FieldPlan, value: Any, depth: int) -> Value:
        if isinstance(part.item, MessagePlan):
            return self.message(part.item, value, depth + 1)
        self.out.append(part.item(value))
        return value if part.enum is None else part.enum[value]

    def _list(self, part: FieldPlan, values: Sequence[Any], depth: int) -> ListValue:
        self._count(len(values))  # before anything is made of them: half a million fit into a request
        self.out.append(tree.list_head(len(values)))
        return ListValue(tuple(self._one(part, item, depth) for item in values))

    def _map(self, part: FieldPlan, entries: Any, depth: int) -> MapValue:
        self._count(2 * len(entries))
        outer, encoded, value = self.out, {}, MapValue()
        for key in entries:
            encoded_key = part.encode_key(key)  # before it is used: upb cannot find a key of invalid UTF-8
            self.out = []
            value[key] = self._one(part, entries[key], depth)
            encoded[encoded_key] = b"".join(self.out)
        self.out = outer
        outer.append(tree.mapping(encoded))
        return value

    def _any(self, message: Any, depth: int) -> Record:
        """Read the content of an Any by its listed type, and put our own encoding in its place."""
        plan = self._any_types.get(message.type_url)
        if plan is None:
            raise Stop(Reason.UNKNOWN_FIELD, "an Any of a type that is not listed")
        content, canonical = _known(plan, message.value)
        self.out.append(tree.any_head(message.type_url))
        record = Record({ANY_TYPE: message.type_url})
        self._count(1)
        record.update(self.message(plan, content, depth + 1))
        message.value = content.SerializeToString(deterministic=True) if self.rewrote else canonical
        self.rewrote = True
        return record
