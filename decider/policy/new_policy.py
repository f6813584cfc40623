"""A first bundle: denies everything, with a schema that fits the catalog beside it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from decider.catalog.descriptors import Descriptors
from decider.catalog.fit import resource_type_of, sample_facts
from decider.catalog.tools import MethodSource, ToolSource, read_tools
from decider.policy.bundle import MANIFEST, RULES, SCHEMA
from decider.policy.cedar import PLAIN_RESOURCE_TYPE, SAMPLE_CONTEXT, Value
from decider.policy.policy_tests import FILE as TESTS
from decider.source import read_bytes

_MANIFEST: Final = """\
# What belongs to the rules and is no rule text: version, stage, and what a denial may say.
version: 1
stage: enforce
escalate_to: "{owner}"
"""
_RULES: Final = """// No rule allows anything yet, so every call is denied. A rule that allows:
//
// @id("bots-read")
// permit (principal == Agent::"my-bot", action == Action::"{operation}", resource);
//
// One that denies, holds for a person, or narrows: `forbid`, with `@hold("role:1")` or `@modify` above it.
"""
_TEST: Final = """# What the rules must say: `licet policy test`. Each rule needs a test that it decides.
tests:
  nothing-is-allowed-yet:
    agent: my-bot
    operation: {operation}
    decision: deny
    rules: []
"""


def new_policy(directory: Path) -> tuple[Path, ...]:
    """Write what is missing of a bundle in `directory`; return what was written.

    With `tools.yaml` and `descriptors.binpb` in it, the schema has their operations, resources and facts.
    Raises `SourceError`, OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    methods, descriptors = _catalog(directory)
    operation = _plain_operation(methods)
    texts = {
        MANIFEST: _MANIFEST.format(owner="owner@example.com"),
        RULES: _RULES.format(operation=operation),
        SCHEMA: "\n".join(_schema(methods, descriptors)) + "\n",
        TESTS: _TEST.format(operation=operation),
    }
    written = []
    for name, text in texts.items():
        path = directory / name
        if not path.exists():
            path.write_text(text)
            written.append(path)
    return tuple(written)


def _catalog(directory: Path) -> tuple[tuple[MethodSource, ...], Descriptors | None]:
    tools, descriptors = directory / "tools.yaml", directory / "descriptors.binpb"
    if not tools.exists() or not descriptors.exists():
        return (), None
    source: ToolSource = read_tools(tools)
    return tuple(source.methods), Descriptors(read_bytes(descriptors))


def _plain_operation(methods: tuple[MethodSource, ...]) -> str:
    plain = [method.operation for method in methods if resource_type_of(method) == PLAIN_RESOURCE_TYPE]
    return plain[0] if plain else "read"


def _schema(methods: tuple[MethodSource, ...], descriptors: Descriptors | None) -> Iterator[str]:
    yield "// The principal is the agent, the resource what the catalog names; facts are its attributes."
    yield "entity Agent;"
    yield f"entity {PLAIN_RESOURCE_TYPE};"
    actions: dict[str, set[str]] = {} if methods else {"read": {PLAIN_RESOURCE_TYPE}}
    entities: dict[str, dict[str, Value]] = {}
    for method in methods:
        kind = resource_type_of(method)
        actions.setdefault(method.operation, set()).add(kind)
        if kind != PLAIN_RESOURCE_TYPE and descriptors is not None:
            entities.setdefault(kind, {}).update(sample_facts(method, descriptors))
    for kind, attributes in sorted(entities.items()):
        yield f"entity {kind} = {_record(attributes)};"
    yield ""
    yield "// Known without the tool; leave out what no rule uses."
    told = {name: value for name, value in SAMPLE_CONTEXT.items() if name != "relations"}  # needs a source
    yield f"type Call = {_record(told)};"
    yield ""
    for operation, kinds in sorted(actions.items()):
        resources = ", ".join(sorted(kinds))
        name = operation if operation.isidentifier() else f'"{operation}"'
        yield f"action {name} appliesTo {{ principal: Agent, resource: [{resources}], context: Call }};"


def _record(attributes: Mapping[str, Value]) -> str:
    fields = [f"  {name}: {kind}," for name, value in attributes.items() if (kind := _type(value))]
    return "\n".join(["{", *fields, "}"])


def _type(value: Value) -> str:
    match value:
        case bool():
            return "Bool"
        case int():
            return "Long"
        case str():
            return "String"
        case tuple():
            return "Set<String>" if value == () or isinstance(value[0], str) else ""
        case _:
            return _record(value).replace("\n", "\n  ")
