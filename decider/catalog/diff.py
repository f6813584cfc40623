"""What differs between two catalogs of a tool, and whether it lets more through.

A difference *widens* unless it is known to narrow or to change nothing that anything is decided by: a field
that nobody thought of here widens. So a catalog that `diff` calls no wider may go out without a second look
at what it allows; whether it still fits its callers is another question. Pure.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from licet.v1 import catalog_pb2


class Effect(StrEnum):
    """What a difference does to what may pass."""

    WIDENS = "widens"
    NARROWS = "narrows"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference; `method` is empty for the catalog's own fields."""

    effect: Effect
    method: str
    field: str
    old: str
    new: str

    def __str__(self) -> str:
        where = self.method.removeprefix("/") or "catalog"
        return f"{self.effect:<8} {where}: {self.field}: {self.old or '(none)'} -> {self.new or '(none)'}"


MAX_SHOWN: Final = 120
"""How much of a value is shown, in characters."""

Judge = Callable[[Any, Any], bool]
"""Tells whether going from the old value to the new one widens."""


def _quorums(listed: Any) -> dict[str, int]:
    return {quota.role: quota.quorum for quota in listed}


def _fewer_approvers(old: Any, new: Any) -> bool:
    demanded, left = _quorums(old), _quorums(new)
    return any(left.get(role, 0) < quorum for role, quorum in demanded.items())


def _lost(old: Any, _new: Any) -> bool:
    return old not in (None, False, "")


def _gained(_old: Any, new: Any) -> bool:
    return bool(new)


def _shrank(old: Any, new: Any) -> bool:
    return not set(old) <= set(new)


def _grew(old: Any, new: Any) -> bool:
    return not set(new) <= set(old)


def _more_places(old: Any, new: Any) -> bool:
    return bool(old) and not (new and set(new) <= set(old))


def _rules_loosened(old: Any, new: Any) -> bool:
    return not _covered(old, new)


_NEUTRAL: Final = frozenset({"say", "model_facing_sha256"})
"""Fields that people and models read and nothing is decided by."""

_JUDGES: Final[Mapping[str, Judge]] = {
    "tier": operator.gt,
    "sensitive": _shrank,
    "guarded": _lost,
    "no_effect_codes": _grew,
    "obligations": _grew,
    "ceilings": _gained,
    "decide_on_call": _gained,
    "approvers": _fewer_approvers,
    "spends": _lost,
    "any_types": _grew,
    "resource_personal": _lost,
    "environments": _more_places,
    "money": _lost,
    "facts": _lost,
    "tenant_path": _lost,
    "polls": _gained,
    "arguments": _rules_loosened,
}
"""How a changed field of a method is judged; every other one widens."""


def _covered(old: Any, new: Any) -> bool:
    """Tell whether each rule on arguments is still there, at least as strict."""
    now = {rule.path: rule for rule in new}
    return all(rule.path in now and _as_strict(rule, now[rule.path]) for rule in old)


def _as_strict(old: catalog_pb2.ArgumentRule, new: catalog_pb2.ArgumentRule) -> bool:
    lists = (
        (old.one_of, new.one_of),
        (old.domains, new.domains),
        (old.schemes or ["https"], new.schemes or ["https"]),
    )
    mosts = ((old.max_length, new.max_length), (old.max_items, new.max_items))
    return (
        (new.required or not old.required)
        and (not old.HasField("min") or (new.HasField("min") and new.min >= old.min))
        and (not old.HasField("max") or (new.HasField("max") and new.max <= old.max))
        and all(not was or (bool(now) and set(now) <= set(was)) for was, now in lists)
        and all(not was or 0 < now <= was for was, now in mosts)
        and (not old.pattern or new.pattern == old.pattern)
        and (not old.visible or new.visible == old.visible)
    )


def differences(old: catalog_pb2.Catalog, new: catalog_pb2.Catalog) -> tuple[Difference, ...]:
    """Return every difference, what widens first. Verifies nothing."""
    found = [*_head(old, new), *_methods(old, new)]
    order = list(Effect)
    return tuple(sorted(found, key=lambda one: (order.index(one.effect), one.method, one.field)))


def _head(old: catalog_pb2.Catalog, new: catalog_pb2.Catalog) -> Iterator[Difference]:
    for field in catalog_pb2.Catalog.DESCRIPTOR.fields:
        was, now = getattr(old, field.name), getattr(new, field.name)
        if field.name != "entries" and was != now:
            effect = Effect.NEUTRAL if field.name == "catalog_version" and now > was else Effect.WIDENS
            yield Difference(effect, "", field.name, _shown(was), _shown(now))


def _methods(old: catalog_pb2.Catalog, new: catalog_pb2.Catalog) -> Iterator[Difference]:
    was = {entry.path: entry for entry in old.entries}
    now = {entry.path: entry for entry in new.entries}
    for path in sorted(was.keys() | now.keys()):
        if path not in now:
            yield Difference(Effect.NARROWS, path, "method", "listed", "")
        elif path not in was:
            yield Difference(Effect.WIDENS, path, "method", "", "listed")
        else:
            yield from _entry(path, was[path], now[path])


def _entry(path: str, old: catalog_pb2.CatalogEntry, new: catalog_pb2.CatalogEntry) -> Iterator[Difference]:
    was, now = catalog_pb2.Method.FromString(old.current), catalog_pb2.Method.FromString(new.current)
    for field in catalog_pb2.Method.DESCRIPTOR.fields:
        before, after = _value(was, field), _value(now, field)
        if before != after:
            effect = _effect(field.name, before, after)
            yield Difference(effect, path, field.name, _shown(before), _shown(after))
    listed = {bytes(raw) for raw in (old.current, old.next) if raw}
    if new.next and bytes(new.next) not in listed:
        yield Difference(Effect.WIDENS, path, "next", "", "another version is taken too")
    elif old.next and not new.next:
        yield Difference(Effect.NARROWS, path, "next", "another version is taken too", "")


def _effect(name: str, old: Any, new: Any) -> Effect:
    if name in _NEUTRAL:
        return Effect.NEUTRAL
    judge = _JUDGES.get(name)
    return Effect.WIDENS if judge is None or judge(old, new) else Effect.NARROWS


def _value(method: catalog_pb2.Method, field: Any) -> Any:
    if field.message_type is not None and not field.is_repeated and not method.HasField(field.name):
        return None
    return getattr(method, field.name)


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"({len(value)} bytes)" if value else ""
    if isinstance(value, bool | int):
        return str(value).lower()
    if value is None or isinstance(value, str):
        text = value or ""
    elif hasattr(value, "items"):
        text = ", ".join(f"{name}: {part}" for name, part in sorted(value.items()))
    elif hasattr(value, "DESCRIPTOR"):
        text = str(value)
    else:
        text = ", ".join(" ".join(str(one).split()) for one in value)
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
