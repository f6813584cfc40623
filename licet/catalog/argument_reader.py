"""Reading the argument rules of a catalog: each names a value that is there, of a kind that can meet it."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from licet.call import CatalogError
from licet.catalog.argument import ArgumentRule, fault
from licet.catalog.domain import DEFAULT_SCHEMES, named_domain
from licet.catalog.fields import Fields, Kind
from licet.catalog.method import Method
from licet.v1 import catalog_pb2

MAX_RULES: Final = 200
"""Argument rules of one method."""

MAX_LISTED: Final = 1_000
"""Values or domains that one rule lists."""

MAX_PATTERN_BYTES: Final = 512
"""Length of a pattern."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,20}", re.ASCII)
_SPELLED: Final = frozenset({Kind.INTEGER, Kind.TEXT, Kind.NAME})


def read_rules(message: catalog_pb2.Method, method: Method, fields: Fields) -> tuple[ArgumentRule, ...]:
    """Return the argument rules of a method; raises CatalogError on one that could never be met."""
    if len(message.arguments) > MAX_RULES:
        raise CatalogError(f"{len(message.arguments)} argument rules, at most {MAX_RULES}")
    rules = tuple(_rule(rule, fields) for rule in message.arguments)
    if len({rule.path for rule in rules}) != len(rules):
        raise CatalogError("two argument rules are on one path: write them as one")
    for rule in rules:
        _check_kind(rule, fields.kind_of_each(rule.path))
        if rule.visible and method.facts is None:
            raise CatalogError(f"the rule on `{rule.path}` looks into facts, and the method has none")
        if method.ceilings and (rule.pattern or rule.visible):
            raise CatalogError(f"`ceilings` do not go with `pattern` and `visible`, as on `{rule.path}`")
    return rules


def _rule(message: catalog_pb2.ArgumentRule, fields: Fields) -> ArgumentRule:
    rule = ArgumentRule(
        path=message.path,
        required=message.required,
        low=message.min if message.HasField("min") else None,
        high=message.max if message.HasField("max") else None,
        max_length=message.max_length,
        pattern=message.pattern,
        one_of=_listed(message.one_of, message.path),
        domains=_listed(message.domains, message.path),
        schemes=frozenset(message.schemes) or DEFAULT_SCHEMES,
        max_items=message.max_items,
        visible=message.visible,
    )
    problem = fault(rule)
    if problem is not None:
        raise CatalogError(problem)
    return replace(rule, default=fields.default(rule.path), in_list=fields.in_list(rule.path))


def _listed(values: Iterable[str], path: str) -> frozenset[str]:
    listed = tuple(values)
    if len(set(listed)) != len(listed) or len(listed) > MAX_LISTED:
        raise CatalogError(f"the rule on `{path}` lists a value twice, or more than {MAX_LISTED}")
    return frozenset(listed)


def _check_kind(rule: ArgumentRule, kind: Kind) -> None:
    if (rule.low is not None or rule.high is not None) and kind is not Kind.INTEGER:
        raise CatalogError(f"`{rule.path}` has a range and is not an integer but {kind.value}")
    texts = rule.max_length or rule.pattern or rule.domains
    if texts and kind is not Kind.TEXT:
        raise CatalogError(f"`{rule.path}` has a rule about text and is not text but {kind.value}")
    if (rule.one_of or rule.visible) and kind not in _SPELLED:
        raise CatalogError(f"`{rule.path}` has a rule about names and is {kind.value}")
    if len(rule.pattern.encode()) > MAX_PATTERN_BYTES:
        raise CatalogError(f"the pattern on `{rule.path}` is longer than {MAX_PATTERN_BYTES} bytes")
    for domain in rule.domains:
        if not named_domain(domain):
            raise CatalogError(
                f"`{domain}` is no domain: write `example.com` or `*.example.com`, other scripts as `xn--…`"
            )
    if rule.schemes != DEFAULT_SCHEMES and not rule.domains:
        raise CatalogError(f"the rule on `{rule.path}` names schemes and no domains")
    for scheme in rule.schemes:
        if not _SCHEME.fullmatch(scheme):
            raise CatalogError(f"`{scheme}` is no scheme")
