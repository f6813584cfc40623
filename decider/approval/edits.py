"""What a person changes of a call that waits, as the command line says it. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from licet.v1.bundle_pb2 import FieldChange
from licet.v1.statement_pb2 import Scalar

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}\Z")
MAX_INTEGER: Final = (1 << 63) - 1


class EditError(ValueError):
    """The changes cannot be read; `str()` says which."""


def read_changes(
    at_most: Iterable[str], set_: Iterable[str], mask: Iterable[str], clear: Iterable[str]
) -> tuple[FieldChange, ...]:
    """Return the changes, at least one, each field once. Raises `EditError`."""
    changes = [
        *(FieldChange(path=path, at_most=_number(path, value)) for path, value in _pairs(at_most)),
        *(FieldChange(path=path, set=_scalar(value)) for path, value in _pairs(set_)),
        *(FieldChange(path=path, mask=True) for path in mask),
        *(FieldChange(path=path, clear=True) for path in clear),
    ]
    paths = [change.path for change in changes]
    if not paths or not all(paths):
        raise EditError("say what to change: --at-most, --set, --mask or --clear")
    if len(set(paths)) != len(paths):
        raise EditError("a field can be changed once")
    return tuple(changes)


def _pairs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals:
            raise EditError(f"`{text}` must be FIELD=VALUE")
        yield path, value


def _number(path: str, value: str) -> int:
    if not _INTEGER.match(value) or abs(int(value)) > MAX_INTEGER:
        raise EditError(f"`{path}`: `{value}` must be an integer of 64 bits")
    return int(value)


def _scalar(value: str) -> Scalar:
    if value in {"true", "false"}:
        return Scalar(flag=value == "true")
    if _INTEGER.match(value) and abs(int(value)) <= MAX_INTEGER:
        return Scalar(integer=int(value))
    return Scalar(text=value)
