"""What is wrong with a catalog that is well formed: the judgement that building does not make.

An error keeps the catalog from being signed; a warning is said and no more. A waiver (`waiver: "why"` at the
method) turns the errors that it can excuse into warnings and stands in the source for every reviewer to see.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from decider.catalog.build import default_preconditions, placeholders
from decider.catalog.descriptors import FLOAT_TYPES, Descriptors, MethodTypes, reachable
from decider.catalog.mcp import McpTools
from decider.catalog.tools import MethodSource, ToolSource
from licet.v1.decision_pb2 import CODEC_JSON_MCP

FLOATS_TIER: Final = 3
"""From this tier on no argument may be a floating point number without a waiver."""

_NUMBER_TYPE: Final = re.compile(r'"type"\s*:\s*(?:"number"|\[[^\]]*"number")')
_KIND: Final = re.compile(r"[a-z][a-z0-9_]*\Z")
_LOOSE_TYPES: Final = frozenset(
    {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue", "google.protobuf.Any"}
)
_MONEY_WORDS: Final = frozenset(
    {"amount", "price", "total", "refund", "payment", "fee", "sum", "minor", "cents"}
)


DRAFT_WAIVER: Final = "a draft that nobody has looked at"
"""What a drafted method is waived by until its owner says better."""


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One judgement; `rule` is a stable name, `waivable` whether the method's waiver excuses it."""

    level: Level
    rule: str
    file: str
    line: int
    method: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.level}: {self.rule}: {self.method}: {self.message}"


_Raw = tuple[Level, str, str, bool]


def lint_catalog(
    source: ToolSource, descriptors: Descriptors, mcp: McpTools | None = None
) -> tuple[Finding, ...]:
    """Return every judgement about a tool, in the order of its methods."""
    listed = mcp or McpTools()
    return tuple(
        Finding(
            Level.WARNING if waivable and method.waiver else level,
            rule,
            source.file,
            method.line,
            method.path.removeprefix("/"),
            f"{message} (waived: {method.waiver})" if waivable and method.waiver else message,
        )
        for method in source.methods
        for level, rule, message, waivable in _judged(method, descriptors.method(method.path), listed)
    )


def _judged(method: MethodSource, types: MethodTypes | None, mcp: McpTools) -> Iterator[_Raw]:
    yield from _effects(method)
    yield from _names(method)
    if types is not None:
        yield from _types(method, types)
    if method.codec == CODEC_JSON_MCP:
        yield from _schema(method, mcp)
    if method.waiver == DRAFT_WAIVER:
        yield Level.WARNING, "draft-waiver", "look at what the draft guessed, then say why or drop it", False


def _schema(method: MethodSource, mcp: McpTools) -> Iterator[_Raw]:
    """Judge the JSON Schema of a method: its own, else the one that its server lists, closed."""
    listed = mcp.at(method.path)
    if listed is None and not method.json_schema:
        return  # the builder says so
    text = method.json_schema or (listed.closed.text if listed is not None else "")
    if method.tier >= FLOATS_TIER and _NUMBER_TYPE.search(text):
        yield Level.ERROR, "float", "takes numbers with a fraction; write quantities as integers", True
    if listed is not None and not method.json_schema:
        for note in listed.closed.notes:
            yield Level.WARNING, "schema-narrowed", f"{note}; a `json_schema` of your own can say more", False


def _effects(method: MethodSource) -> Iterator[_Raw]:
    if method.tier >= 2 and not method.spends:
        yield Level.ERROR, "write-spends", "a write always spends its permit", False
    if method.tier >= 4 and not method.guarded:
        if method.tier == 5 or not method.unguarded:
            why = "nothing proves the effect: guard it, or say `unguarded: idempotency_key` at tier 4"
            yield Level.ERROR, "guard-missing", why, False
        else:
            yield Level.WARNING, "unguarded", "an outcome that is not known goes to a person", False
    if method.tier <= 1 and method.no_effect_codes:
        yield Level.WARNING, "no-effect-read", "a read has no effect; its codes mean nothing here", False
    yield from _privilege(method)
    yield from _tenant(method)


def _privilege(method: MethodSource) -> Iterator[_Raw]:
    if method.tier < 5:
        if method.approvers:
            yield Level.ERROR, "approvers-unused", "the door demands approvers of tier 5 only", False
        return
    if not method.approvers:
        why = "a privileged method names the approvers that the door demands"
        yield Level.ERROR, "approvers-missing", why, False
    if method.ceilings:
        yield Level.ERROR, "privileged-ceilings", "a privileged call is bound exactly", False
    if method.decide_on_call:
        yield Level.ERROR, "privileged-on-call", "a privileged call is never decided on call", False


def _tenant(method: MethodSource) -> Iterator[_Raw]:
    level = Level.ERROR if method.tier >= 3 else Level.WARNING
    if method.facts is None:
        if not method.tenant_path and method.tier >= 1:
            yield level, "tenant-unknown", "neither facts nor arguments say whose resource it is", True
    elif method.tier >= 2:
        checks = default_preconditions(method, method.facts)
        if not any(path == method.facts.tenant for _, path in checks):
            why = "the tenant must be a precondition: the guard compares it with the row it changes"
            yield Level.ERROR, "tenant-precondition", why, False


def _names(method: MethodSource) -> Iterator[_Raw]:
    kind, colon, _ = method.resource.partition(":")
    if method.tier >= 1 and not placeholders(method.resource):
        level = Level.ERROR if method.tier >= 3 else Level.WARNING
        yield level, "resource-missing", 'names nothing it touches: write `resource: "kind:{path}"`', True
    if not colon or not _KIND.match(kind):
        yield (
            Level.ERROR,
            "resource-kind",
            "a resource is written `kind:{path}`, the kind in snake_case",
            False,
        )
    shown = set(placeholders(method.say))
    for path in method.sensitive:
        if path in placeholders(method.resource):
            yield (
                Level.WARNING,
                "sensitive-resource",
                f"`{path}` stands in the resource; set `resource_personal: true`",
                False,
            )
    if method.money is not None:
        amount, currency = method.money
        if currency not in shown or not shown & {"amount", amount}:
            yield Level.WARNING, "say-money", "the summary does not show amount and currency", False


def _types(method: MethodSource, types: MethodTypes) -> Iterator[_Raw]:
    if types.client_streaming:
        yield (
            Level.ERROR,
            "client-streaming",
            "client streaming is not supported: leave the method out",
            False,
        )
    money_like = False
    for path, field in reachable(types.input):
        if method.tier >= 3 and field.type in FLOAT_TYPES:
            yield Level.ERROR, "float", f"`{path}` is a float; write money and quantities as integers", True
        if (
            method.tier >= 3
            and field.message_type is not None
            and field.message_type.full_name in _LOOSE_TYPES
        ):
            yield (
                Level.ERROR,
                "loose-type",
                f"`{path}` is a `{field.message_type.full_name}`: rules cannot see into it",
                True,
            )
        money_like = money_like or bool(_MONEY_WORDS & set(path.lower().replace(".", "_").split("_")))
    if method.tier >= 3 and money_like and method.money is None:
        yield (
            Level.WARNING,
            "money-unnamed",
            "looks like money, but `money: {amount, currency}` is not given",
            False,
        )
    if method.facts is None and method.tier >= 3:
        yield Level.WARNING, "facts-missing", "is decided without knowing the tool's present state", False
