"""Makes any field value fit into an event: valid UTF-8, bounded, and marked where something was left out."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from licet.v1.event_pb2 import Event

MAX_EVENT_BYTES: Final = 256 * 1024
MAX_TEXT_BYTES: Final = 2_048
MAX_LONG_TEXT_BYTES: Final = 16_384
LONG_TEXT: Final = frozenset({"summary", "detail"})
MAX_ITEMS: Final = 64
MAX_ITEM_BYTES: Final = 512
MARK_BYTES: Final = 40
"""Room for the mark of what was left out."""

OWN: Final = frozenset(
    {
        "version",
        "event_id",
        "source",
        "stream",
        "seq",
        "prev_hash",
        "kind",
        "environment",
        "checkpoint",
        "previous_stream",
    }
)
"""Fields that the journal fills in itself."""


def fit(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return `fields` so that an event of them is at most 256 KiB; those that say nothing are left out.

    Text that is no UTF-8 has U+FFFD for what could not be encoded; text too long ends in `…[N bytes more]`;
    a list too long ends in such a mark as its last item. Numbers are exact or refused.

    Raises:
        ValueError: no such field, one the journal fills in itself, or a number out of range.
    """
    fitting: dict[str, Any] = {}
    for name, value in fields.items():
        rule = _RULES.get(name)
        if rule is None:
            raise ValueError(f"an event has no field `{name[:80]}` to be given")
        if type(value) is str and len(value) <= MAX_ITEM_BYTES and value.isascii():
            if value:
                fitting[name] = value  # nearly every one: nothing to cut, nothing to mend
        elif value:
            fitting[name] = rule(value)
    return fitting


def event_of(own: Mapping[str, Any], fields: Mapping[str, Any]) -> Event:
    """Return the event of the journal's `own` fields and `fields`, as `fit` would have them.

    Raises ValueError as `fit`.
    """
    if OWN.isdisjoint(fields) and _are_short(fields):
        try:
            event = Event(**own, **fields)
        except (ValueError, TypeError):
            pass  # text to be mended, or a field to be named in the refusal
        else:
            if event.ByteSize() <= MAX_TEXT_BYTES:  # so each text of it is short enough: nearly every event
                return event
    try:
        return Event(**own, **fit(fields))
    except TypeError as error:
        raise ValueError(str(error)) from error


def _are_short(fields: Mapping[str, Any]) -> bool:
    for name in _LISTS:
        items = fields.get(name)
        if items and (len(items) > MAX_ITEMS or sum(map(len, map(str, items))) > MAX_ITEM_BYTES // 4):
            return False
    return True


def _short(value: Any) -> str:
    return _text(value, MAX_TEXT_BYTES)


def _long(value: Any) -> str:
    return _text(value, MAX_LONG_TEXT_BYTES)


def _items(value: Any) -> list[str]:
    items = [_text(item, MAX_ITEM_BYTES) for item in list(value)[:MAX_ITEMS]]
    more = len(value) - len(items)
    return [*items[:-1], f"…[{more + 1} items more]"] if more > 0 else items


def _as_is(value: Any) -> Any:
    return value


def _rule(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.type != FieldDescriptor.TYPE_STRING:
        return _as_is
    if field.is_repeated:
        return _items
    return _long if field.name in LONG_TEXT else _short


def _text(value: object, limit: int) -> str:
    text = str(value)
    if len(text) <= limit and text.isascii():
        return text
    try:
        raw = text.encode()
    except UnicodeEncodeError:  # a lone surrogate: bytes that were no UTF-8 where they came from
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        raw = text.encode()
    if len(raw) <= limit:
        return text
    kept = raw[: limit - MARK_BYTES].decode("utf-8", "ignore")
    return f"{kept}…[{len(raw) - len(kept.encode())} bytes more]"


_LISTS: Final = frozenset(
    field.name
    for field in Event.DESCRIPTOR.fields
    if field.type == FieldDescriptor.TYPE_STRING and field.is_repeated
)
_RULES: Final = {field.name: _rule(field) for field in Event.DESCRIPTOR.fields if field.name not in OWN}
