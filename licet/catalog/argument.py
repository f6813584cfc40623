"""Rules on arguments: what the owner of a tool lets through, whatever policy says. Pure.

A rule is about one path; through lists it is about each element, also about one that leaves the value out.
Every condition that is set must hold for every value there. A value of another kind than a condition is
about does not meet it. What is absent meets every condition, unless the rule requires it, or the field has a
default that the tool would read in its place: that default is judged like a value.

`pattern` needs RE2 and `visible` the tool's facts, so both are checked by the decider alone; the reader of
catalogs therefore takes neither together with ceilings. Everything else is checked at the door as well.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from licet.call import Arguments, EnumNumber
from licet.call.tree import Leaf, ListValue, Value
from licet.catalog.domain import DEFAULT_SCHEMES, domain_of, within
from licet.refusal import Reason, Refusal

ARGUMENTS_RULE: Final = "catalog-arguments"
"""The rule id under which a refusal by these rules stands."""

Compile = Callable[[str], Callable[[str], bool]]
"""Makes of a pattern what tells whether a whole text matches it."""

_PATH: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """What one argument must be; fields as proto/licet/v1/catalog.proto says.

    `default` is what the tool reads where nothing is sent; None where it can tell absence. `in_list`: whether
    the path leads through a list, so that each of its elements may leave the value out.
    """

    path: str
    required: bool = False
    low: int | None = None
    high: int | None = None
    max_length: int = 0
    pattern: str = ""
    one_of: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    schemes: frozenset[str] = DEFAULT_SCHEMES
    max_items: int = 0
    visible: str = ""
    default: int | str | None = None
    in_list: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The path's names, as the leaves of arguments have them."""
        return tuple(self.path.split("."))

    def unmet(self, value: Leaf) -> str | None:
        """Return the condition that a value does not meet, or None."""
        if self.low is not None or self.high is not None:
            if isinstance(value, bool | EnumNumber) or not isinstance(value, int):
                return "range"
            if not (self.low is None or self.low <= value) or not (self.high is None or value <= self.high):
                return "range"
        if self.max_length and not (isinstance(value, str) and len(value.encode()) <= self.max_length):
            return "max_length"
        if self.one_of and _spelled(value) not in self.one_of:
            return "one_of"
        if self.domains and not self._of_domains(value):
            return "domains"
        return None

    def _of_domains(self, value: Leaf) -> bool:
        if value == "":  # no address: nothing can go there, and protobuf cannot tell it from nothing sent
            return True
        domain = domain_of(value, self.schemes) if isinstance(value, str) else None
        return domain is not None and within(domain, self.domains)


def _spelled(value: Leaf) -> str | None:
    """Return a value as `one_of` writes it; None for what it cannot name."""
    match value:
        case bool():
            return "true" if value else "false"
        case EnumNumber():
            return value.name
        case int() | str():
            return str(value)
        case _:
            return None


def check_arguments(
    rules: Iterable[ArgumentRule], arguments: Arguments, *, compiled: Compile | None = None
) -> Refusal | None:
    """Return ARGUMENT_REFUSED naming argument and condition, or None where every rule is met.

    With `compiled` the patterns are checked too: the decider's way. `visible` is `check_visible`'s.
    """
    for rule in rules:
        found = _values(rule, arguments)
        lacking = _lacking(arguments.values, rule.names, in_list=not rule.in_list)
        if rule.required and (not found or lacking):
            return _refused(rule, "required")
        if rule.default is not None:
            found += [rule.default] * lacking
        if rule.max_items and len(found) > rule.max_items:
            return _refused(rule, "max_items")
        matches = compiled(rule.pattern) if rule.pattern and compiled is not None else None
        for value in found:
            unmet = rule.unmet(value)
            if unmet is None and matches is not None and not (isinstance(value, str) and matches(value)):
                unmet = "pattern"
            if unmet is not None:
                return _refused(rule, unmet)
    return None


def check_visible(
    rules: Iterable[ArgumentRule], arguments: Arguments, known: Callable[[str], frozenset[str]]
) -> Refusal | None:
    """Return ARGUMENT_REFUSED where a value is not among the facts at the rule's `visible` path, or None.

    `known` gives the texts and decimal integers that the facts have at a path.
    """
    for rule in rules:
        if not rule.visible:
            continue
        seen = known(rule.visible)
        if any(_spelled(value) not in seen for value in _values(rule, arguments)):
            return _refused(rule, "visible")
    return None


def _values(rule: ArgumentRule, arguments: Arguments) -> list[Leaf]:
    """Return the values at the rule's path; JSON's null is none."""
    names = rule.names
    return [value for path, value in arguments.leaves() if path == names and value is not None]


def _lacking(value: Value | Mapping[str, Value], names: Sequence[str], *, in_list: bool) -> int:
    """Return how often the rest of a path is left out; each element of a list may do so.

    Without `in_list` only elements count, not a list that is not there: it has none.
    """
    if isinstance(value, ListValue):
        return sum(_lacking(item, names, in_list=True) for item in value.items)
    if not names or not isinstance(value, Mapping):
        return int(in_list and value is None)
    return _lacking(value.get(names[0]), names[1:], in_list=in_list)


def _refused(rule: ArgumentRule, condition: str) -> Refusal:
    detail = f"argument `{rule.path}` does not meet `{condition}`"
    return Refusal(Reason.ARGUMENT_REFUSED, detail, rule_id=ARGUMENTS_RULE, argument=rule.path)


def fault(rule: ArgumentRule) -> str | None:
    """Return what is wrong with a rule in itself, or None; paths and kinds are the reader's matter."""
    conditions = (
        rule.required,
        rule.low is not None,
        rule.high is not None,
        rule.max_length,
        rule.pattern,
        rule.one_of,
        rule.domains,
        rule.max_items,
        rule.visible,
    )
    if not _PATH.fullmatch(rule.path):
        return f"`{rule.path}` is no argument path"
    if not any(conditions):
        return f"the rule on `{rule.path}` says nothing"
    if rule.low is not None and rule.high is not None and rule.low > rule.high:
        return f"the rule on `{rule.path}` has a `min` above its `max`"
    return None
