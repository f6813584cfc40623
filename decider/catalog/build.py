"""From `tools.yaml` and a descriptor set to the bytes of a catalog, ready to be signed.

Deterministic: equal sources make equal bytes, so a method's digest changes when its entry or its types
change and never otherwise. Every path that the source names is looked up in the descriptors; one that does
not exist, or has the wrong type, is a fault with file, line and field. Building does not sign and does not
judge (`decider.catalog.lint`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from decider.catalog.argument_source import listed_rules
from decider.catalog.descriptors import (
    INTEGER_TYPES,
    Descriptor,
    Descriptors,
    FieldDescriptor,
    MethodTypes,
    leaf,
)
from decider.catalog.mcp import McpTools
from decider.catalog.tools import FactsSource, MethodSource, ToolSource, listed_quotas
from decider.source import Faults
from licet.call import CatalogError
from licet.catalog import read_method
from licet.catalog.mcp import is_mcp_path
from licet.catalog.method import OWNER_ROLE
from licet.identity import audience_of
from licet.statement import canonical
from licet.v1 import catalog_pb2, decision_pb2

FORMAT_VERSION: Final = 1

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_STRAY_BRACE: Final = re.compile(r"[{}]")


def placeholders(template: str) -> tuple[str, ...]:
    """Return the argument paths that a template names, in order."""
    return tuple(_PLACEHOLDER.findall(template))


def build_catalog(
    source: ToolSource,
    descriptors: Descriptors,
    *,
    environment: str,
    trust_domain: str,
    mcp: McpTools | None = None,
    beside: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return the serialised `Catalog` of a tool. Raises `SourceError` with every fault.

    `mcp` is what the tool's MCP server lists. `beside` has serialised entries by path that are listed as
    `next`, while a rollout lasts, where they differ. A method of other environments is left out.
    Raises ValueError where `environment` or `trust_domain` is no name.
    """
    faults = Faults(source.file)
    catalog = catalog_pb2.Catalog(
        version=FORMAT_VERSION,
        catalog_version=source.version,
        environment=environment,
        tool=source.tool,
        audience=audience_of(trust_domain, environment, source.tool),
        owner_role="" if source.owner_role == OWNER_ROLE else source.owner_role,
    )
    for method in source.methods:
        if method.environments and environment not in method.environments:
            continue
        entry = _Entry(source, method, descriptors, faults, mcp or McpTools()).made()
        current = canonical(entry)
        if not faults.found:
            _read_back(method, current, faults)
        other = (beside or {}).get(method.path, b"")
        following = other if other != current else b""
        catalog.entries.append(catalog_pb2.CatalogEntry(path=method.path, current=current, next=following))
    if not catalog.entries:
        faults.add(0, "methods", f"lists no method for environment `{environment}`")
    faults.raise_any()
    return canonical(catalog)


def _read_back(method: MethodSource, entry: bytes, faults: Faults) -> None:
    """Read the entry as the door will: what it would refuse is a fault here."""
    try:
        read_method(method.path, entry)
    except CatalogError as error:
        faults.add(method.line, f"methods.{method.path.removeprefix('/')}", str(error))


def default_preconditions(method: MethodSource, facts: FactsSource) -> tuple[tuple[str, str], ...]:
    """Return the preconditions of a method: as written, else its tenant under the resource's kind."""
    if facts.preconditions is not None:
        return facts.preconditions
    kind = method.resource.partition(":")[0] or "resource"
    return ((f"{kind}.tenant", facts.tenant),)


class _Entry:
    """One method on its way into the catalog; notes faults under the method's own line."""

    def __init__(
        self,
        source: ToolSource,
        method: MethodSource,
        descriptors: Descriptors,
        faults: Faults,
        mcp: McpTools,
    ) -> None:
        self.source, self.method, self.descriptors, self.faults = source, method, descriptors, faults
        self.mcp = mcp

    def made(self) -> catalog_pb2.Method:
        method = self.method
        entry = catalog_pb2.Method(
            path=method.path,
            codec=method.codec,  # type: ignore[arg-type]  # one of the two codecs, checked when read
            tier=method.tier,
            operation=method.operation,
            resource=method.resource,
            say=method.say,
            sensitive=method.sensitive,
            guarded=method.guarded,
            no_effect_codes=method.no_effect_codes,
            obligations=method.obligations,
            ceilings=method.ceilings,
            decide_on_call=method.decide_on_call,
            approvers=listed_quotas(method),
            spends=method.spends,
            any_types=sorted(method.any_types),
            resource_personal=method.resource_personal,
            tenant_path=method.tenant_path,
            unguarded=method.unguarded,
            costs=dict(method.costs),
            polls=method.polls,
            arguments=listed_rules(method.arguments),
            data_classes=method.data_classes,
            results=method.results,
            environments=method.environments,
        )
        if method.codec == decision_pb2.CODEC_JSON_MCP:
            self._json(entry)
        else:
            self._protobuf(entry)
        return entry

    def _refuse(self, name: str, message: str) -> None:
        self.faults.add(self.method.line, f"methods.{self.method.path.removeprefix('/')}.{name}", message)

    def _json(self, entry: catalog_pb2.Method) -> None:
        listed = self.mcp.at(self.method.path)
        if listed is not None:
            entry.model_facing_sha256 = listed.model_facing_sha256
        elif is_mcp_path(self.method.path) and not self.method.json_schema:
            self._refuse("", "no usable tool of this name in the server's list, and no `json_schema`")
            return
        try:
            schema = json.loads(self.method.json_schema or (listed.closed.text if listed else ""))
        except ValueError:
            schema = None
        if not isinstance(schema, dict) or schema.get("type") != "object":
            self._refuse("json_schema", "must name a file with a JSON Schema of type `object`")
            return
        if self.method.facts is not None or self.method.money is not None:
            self._refuse("codec", "facts and money are read from protobuf methods only")
        entry.json_schema = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def _protobuf(self, entry: catalog_pb2.Method) -> None:
        types = self.descriptors.method(self.method.path)
        if types is None:
            self._refuse("", f"no method `{self.method.path}` in the descriptors")
            return
        entry.descriptors = self.descriptors.closure(types.input, types.output)
        entry.input_type, entry.output_type = types.input.full_name, types.output.full_name
        entry.server_streaming, entry.client_streaming = types.server_streaming, types.client_streaming
        self._paths(types.input)
        if self.method.money is not None:
            amount, currency = self.method.money
            entry.money.amount, entry.money.currency = amount, currency
        if self.method.facts is not None:
            self._facts(entry, self.method.facts, types)

    def _paths(self, message: Descriptor) -> None:
        method = self.method
        for name, template in (("resource", method.resource), ("say", method.say)):
            for path in placeholders(template):
                if not (name == "say" and path == "amount" and method.money is not None):
                    self._scalar(name, message, path)
            if _STRAY_BRACE.search(_PLACEHOLDER.sub("", template)):
                self._refuse(name, "has a brace that belongs to no `{path}`")
        for path in method.sensitive:
            if leaf(message, path) is None:
                self._refuse("sensitive", f"no field `{path}` in `{message.full_name}`")
        if method.tenant_path:
            self._scalar("tenant", message, method.tenant_path)
        self._money(message)

    def _money(self, message: Descriptor) -> None:
        if self.method.money is None:
            return
        amount, currency = self.method.money
        found = self._scalar("money.amount", message, amount)
        if found is not None and found.type not in INTEGER_TYPES:
            self._refuse("money.amount", f"`{amount}` must be an integer of minor units; floats never decide")
        found = self._scalar("money.currency", message, currency)
        if found is not None and found.type != FieldDescriptor.TYPE_STRING:
            self._refuse("money.currency", f"`{currency}` must be a string")

    def _scalar(self, name: str, message: Descriptor, path: str) -> FieldDescriptor | None:
        found = leaf(message, path)
        if found is None:
            self._refuse(name, f"no field `{path}` in `{message.full_name}`")
        elif found.is_repeated or found.message_type is not None:
            self._refuse(name, f"`{path}` must be a single scalar field")
        else:
            return found
        return None

    def _facts(self, entry: catalog_pb2.Method, facts: FactsSource, types: MethodTypes) -> None:
        read = self.descriptors.method(facts.method)
        if read is None:
            self._refuse("facts.method", f"no method `{facts.method}` in the descriptors")
            return
        listed = next((other for other in self.source.methods if other.path == facts.method), None)
        if listed is None:
            self._refuse("facts.method", f"`{facts.method}` is not a method of this tool's catalog")
        elif listed.tier > 1 or listed.facts is not None or listed.spends:
            self._refuse(
                "facts.method", f"`{facts.method}` must be of tier 0 or 1, without facts, and spend nothing"
            )
        if read.server_streaming or read.client_streaming:
            self._refuse("facts.method", f"`{facts.method}` must not stream")
        entry.facts.method = facts.method
        entry.facts.tenant = facts.tenant
        for target, path in facts.request or tuple((field.name, field.name) for field in read.input.fields):
            self._same_type(f"facts.request.{target}", read.input, target, types.input, path)
            entry.facts.request[target] = path
        found = self._scalar("facts.tenant", read.output, facts.tenant)
        if found is not None and found.type != FieldDescriptor.TYPE_STRING:
            self._refuse("facts.tenant", f"`{facts.tenant}` must be a string")
        for check, path in default_preconditions(self.method, facts):
            self._scalar(f"facts.preconditions.{check}", read.output, path)
            entry.facts.preconditions[check] = path

    def _same_type(self, name: str, target: Descriptor, to: str, source: Descriptor, path: str) -> None:
        wanted, given = self._scalar(name, target, to), self._scalar(name, source, path)
        if wanted is not None and given is not None and wanted.type != given.type:
            self._refuse(name, f"`{path}` and the field `{to}` of `{target.full_name}` must have one type")


def entries_of(payload: bytes) -> Iterator[catalog_pb2.Method]:
    """Yield the methods in force of a serialised catalog, for showing and linting; verifies nothing."""
    for entry in catalog_pb2.Catalog.FromString(payload).entries:
        yield catalog_pb2.Method.FromString(entry.current)
