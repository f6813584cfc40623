"""Descriptors of a tool's methods: what the catalog pins, and which paths through a message exist.

The closure of a method is the smallest descriptor set in which its input and output types stand: whole
top-level messages and enums, no services, no comments, no file options. So a method's digest changes when
its own types change and not when a neighbour does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from google.protobuf import descriptor, descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

Descriptor = descriptor.Descriptor
FieldDescriptor = descriptor.FieldDescriptor

INTEGER_TYPES: Final = frozenset(
    {
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT32,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_FIXED32,
        FieldDescriptor.TYPE_FIXED64,
        FieldDescriptor.TYPE_SFIXED32,
        FieldDescriptor.TYPE_SFIXED64,
    }
)
FLOAT_TYPES: Final = frozenset({FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE})


class DescriptorsError(ValueError):
    """A descriptor set cannot be used; `str()` says why."""


@dataclass(frozen=True, slots=True)
class MethodTypes:
    """The input and output type of one method, and how it streams."""

    input: Descriptor
    output: Descriptor
    client_streaming: bool
    server_streaming: bool


class Descriptors:
    """A parsed descriptor set. Raises `DescriptorsError` where the bytes are none, or an import is absent."""

    def __init__(self, data: bytes) -> None:
        try:
            self._set = descriptor_pb2.FileDescriptorSet.FromString(data)
        except DecodeError as error:
            raise DescriptorsError("is no FileDescriptorSet") from error
        self._files = {file.name: file for file in self._set.file}
        self._pool = descriptor_pool.DescriptorPool()
        added: set[str] = set()
        try:
            for file in self._set.file:
                self._add(file, added)
        except (TypeError, ValueError) as error:
            raise DescriptorsError(f"does not fit together: {' '.join(str(error).split())}") from error

    def _add(self, file: descriptor_pb2.FileDescriptorProto, added: set[str]) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for name in file.dependency:
            if name not in self._files:
                raise DescriptorsError(f"lacks the import `{name}`; make it with --include_imports")
            self._add(self._files[name], added)
        self._pool.Add(file)

    def method(self, path: str) -> MethodTypes | None:
        """Return the types of the method at `path` (`/package.Service/Method`); None where there is none."""
        service_name, _, name = path.removeprefix("/").rpartition("/")
        try:
            service = self._pool.FindServiceByName(service_name)
        except KeyError:
            return None
        found = service.methods_by_name.get(name)
        if found is None:
            return None
        return MethodTypes(
            found.input_type, found.output_type, found.client_streaming, found.server_streaming
        )

    def methods(self) -> Iterator[str]:
        """Yield the path of every method, by file and order of declaration."""
        for file in self._set.file:
            for service in file.service:
                prefix = f"{file.package}." if file.package else ""
                yield from (f"/{prefix}{service.name}/{method.name}" for method in service.method)

    def closure(self, *types: Descriptor) -> bytes:
        """Return the serialised closure of `types`, files in order of import; deterministic."""
        needed: dict[str, set[str]] = {}
        for wanted in types:
            _collect(wanted, needed)
        result = descriptor_pb2.FileDescriptorSet()
        for name in self._ordered(needed):
            result.file.append(_trimmed(self._files[name], needed))
        return result.SerializeToString(deterministic=True)

    def _ordered(self, needed: dict[str, set[str]]) -> list[str]:
        order: list[str] = []

        def visit(name: str, above: frozenset[str]) -> None:
            for dependency in sorted(self._files[name].dependency):
                if dependency not in above:
                    visit(dependency, above | {name})
            if name in needed and name not in order:
                order.append(name)

        for name in sorted(needed):
            visit(name, frozenset())
        return order


def _top(
    item: descriptor.Descriptor | descriptor.EnumDescriptor,
) -> descriptor.Descriptor | descriptor.EnumDescriptor:
    while item.containing_type is not None:
        item = item.containing_type
    return item


def _collect(item: descriptor.Descriptor | descriptor.EnumDescriptor, needed: dict[str, set[str]]) -> None:
    pending = [_top(item)]
    while pending:
        top = pending.pop()
        names = needed.setdefault(top.file.name, set())
        if top.name in names:
            continue
        names.add(top.name)
        if isinstance(top, descriptor.Descriptor):
            pending.extend(_top(used) for used in _used(top))


def _used(message: Descriptor) -> Iterator[descriptor.Descriptor | descriptor.EnumDescriptor]:
    for field in message.fields:
        if field.message_type is not None:
            yield field.message_type
        if field.enum_type is not None:
            yield field.enum_type
    for nested in message.nested_types:
        yield from _used(nested)


def _trimmed(
    file: descriptor_pb2.FileDescriptorProto, needed: dict[str, set[str]]
) -> descriptor_pb2.FileDescriptorProto:
    names = needed[file.name]
    small = descriptor_pb2.FileDescriptorProto(
        name=file.name,
        package=file.package,
        message_type=[message for message in file.message_type if message.name in names],
        enum_type=[enum for enum in file.enum_type if enum.name in names],
        dependency=sorted(name for name in file.dependency if name in needed),
    )
    for name in ("syntax", "edition"):
        if file.HasField(name):
            setattr(small, name, getattr(file, name))
    if file.options.HasField("features"):
        small.options.features.CopyFrom(file.options.features)
    return small


def leaf(message: Descriptor, path: str) -> FieldDescriptor | None:
    """Return the field at a dotted path through singular messages; None where there is none."""
    current: Descriptor | None = message
    field: FieldDescriptor | None = None
    for name in path.split("."):
        if current is None or (field is not None and field.is_repeated):
            return None
        field = current.fields_by_name.get(name)
        if field is None:
            return None
        current = field.message_type
    return field


def reachable(message: Descriptor) -> Iterator[tuple[str, FieldDescriptor]]:
    """Yield every field reachable from `message` with its dotted path; a recursive type once."""
    seen: set[str] = set()
    pending = [("", message)]
    while pending:
        prefix, current = pending.pop()
        if current.full_name in seen:
            continue
        seen.add(current.full_name)
        for field in current.fields:
            path = f"{prefix}{field.name}"
            yield path, field
            if field.message_type is not None:
                pending.append((f"{path}.", field.message_type))
