"""Source files that people write: YAML read strictly, every fault named by file, line and field.

A source is read once into `Section`s. A reader asks for the fields that it knows; `close()` names the fields
that nobody asked for. Faults are collected in one `Faults`, so that a person sees all of them at once, and
`raise_any` ends the reading. Refused, whatever the field: a duplicate key, an anchor or alias, a second
document, a null, a float, a tag, half a character, a file of more than `MAX_SOURCE_BYTES`. Plain `true` and
`false` are truth values, plain decimal digits are integers, everything else is text: YAML's other spellings
(`yes`, `0o17`, `1_000`, `12:30`) have no meaning here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

MAX_SOURCE_BYTES: Final = 4 << 20
"""The largest source file, in bytes."""

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})\Z")
_FLOAT: Final = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(inf|nan))\Z", re.IGNORECASE
)
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
HALF: Final = "has half a character, a surrogate such as \\ud83d: write the character itself"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in a source; `str()` gives the line that people see."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"


class SourceError(ValueError):
    """A source cannot be used. `faults` says why, one line each; `str()` joins them."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


@dataclass(slots=True)
class Faults:
    """The faults found so far in one source."""

    file: str
    found: list[Fault] = field(default_factory=list)

    def add(self, line: int, name: str, message: str) -> None:
        """Note a fault of the field `name` (dotted path) at `line` (from 1; 0 where there is none)."""
        self.found.append(Fault(self.file, line, name, message))

    def raise_any(self) -> None:
        """Raise `SourceError` with everything found, in order of lines, unless nothing was."""
        if self.found:
            raise SourceError(tuple(sorted(set(self.found), key=lambda fault: (fault.line, fault.field))))


Scalar = str | int | bool
Node = yaml.nodes.Node


class Section:
    """One mapping of a source, whose fields are taken by name and type.

    A field of the wrong type, or a required one that is missing, is noted as a fault and answered with a
    harmless value of the right type, so that reading goes on; nothing read may be used before
    `Faults.raise_any`.
    """

    __slots__ = ("_fields", "_taken", "faults", "line", "name")

    def __init__(self, name: str, line: int, fields: dict[str, Node], faults: Faults) -> None:
        self.name, self.line, self.faults = name, line, faults
        self._fields = fields
        self._taken: set[str] = set()

    def path(self, key: str) -> str:
        """Return the dotted path of the field `key`."""
        return f"{self.name}.{key}" if self.name else key

    def names(self) -> tuple[str, ...]:
        """Return the names of the fields, in the order of the file."""
        return tuple(self._fields)

    def has(self, key: str) -> bool:
        """Tell whether the field is there."""
        return key in self._fields

    def line_of(self, key: str) -> int:
        """Return the field's line, or the section's where the field is missing."""
        node = self._fields.get(key)
        return _line(node) if node is not None else self.line

    def refuse(self, key: str, message: str) -> None:
        """Note a fault of the field `key`."""
        self.faults.add(self.line_of(key), self.path(key), message)

    def _take(self, key: str, required: bool) -> Node | None:
        self._taken.add(key)
        node = self._fields.get(key)
        if node is None and required:
            self.faults.add(self.line, self.path(key), "is required")
        return node

    def text(self, key: str, default: str | None = None, *, max_length: int = 1024) -> str:
        """Take a text; None as `default` makes it required."""
        node = self._take(key, default is None)
        if node is None:
            return default or ""
        value = scalar(node, self.path(key), self.faults)
        if not isinstance(value, str):
            self.refuse(key, f"must be text, not `{value}`; put it in quotes")
            return ""
        if len(value.encode()) > max_length:
            self.refuse(key, f"is longer than {max_length} bytes")
        return value

    def integer(self, key: str, default: int | None = None, *, low: int, high: int) -> int:
        """Take an integer from `low` to `high`; None as `default` makes it required."""
        node = self._take(key, default is None)
        if node is None:
            return default if default is not None else low
        value = scalar(node, self.path(key), self.faults)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, f"must be an integer, not `{value}`")
            return low
        if not low <= value <= high:
            self.refuse(key, f"must be from {low} to {high}, not `{value}`")
            return low
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Take `true` or `false`."""
        node = self._take(key, required=False)
        if node is None:
            return default
        value = scalar(node, self.path(key), self.faults)
        if not isinstance(value, bool):
            self.refuse(key, f"must be true or false, not `{value}`")
            return default
        return value

    def section(self, key: str, *, required: bool = False) -> "Section | None":
        """Take a mapping; None where it is missing or none."""
        node = self._take(key, required)
        return None if node is None else section(node, self.path(key), self.faults)

    def is_text(self, key: str) -> bool:
        """Tell whether the field is there and a scalar."""
        return isinstance(self._fields.get(key), yaml.ScalarNode)

    def texts(self, key: str) -> tuple[str, ...]:
        """Take a list of texts; empty where it is missing."""
        values = []
        for position, node in enumerate(self._items(key)):
            value = scalar(node, f"{self.path(key)}[{position}]", self.faults)
            if isinstance(value, str):
                values.append(value)
            else:
                self.faults.add(_line(node), f"{self.path(key)}[{position}]", f"must be text, not `{value}`")
        return tuple(values)

    def sections(self, key: str, *, required: bool = False) -> Iterator["Section"]:
        """Take a list of mappings."""
        if required and key not in self._fields:
            self._take(key, required=True)
        for position, node in enumerate(self._items(key)):
            inner = section(node, f"{self.path(key)}[{position}]", self.faults)
            if inner is not None:
                yield inner

    def values(self, key: str) -> dict[str, "Plain"]:
        """Take a mapping of any names to texts, integers, truth values, lists and mappings of them."""
        node = self._take(key, required=False)
        if node is None:
            return {}
        value = plain(node, self.path(key), self.faults)
        if not isinstance(value, dict):
            self.refuse(key, "must be a mapping")
            return {}
        return value

    def plain(self, key: str) -> "Plain":
        """Take a field of any kind."""
        node = self._take(key, required=True)
        return "" if node is None else plain(node, self.path(key), self.faults)

    def _items(self, key: str) -> list[Node]:
        node = self._take(key, required=False)
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            self.refuse(key, "must be a list")
            return []
        return list(node.value)

    def close(self) -> None:
        """Note every field that nobody asked for."""
        for key in self._fields:
            if key not in self._taken:
                self.refuse(key, f"unknown field; known here: {', '.join(sorted(self._taken))}")


Plain = Scalar | tuple["Plain", ...] | dict[str, "Plain"]


def plain(node: Node, name: str, faults: Faults) -> Plain:
    """Return a node as plain values, read as strictly as the rest."""
    if isinstance(node, yaml.SequenceNode):
        return tuple(plain(item, f"{name}[{position}]", faults) for position, item in enumerate(node.value))
    if isinstance(node, yaml.MappingNode):
        inner = section(node, name, faults)
        return {} if inner is None else {key: inner.plain(key) for key in inner.names()}
    return scalar(node, name, faults)


def _line(node: Node | yaml.Event) -> int:
    mark = node.start_mark
    return mark.line + 1 if mark is not None else 0


def scalar(node: Node, name: str, faults: Faults) -> Scalar:
    """Return the value of a scalar node; a fault and empty text for what has no meaning here."""
    if not isinstance(node, yaml.ScalarNode):
        faults.add(_line(node), name, "must be a single value, not a list or a mapping")
        return ""
    text = str(node.value)
    if _SURROGATE.search(text):
        faults.add(_line(node), name, HALF)
        return ""
    if node.style is not None:
        return text
    if text in _NULLS or _FLOAT.match(text):
        why = "must not be null" if text in _NULLS else f"`{text}` is a float, and floats never decide"
        faults.add(_line(node), name, f"{why}; write an integer or quoted text")
        return ""
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if _INTEGER.match(text) else text


def section(node: Node, name: str, faults: Faults) -> Section | None:
    """Return a mapping node as a `Section`; None with a fault where it is none."""
    if not isinstance(node, yaml.MappingNode):
        faults.add(_line(node), name, "must be a mapping of fields")
        return None
    fields: dict[str, Node] = {}
    for key_node, value in node.value:
        if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
            faults.add(_line(key_node), name, "a field's name must be text")
        elif _SURROGATE.search(key_node.value):
            faults.add(_line(key_node), name, HALF)
        elif key_node.value in fields:
            faults.add(_line(key_node), f"{name}.{key_node.value}" if name else key_node.value, "given twice")
        else:
            fields[key_node.value] = value
    return Section(name, _line(node), fields, faults)


def read_bytes(path: Path, max_bytes: int = MAX_SOURCE_BYTES) -> bytes:
    """Return a file's bytes; `SourceError` where it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise SourceError((Fault(str(path), 0, "", f"cannot be read: {error.strerror}"),)) from error
    if len(data) > max_bytes:
        raise SourceError((Fault(str(path), 0, "", f"is larger than {max_bytes} bytes"),))
    return data


def read_text(path: Path) -> str:
    """Return a file's text; `SourceError` where it cannot be read or is no UTF-8."""
    try:
        return read_bytes(path).decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        raise SourceError((Fault(str(path), 0, "", f"is not UTF-8 at byte {error.start}"),)) from error


def parse(text: str, file: str) -> tuple[Section, Faults]:
    """Return the top mapping of a YAML text. Raises `SourceError` where it is no single mapping."""
    faults = Faults(file)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):  # an alias may stand for a billion nodes
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                faults.add(_line(event), "", "anchors and aliases are not supported")
            elif getattr(event, "tag", None):
                faults.add(_line(event), "", "tags are not supported")
        faults.raise_any()
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise SourceError(
            (Fault(file, line, "", f"is not YAML: {error.problem or error.context}"),)
        ) from error
    except yaml.YAMLError as error:
        raise SourceError(
            (Fault(file, 0, "", "is not YAML: a character that YAML does not allow"),)
        ) from error
    except RecursionError as error:
        raise SourceError((Fault(file, 0, "", "is nested too deeply"),)) from error
    if node is None:
        raise SourceError((Fault(file, 0, "", "is empty"),))
    top = section(node, "", faults)
    if top is None:
        faults.raise_any()
        raise AssertionError
    return top, faults


def read(path: Path) -> tuple[Section, Faults]:
    """Read a YAML file; see `parse`."""
    return parse(read_text(path), str(path))
