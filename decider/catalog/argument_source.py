"""`arguments:` of a method in `tools.yaml`: what its owner lets through, whatever policy says."""

from collections.abc import Iterator
from typing import Final

from decider.source import Section
from licet.catalog.argument import ArgumentRule, fault
from licet.catalog.domain import DEFAULT_SCHEMES
from licet.v1 import catalog_pb2

_LOW: Final = -(1 << 63)
_HIGH: Final = (1 << 63) - 1
_MOST: Final = 1 << 20


def read_arguments(section: Section) -> tuple[ArgumentRule, ...]:
    """Read the rules of a method, by path; faults go to the section."""
    listed = section.section("arguments")
    if listed is None:
        return ()
    return tuple(sorted(_rules(listed), key=lambda rule: rule.path))


def _rules(listed: Section) -> Iterator[ArgumentRule]:
    for path in listed.names():
        inner = listed.section(path)
        if inner is None:
            continue
        rule = ArgumentRule(
            path=path,
            required=inner.flag("required", default=False),
            low=inner.integer("min", 0, low=_LOW, high=_HIGH) if inner.has("min") else None,
            high=inner.integer("max", 0, low=_LOW, high=_HIGH) if inner.has("max") else None,
            max_length=inner.integer("max_length", 0, low=1, high=_MOST),
            pattern=inner.text("pattern", "", max_length=512),
            one_of=_named(inner, "one_of"),
            domains=frozenset(inner.texts("domains")),
            schemes=frozenset(inner.texts("schemes")) or DEFAULT_SCHEMES,
            max_items=inner.integer("max_items", 0, low=1, high=_MOST),
            visible=inner.text("visible", ""),
        )
        _check_pattern(inner, rule.pattern)
        problem = fault(rule)
        if problem is not None:
            listed.refuse(path, problem)
        inner.close()
        yield rule


def _named(section: Section, key: str) -> frozenset[str]:
    """Take a list of texts, integers and truth values, each as a call's argument is spelled."""
    if not section.has(key):
        return frozenset()
    value = section.plain(key)
    if not isinstance(value, tuple) or not value or not all(isinstance(one, str | int) for one in value):
        section.refuse(key, "must be a list of texts, integers, true or false")
        return frozenset()
    return frozenset(str(one).lower() if isinstance(one, bool) else str(one) for one in value)


def _check_pattern(section: Section, pattern: str) -> None:
    from decider.catalog.patterns import PatternError, compile_pattern

    try:
        compile_pattern(pattern)
    except PatternError as error:
        section.refuse("pattern", str(error))


def listed_rules(rules: tuple[ArgumentRule, ...]) -> list[catalog_pb2.ArgumentRule]:
    """Return the rules as they stand in the catalog; equal rules make equal bytes."""
    return [
        catalog_pb2.ArgumentRule(
            path=rule.path,
            required=rule.required,
            min=rule.low,
            max=rule.high,
            max_length=rule.max_length,
            pattern=rule.pattern,
            one_of=sorted(rule.one_of),
            domains=sorted(rule.domains),
            schemes=sorted(rule.schemes) if rule.schemes != DEFAULT_SCHEMES else [],
            max_items=rule.max_items,
            visible=rule.visible,
        )
        for rule in rules
    ]
