"""`tools.yaml`: what the owner of a tool says of its methods, with defaults by tier.

A method needs its tier; everything else has a default that follows from it. Reading checks form only: names,
types, ranges. What needs the descriptors (do the paths exist?) is `decider.catalog.build`, what needs
judgement (is this wise?) is `decider.catalog.lint`. Nothing here is evaluated by a model, and nothing a
model says can change it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from decider.catalog.argument_source import read_arguments
from decider.source import Faults, Section, read, read_text
from licet.catalog.argument import ArgumentRule
from licet.catalog.mcp import MCP_PREFIX, mcp_name
from licet.catalog.method import OWNER_ROLE
from licet.catalog.reader import UNGUARDED
from licet.v1 import catalog_pb2, decision_pb2

MAX_METHODS: Final = 500
"""The most methods one tool may list."""

TOOL_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}\Z")
METHOD_PATH: Final = re.compile(
    r"/?[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*/[A-Za-z_][A-Za-z0-9_]*\Z"
)
WORD: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}\Z")
OPERATION: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
FIELD_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")

COST: Final = re.compile(rf"(?:0|[1-9][0-9]{{0,17}})\Z|{FIELD_PATH.pattern}")

STATUS_CODES: Final[Mapping[str, int]] = {
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "FAILED_PRECONDITION": 9,
    "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12,
    "UNAUTHENTICATED": 16,
}
"""gRPC codes by which a tool may say that nothing happened. The others may hide an effect.

RESOURCE_EXHAUSTED is not among them: so ends, at the door, a call whose reply is too large.
"""

CODECS: Final[Mapping[str, int]] = {
    "protobuf": decision_pb2.CODEC_PROTOBUF,
    "json_mcp": decision_pb2.CODEC_JSON_MCP,
}


@dataclass(frozen=True, slots=True)
class FactsSource:
    """Where the facts of a method come from; empty `request` and `tenant` stand for the defaults by name."""

    method: str
    request: tuple[tuple[str, str], ...] = ()
    tenant: str = "tenant"
    preconditions: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class MethodSource:
    """One method as its owner wrote it, defaults filled in."""

    path: str
    line: int
    tier: int
    operation: str
    codec: int
    resource: str
    money: tuple[str, str] | None
    facts: FactsSource | None
    say: str
    sensitive: tuple[str, ...]
    guarded: bool
    no_effect_codes: tuple[int, ...]
    obligations: tuple[str, ...]
    ceilings: bool
    decide_on_call: bool
    approvers: tuple[tuple[str, int], ...]
    spends: bool
    any_types: tuple[str, ...]
    resource_personal: bool
    tenant_path: str
    json_schema: str
    unguarded: str
    waiver: str
    costs: tuple[tuple[str, str], ...] = ()
    polls: bool = False
    arguments: tuple[ArgumentRule, ...] = ()
    data_classes: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSource:
    """One tool as its owner wrote it."""

    file: str
    tool: str
    version: int
    methods: tuple[MethodSource, ...] = field(default=())
    owner_role: str = OWNER_ROLE


def snake_case(name: str) -> str:
    """Return a method's name as an operation: `IssueRefund` becomes `issue_refund`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def operation_of(path: str) -> str:
    """Return what rules call a method where its owner says nothing: its name in snake_case, ASCII alone."""
    name = mcp_name(path) or path.rsplit("/", 1)[1]
    spelled = re.sub(r"[^a-z0-9]+", "_", snake_case(name)).strip("_")[:60]
    return spelled if spelled[:1].isalpha() else f"op_{spelled}".rstrip("_")


def full_path(path: str) -> str:
    """Return a method's path as it goes over the wire, with its leading slash."""
    return path if path.startswith("/") else f"/{path}"


def read_tools(path: Path) -> ToolSource:
    """Read `tools.yaml`. Raises `SourceError` with every fault that it has."""
    top, faults = read(path)
    tool = _matching(top, "tool", TOOL_NAME, "1 to 64 of a-z, 0-9, `_`, `-`")
    version = top.integer("version", 1, low=1, high=(1 << 63) - 1)
    methods: list[MethodSource] = []
    listed = top.section("methods", required=True)
    if listed is not None:
        methods = [
            made for key in listed.names() if (made := _method(listed, key, tool, path.parent)) is not None
        ]
        if not listed.names():
            top.refuse("methods", "lists no method")
        if len(listed.names()) > MAX_METHODS:
            top.refuse("methods", f"lists more than {MAX_METHODS} methods")
    _refuse_twins(methods, faults)
    owner = _matching(top, "owner", TOOL_NAME, "a role: 1 to 64 of a-z, 0-9, `_`, `-`", OWNER_ROLE)
    top.close()
    faults.raise_any()
    by_path = tuple(sorted(methods, key=lambda method: method.path))
    return ToolSource(str(path), tool, version, by_path, owner)


def _refuse_twins(methods: list[MethodSource], faults: Faults) -> None:
    seen: set[str] = set()
    for method in methods:
        if method.path in seen:
            faults.add(
                method.line, f"methods.{method.path}", "given twice, with and without the leading slash"
            )
        seen.add(method.path)


def _matching(
    section: Section, key: str, pattern: re.Pattern[str], what: str, default: str | None = None
) -> str:
    value = section.text(key, default)
    if value and not pattern.match(value):
        section.refuse(key, f"`{value}` must be {what}")
    return value


def _method(listed: Section, key: str, tool: str, directory: Path) -> MethodSource | None:
    path = full_path(key)
    named = mcp_name(path) is not None
    mcp = named and path.startswith(f"{MCP_PREFIX}{tool}/")
    if not mcp and (named or not METHOD_PATH.match(key)):
        listed.refuse(key, f"must look like `package.Service/Method`, or `mcp.{tool}/name` for an MCP tool")
    section = listed.section(key)
    if section is None:
        return None
    tier = section.integer("tier", low=0, high=5)
    codec = section.text("codec", "json_mcp" if mcp else "protobuf")
    if codec not in CODECS:
        section.refuse("codec", f"`{codec}` must be one of {', '.join(CODECS)}")
    operation = _matching(section, "operation", OPERATION, "lower_snake_case, at most 64", operation_of(path))
    resource = section.text("resource", f"tool:{tool}")
    made = MethodSource(
        path=path,
        line=section.line,
        tier=tier,
        operation=operation,
        codec=CODECS.get(codec, 0),
        resource=resource,
        money=_money(section),
        facts=_facts(section),
        say=section.text("say", f"{operation} {resource}".strip()),
        sensitive=_paths(section, "sensitive"),
        guarded=section.flag("guarded", default=tier >= 4 and not section.has("unguarded")),
        no_effect_codes=_codes(section),
        obligations=section.texts("obligations"),
        ceilings=section.flag("ceilings", default=False),
        decide_on_call=section.flag("decide_on_call", default=tier <= 1),
        approvers=_approvers(section),
        spends=section.flag("spends", default=tier >= 2),
        any_types=section.texts("any_types"),
        resource_personal=section.flag("resource_personal", default=False),
        tenant_path=_matching(section, "tenant", FIELD_PATH, "a path of field names joined by dots", ""),
        json_schema=_json_schema(section, directory),
        unguarded=_unguarded(section),
        waiver=section.text("waiver", ""),
        costs=_costs(section),
        polls=section.flag("polls", default=False),
        arguments=read_arguments(section),
        data_classes=_words(section, "data_classes"),
        results=_words(section, "results"),
        environments=_words(section, "environments"),
    )
    section.close()
    return made


def _words(section: Section, key: str) -> tuple[str, ...]:
    words = section.texts(key)
    for word in words:
        if not WORD.match(word) or words.count(word) > 1:
            section.refuse(key, f"`{word}` must stand once, in 1 to 64 of a-z, 0-9, `_`, `.`, `-`")
    return tuple(sorted(set(words)))


def _unguarded(section: Section) -> str:
    way = section.text("unguarded", "")
    if way and way not in UNGUARDED:
        section.refuse("unguarded", f"`{way}` must be one of {', '.join(sorted(UNGUARDED))}")
    return way


def _paths(section: Section, key: str) -> tuple[str, ...]:
    paths = section.texts(key)
    for path in paths:
        if not FIELD_PATH.match(path):
            section.refuse(key, f"`{path}` must be a path of field names joined by dots")
    return paths


def _money(section: Section) -> tuple[str, str] | None:
    inner = section.section("money")
    if inner is None:
        return None
    what = "a path of field names joined by dots"
    money = _matching(inner, "amount", FIELD_PATH, what), _matching(inner, "currency", FIELD_PATH, what)
    inner.close()
    return money


def _pairs(section: Section, key: str) -> tuple[tuple[str, str], ...] | None:
    inner = section.section(key)
    if inner is None:
        return None
    what = "a path of field names joined by dots"
    return tuple(sorted((name, _matching(inner, name, FIELD_PATH, what)) for name in inner.names()))


def _facts(section: Section) -> FactsSource | None:
    if section.is_text("facts"):
        method = _matching(section, "facts", METHOD_PATH, "a method path such as `package.Service/Method`")
        return FactsSource(full_path(method))
    inner = section.section("facts")
    if inner is None:
        return None
    facts = FactsSource(
        method=full_path(
            _matching(inner, "method", METHOD_PATH, "a method path such as `package.Service/Method`")
        ),
        request=_pairs(inner, "request") or (),
        tenant=_matching(inner, "tenant", FIELD_PATH, "a path of field names joined by dots", "tenant"),
        preconditions=_pairs(inner, "preconditions"),
    )
    inner.close()
    return facts


def _costs(section: Section) -> tuple[tuple[str, str], ...]:
    """Read `costs: {tokens: max_tokens, credits: "3"}`: a path of an integer, or how much."""
    inner = section.section("costs")
    if inner is None:
        return ()
    costs = []
    for name in inner.names():
        if not OPERATION.match(name):
            inner.refuse(name, "a cost's name is lower_snake_case, at most 64")
        costs.append((name, _matching(inner, name, COST, "a path of field names, or an integer in quotes")))
    return tuple(sorted(costs))


def _codes(section: Section) -> tuple[int, ...]:
    names = section.texts("no_effect_codes")
    for name in names:
        if name not in STATUS_CODES:
            section.refuse(
                "no_effect_codes",
                f"`{name}` cannot prove that nothing happened; known: {', '.join(STATUS_CODES)}",
            )
    return tuple(sorted({STATUS_CODES[name] for name in names if name in STATUS_CODES}))


def _approvers(section: Section) -> tuple[tuple[str, int], ...]:
    inner = section.section("approvers")
    if inner is None:
        return ()
    for role in inner.names():
        if not TOOL_NAME.match(role):
            inner.refuse(role, "a role's name is 1 to 64 of a-z, 0-9, `_`, `-`")
    return tuple(sorted((role, inner.integer(role, low=1, high=9)) for role in inner.names()))


def _json_schema(section: Section, directory: Path) -> str:
    name = section.text("json_schema", "")
    return read_text(directory / name) if name else ""


def listed_quotas(method: MethodSource) -> list[catalog_pb2.ApproverQuota]:
    """Return the approver quotas as they stand in the catalog."""
    return [catalog_pb2.ApproverQuota(role=role, quorum=quorum) for role, quorum in method.approvers]
