"""Which single values a request or an answer can hold: what the paths of a catalog are checked against."""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from google.protobuf.descriptor import FieldDescriptor

from licet.call import CatalogError, Plan


class Kind(Enum):
    """What a single value is, as far as a catalog cares."""

    INTEGER = "an integer"
    TEXT = "text"
    OTHER = "neither an integer nor text"


class Fields(Protocol):
    """The values of a request or an answer, by path."""

    def kind(self, path: str) -> Kind:
        """Return the kind of the single value at `path`; raises CatalogError if there can be none."""


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
        root = self._plan.root
        *parents, last = path.split(".")
        descriptor: Any = root.message_class.DESCRIPTOR
        for name in parents:
            parent = None if descriptor is None else descriptor.fields_by_name.get(name)
            descriptor = None if parent is None or parent.is_repeated else parent.message_type
        found = None if descriptor is None else descriptor.fields_by_name.get(last)
        if found is None or found.is_repeated or found.message_type is not None:
            raise CatalogError(f"`{path}` is no single value of `{root.full_name}`")
        if found.cpp_type in _INTEGERS:
            return Kind.INTEGER
        return Kind.TEXT if found.type == FieldDescriptor.TYPE_STRING else Kind.OTHER


_OF_TYPE: Mapping[str, Kind] = {
    "integer": Kind.INTEGER,
    "string": Kind.TEXT,
    "number": Kind.OTHER,
    "boolean": Kind.OTHER,
}


class SchemaFields:
    """The properties of a JSON Schema, reached through plain objects: no `$ref`, branches or arrays."""

    def __init__(self, schema: str) -> None:
        self._root: Any = json.loads(schema)

    def kind(self, path: str) -> Kind:
        """Return the kind of the single value at `path`; raises CatalogError if there can be none."""
        part = self._root
        for name in path.split("."):
            properties = part.get("properties", {}) if part.get("type") == "object" else {}
            part = properties.get(name, {})
        kind = _OF_TYPE.get(str(part.get("type")))
        if kind is None:
            raise CatalogError(f"`{path}` is no single value of the arguments' schema")
        return kind
