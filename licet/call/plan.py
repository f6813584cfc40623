"""Plans: how to walk a message type, compiled once from the descriptors that the catalog pins.

A plan is made from a serialised FileDescriptorSet in a pool of its own, so neither the process's generated
code nor another tool's descriptors can lend it a type, an extension or an option. What no walk could treat
strictly is refused here, when the catalog is read: groups, the MessageSet format, a missing import.

A plan is safe to share between threads; it never changes after it was made.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError, Message

from licet.call import tree
from licet.call.stop import Stop
from licet.refusal import Reason

ANY: Final = "google.protobuf.Any"
ANY_URL_PREFIX: Final = "type.googleapis.com/"
"""The one prefix of a type URL that is read; others would be second names for the same type."""

_ANY_FIELDS: Final = [("type_url", FieldDescriptor.TYPE_STRING), ("value", FieldDescriptor.TYPE_BYTES)]
_INTEGERS: Final = frozenset(
    {
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_SINT32,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_SFIXED32,
        FieldDescriptor.TYPE_SFIXED64,
    }
)
_UNSIGNED: Final = frozenset(
    {
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_FIXED32,
        FieldDescriptor.TYPE_FIXED64,
    }
)

Encode = Callable[[Any], bytes]


class CatalogError(ValueError):
    """The owner's description of a method cannot be used; says what to change."""


class Shape(Enum):
    """How often a field may hold its value."""

    ONE = "one"
    LIST = "list"
    MAP = "map"


@dataclass(slots=True, eq=False)
class MessagePlan:
    """How to walk one message type; equal to itself alone, because types may contain themselves."""

    full_name: str
    message_class: type[Message]
    is_any: bool
    has_required: bool = False
    """Whether a required field may be missing, in it or in any other type of its plan."""
    fields: dict[int, "FieldPlan"] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How to walk one field: `item` is the type of the message it holds, or encodes its single value."""

    name: str
    prefix: bytes
    shape: Shape
    item: MessagePlan | Encode
    enum: Mapping[int, tree.EnumNumber] | None
    encode_key: Encode = tree.text


@dataclass(frozen=True, slots=True)
class Plan:
    """How to walk the input of one method."""

    root: MessagePlan
    any_types: Mapping[str, MessagePlan]
    """What an Any may hold, by type URL."""


def compile_plan(descriptors: bytes, input_type: str, any_types: Sequence[str] = ()) -> Plan:
    """Compile the plan of `input_type` from a serialised FileDescriptorSet that holds all its imports.

    `any_types` are the full names of the types that an Any below it may hold; none unless named.

    Raises:
        CatalogError: the descriptors are not usable, or hold what no walk can treat strictly.
    """
    if api_implementation.Type() != "upb":
        # The walk relies on how upb keeps unknown fields, map entries and closed enums; each is tested.
        raise CatalogError("the protobuf runtime is not upb: install protobuf's binary wheel")
    pool = _pool(descriptors)
    compiler = _Compiler(pool)
    root = compiler.message(_find(pool, input_type))
    listed = {ANY_URL_PREFIX + name: compiler.message(_find(pool, name)) for name in any_types}
    compiler.mark_required()
    return Plan(root, listed)


def _pool(descriptors: bytes) -> descriptor_pool.DescriptorPool:
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    except DecodeError as error:
        raise CatalogError(f"the descriptors are no FileDescriptorSet: {error}") from None
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:
            raise CatalogError(f"the descriptor of `{file.name}` cannot be used: {error}") from None
    return pool


def _find(pool: descriptor_pool.DescriptorPool, name: str) -> Descriptor:
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise CatalogError(f"no message `{name}` in the descriptors") from None


class _Compiler:
    """Compiles each message type once; types may contain themselves."""

    def __init__(self, pool: descriptor_pool.DescriptorPool) -> None:
        self._pool = pool
        self._plans: dict[str, MessagePlan] = {}
        self._has_required = False

    def mark_required(self) -> None:
        """Note in every plan whether any of them has a required field."""
        for plan in self._plans.values():
            plan.has_required = self._has_required

    def message(self, descriptor: Descriptor) -> MessagePlan:
        """Return the plan of a message type, with the plans of all it contains."""
        known = self._plans.get(descriptor.full_name)
        if known is not None:
            return known
        if descriptor.GetOptions().message_set_wire_format:
            raise CatalogError(f"`{descriptor.full_name}` uses the MessageSet format, which no walk reads")
        is_any = descriptor.full_name == ANY
        if is_any and [(part.name, part.type) for part in descriptor.fields] != _ANY_FIELDS:
            raise CatalogError(f"`{ANY}` in the descriptors is not the one of protobuf")
        plan = MessagePlan(descriptor.full_name, message_factory.GetMessageClass(descriptor), is_any)
        self._plans[descriptor.full_name] = plan
        for part in descriptor.fields:
            plan.fields[part.number] = self._field(part)
        return plan

    def _field(self, part: FieldDescriptor) -> FieldPlan:
        prefix = tree.field_number(part.number)
        self._has_required |= part.is_required
        if part.message_type is not None and part.message_type.GetOptions().map_entry:
            entry = part.message_type.fields_by_name
            encode_key = _scalar_encoder(entry["key"])
            return FieldPlan(part.name, prefix, Shape.MAP, *self._item(entry["value"]), encode_key)
        shape = Shape.LIST if part.is_repeated else Shape.ONE
        return FieldPlan(part.name, prefix, shape, *self._item(part))

    def _item(
        self, part: FieldDescriptor
    ) -> tuple[MessagePlan | Encode, Mapping[int, tree.EnumNumber] | None]:
        if part.type == FieldDescriptor.TYPE_GROUP:
            raise CatalogError(f"`{part.full_name}` is a group, which no walk reads")
        if part.message_type is not None:
            return self.message(part.message_type), None
        if part.enum_type is not None:
            numbers = _numbers(part.enum_type)
            return _enum_encoder(part.enum_type.full_name, numbers), numbers
        return _scalar_encoder(part), None


def _numbers(enum: EnumDescriptor) -> Mapping[int, tree.EnumNumber]:
    """Return the values of an enum by number; of aliases the first in the file gives the name."""
    numbers: dict[int, tree.EnumNumber] = {}
    for value in enum.values:
        numbers.setdefault(value.number, tree.EnumNumber(value.number, value.name))
    return numbers


def _scalar_encoder(part: FieldDescriptor) -> Encode:
    if part.type in _INTEGERS:
        return tree.integer
    if part.type in _UNSIGNED:
        return tree.unsigned
    if part.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return _floating
    if part.type == FieldDescriptor.TYPE_STRING:
        return _text
    return tree.data if part.type == FieldDescriptor.TYPE_BYTES else tree.flag


def _enum_encoder(name: str, numbers: Mapping[int, tree.EnumNumber]) -> Encode:
    encoded = {number: tree.enum_number(number) for number in numbers}

    def encode(number: int) -> bytes:
        known = encoded.get(number)
        if known is None:
            raise Stop(Reason.UNKNOWN_FIELD, f"`{name}` has no value {number}")
        return known

    return encode


def _floating(value: float) -> bytes:
    """Refuse what compares unlike it looks: NaN is unequal to itself, -0.0 equals 0.0, inf has no JSON."""
    if value - value != 0.0:
        raise Stop(Reason.ARGUMENTS_MALFORMED, "a number is not finite")
    encoded = tree.floating(value)
    if encoded == _MINUS_ZERO:
        raise Stop(Reason.ARGUMENTS_MALFORMED, "a number is negative zero")
    return encoded


_MINUS_ZERO: Final = tree.floating(-0.0)


def _text(value: str | bytes) -> bytes:
    """Refuse invalid UTF-8 in proto2 too, where upb lets it pass and hands out bytes instead of text."""
    if not isinstance(value, str):
        raise Stop(Reason.ARGUMENTS_MALFORMED, "a text is not valid UTF-8")
    return tree.text(value)
