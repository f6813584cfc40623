"""Which single values a request or an answer can hold: what the paths of a catalog are checked against."""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Protocol

from google.protobuf.descriptor import FieldDescriptor

from licet.call import CatalogError, Plan


class Kind(Enum):
    """What a single value is, as far as a catalog cares."""

    INTEGER = "an integer"
    TEXT = "text"
    NAME = "an enum or a truth value"
    OTHER = "neither an integer nor text"


class Fields(Protocol):
    """The values of a request or an answer, by path."""

    def kind(self, path: str) -> Kind:
        """Return the kind of the single value at `path`; raises CatalogError if there can be none."""

    def kind_of_each(self, path: str) -> Kind:
        """Return the kind of the values at `path`, reached through lists too; raises CatalogError."""

    def default(self, path: str) -> int | str | None:
        """Return what a tool reads where nothing was sent at `path`; None where it can tell absence."""

    def in_list(self, path: str) -> bool:
        """Return whether `path` leads through a list, or to one."""


_INTEGERS = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
    }
)


class MessageFields:
    """The fields of a protobuf message, reached through single messages only: no list, no map, no Any."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def kind(self, path: str) -> Kind:
        """Return the kind of the single value at `path`; raises CatalogError if there can be none."""
        found = self._field(path)
        if found is None or self._repeats(path) or found.message_type is not None:
            raise CatalogError(f"`{path}` is no single value of `{self._plan.root.full_name}`")
        return _kind_of(found)

    def kind_of_each(self, path: str) -> Kind:
        """Return the kind of the values at `path`, reached through lists too; raises CatalogError."""
        found = self._field(path)
        if found is None or found.message_type is not None:
            raise CatalogError(f"`{path}` is no value of `{self._plan.root.full_name}`, nor a list of them")
        return _kind_of(found)

    def default(self, path: str) -> int | str | None:
        """Return what a tool reads where nothing was sent at `path`; None where it can tell absence."""
        found = self._field(path)
        if found is None or found.is_repeated or found.has_presence or _kind_of(found) is Kind.OTHER:
            return None
        if found.enum_type is not None:
            return str(found.enum_type.values_by_number[found.default_value].name)
        if found.type == FieldDescriptor.TYPE_BOOL:
            return "false"
        value: int | str = found.default_value
        return value

    def in_list(self, path: str) -> bool:
        """Return whether `path` leads through a list, or to one."""
        return self._repeats(path)

    def _steps(self, path: str) -> Iterator[Any]:
        """Yield the field of each name of a path; None where there is none, or one below a map."""
        descriptor: Any = self._plan.root.message_class.DESCRIPTOR
        for name in path.split("."):
            found = None if descriptor is None else descriptor.fields_by_name.get(name)
            descriptor = None if found is None else found.message_type
            if descriptor is not None and descriptor.GetOptions().map_entry:
                descriptor = None
            yield found

    def _field(self, path: str) -> Any:
        return list(self._steps(path))[-1]

    def _repeats(self, path: str) -> bool:
        return any(step is not None and step.is_repeated for step in self._steps(path))


def _kind_of(found: Any) -> Kind:
    if found.cpp_type in _INTEGERS:
        return Kind.INTEGER
    if found.cpp_type in {FieldDescriptor.CPPTYPE_ENUM, FieldDescriptor.CPPTYPE_BOOL}:
        return Kind.NAME
    return Kind.TEXT if found.type == FieldDescriptor.TYPE_STRING else Kind.OTHER


_OF_TYPE: Mapping[str, Kind] = {
    "integer": Kind.INTEGER,
    "string": Kind.TEXT,
    "number": Kind.OTHER,
    "boolean": Kind.NAME,
}


class SchemaFields:
    """The properties of a JSON Schema, reached through plain objects: no `$ref`, no choice but with null."""

    def __init__(self, schema: str) -> None:
        self._root: Any = json.loads(schema)

    def kind(self, path: str) -> Kind:
        """Return the kind of the single value at `path`; raises CatalogError if there can be none."""
        kind = self._kind(path, through_lists=False)
        if kind is None:
            raise CatalogError(f"`{path}` is no single value of the arguments' schema")
        return kind

    def kind_of_each(self, path: str) -> Kind:
        """Return the kind of the values at `path`, reached through lists too; raises CatalogError."""
        kind = self._kind(path, through_lists=True)
        if kind is None:
            raise CatalogError(f"`{path}` is no value of the arguments' schema, nor a list of them")
        return kind

    def default(self, path: str) -> int | str | None:
        """Return None: JSON tells absence, and what a schema calls `default` binds nobody."""
        del path
        return None

    def in_list(self, path: str) -> bool:
        """Return whether `path` leads through a list, or to one."""
        return self._kind(path, through_lists=False) is None

    def _kind(self, path: str, *, through_lists: bool) -> Kind | None:
        part = self._root
        for name in path.split("."):
            part = _present(part)
            while through_lists and part.get("type") == "array":
                part = _present(part["items"])
            properties = part.get("properties", {}) if part.get("type") == "object" else {}
            part = properties.get(name, {})
        part = _present(part)
        while through_lists and part.get("type") == "array":
            part = _present(part["items"])
        return _OF_TYPE.get(str(part.get("type")))


def _present(schema: Any) -> Any:
    """Return the schema of a value that is not null: a null is no value wherever arguments are read."""
    for choice in ("anyOf", "oneOf"):
        others = [part for part in schema.get(choice, ()) if part.get("type") != "null"]
        if len(others) == 1 and "type" not in schema:
            return _present(others[0])
    types = schema.get("type")
    if isinstance(types, list):
        others = [name for name in types if name != "null"]
        return {**schema, "type": others[0]} if len(others) == 1 else {}
    return schema
