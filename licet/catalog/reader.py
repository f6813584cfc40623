"""Reading a signed catalog: nothing in it is used before all of it makes sense.

Guarantees of a Catalog that `read_catalog` returned: signed by a catalog key of this environment; every
path, template, money and facts path names a field that is there, of a type that fits; what tier 4 and 5
demand is there; what facts are read from is a harmless read. Style and policy are the linter's matter.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from licet.call import CatalogError, Plan, Schema, compile_plan, compile_schema
from licet.catalog.argument_reader import read_rules
from licet.catalog.fields import Fields, Kind, MessageFields, SchemaFields
from licet.catalog.mcp import MCP_PREFIX, is_mcp_path
from licet.catalog.method import OWNER_ROLE, Catalog, Facts, Method, MethodVersions, method_digest
from licet.catalog.money import Money
from licet.catalog.template import Template, read_template
from licet.dsse import PayloadType
from licet.hold import MAX_APPROVALS, Quota
from licet.identity import parse_spiffe_id, subject_token
from licet.keys import KeySet
from licet.refusal import Reason, Refusal
from licet.statement import verify
from licet.strict import strict_parse
from licet.tier import FACTS_TIER, GUARDED_TIER, MAX_TIER, CallClass, class_of
from licet.v1 import catalog_pb2
from licet.v1.decision_pb2 import Codec
from licet.v1.statement_pb2 import Signed

CATALOG_VERSION = 1
"""Version of the message Catalog that is read."""

MAX_METHODS = 1_000
"""Methods in one catalog."""

UNGUARDED = frozenset({"idempotency_key", "at_most_once"})
"""How a tier 4 method without a guard may keep its effect to one."""

_PATH = re.compile(r"/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*/[A-Za-z_]\w*", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)
_AMOUNT = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_IDENTIFIERS = frozenset({Kind.INTEGER, Kind.TEXT})


def read_catalog(signed: Signed, keys: KeySet, *, environment: str, now_ms: int) -> Catalog | Refusal:
    """Return the catalog that a catalog key signed for `environment`, or why not.

    A catalog that is signed but makes no sense is refused as PERMIT_MALFORMED, saying what to change.
    """
    payload = verify(PayloadType.CATALOG, signed, keys, now_ms=now_ms)
    if isinstance(payload, Refusal):
        return payload
    message = strict_parse(catalog_pb2.Catalog, payload)
    if isinstance(message, Refusal):
        return message
    if message.environment != environment:
        return Refusal(Reason.ENVIRONMENT_MISMATCH, f"the catalog is for environment `{message.environment}`")
    try:
        return read_payload(message)
    except (CatalogError, ValueError) as error:
        return Refusal(Reason.PERMIT_MALFORMED, f"catalog: {error}")


def read_payload(message: catalog_pb2.Catalog) -> Catalog:
    """Return a catalog whose signature was verified, or that nothing will be decided by.

    Raises CatalogError or ValueError, saying what to change.
    """
    if message.version != CATALOG_VERSION or message.catalog_version < 1:
        raise CatalogError(f"version {message.version} of a catalog, numbered {message.catalog_version}")
    subject_token(message.tool)
    audience = parse_spiffe_id(message.audience)
    if audience is None or audience.path != f"/{message.environment}/tool/{message.tool}":
        raise CatalogError(f"`{message.audience}` is not the audience of tool `{message.tool}`")
    if not 1 <= len(message.entries) <= MAX_METHODS:
        raise CatalogError(f"{len(message.entries)} methods")
    methods: dict[str, MethodVersions] = {}
    for entry in message.entries:
        if entry.path in methods:
            raise CatalogError(f"the path `{entry.path}` is given twice")
        methods[entry.path] = _versions(entry)
    for versions in methods.values():
        for method in versions.all():
            _check_facts(method, methods)
            _check_place(method, message)
    if message.owner_role and not _NAME.fullmatch(message.owner_role):
        raise CatalogError(f"`{message.owner_role}` is no role")
    return Catalog(
        message.tool,
        message.environment,
        message.audience,
        message.catalog_version,
        MappingProxyType(methods),
        message.owner_role or OWNER_ROLE,
    )


def _check_place(method: Method, message: catalog_pb2.Catalog) -> None:
    """Refuse a method that its owner lists elsewhere only, or that is named after another tool."""
    if method.environments and message.environment not in method.environments:
        raise CatalogError(f"`{method.path}` is not for environment `{message.environment}`")
    if is_mcp_path(method.path) and not method.path.startswith(f"{MCP_PREFIX}{message.tool}/"):
        raise CatalogError(f"`{method.path}` is not of tool `{message.tool}`")


def _versions(entry: catalog_pb2.CatalogEntry) -> MethodVersions:
    current = read_method(entry.path, entry.current)
    following = read_method(entry.path, entry.next) if entry.next else None
    if following is not None and following.digest == current.digest:
        raise CatalogError(f"`{entry.path}` lists one version twice")
    return MethodVersions(current, following)


def read_method(path: str, entry: bytes) -> Method:
    """Return one version of the method at `path` from its serialised entry; raises CatalogError."""
    message = strict_parse(catalog_pb2.Method, entry)
    if isinstance(message, Refusal):
        raise CatalogError(f"`{path}`: {message.detail}")
    json = message.codec == Codec.CODEC_JSON_MCP
    if message.path != path or not (_PATH.fullmatch(path) or (json and is_mcp_path(path))):
        raise CatalogError(f"`{message.path}` at `{path}` is no path of the form `/package.Service/Method`")
    try:
        method = _method(message, entry)
        method = replace(method, argument_rules=read_rules(message, method, _input(method)))
        _check_paths(method)
        _check_class(method)
    except (CatalogError, ValueError) as error:
        raise CatalogError(f"`{path}`: {error}") from error
    return method


def _method(message: catalog_pb2.Method, entry: bytes) -> Method:
    plan, output = _shapes(message)
    call_class = class_of(message.tier)
    return Method(
        path=message.path,
        digest=method_digest(entry),
        codec=message.codec,
        tier=message.tier,
        call_class=call_class,
        operation=_operation(message.operation),
        plan=plan,
        output=output,
        resource=_resource(message.resource),
        say=read_template(message.say),
        spends=message.spends or call_class is not CallClass.READ,
        money=Money(message.money.amount, message.money.currency) if message.HasField("money") else None,
        facts=_facts(message.facts) if message.HasField("facts") else None,
        tenant_path=message.tenant_path,
        sensitive=frozenset(message.sensitive),
        guarded=message.guarded,
        unguarded=message.unguarded,
        no_effect_codes=_codes(message),
        obligations=frozenset(message.obligations),
        ceilings=message.ceilings,
        decide_on_call=message.decide_on_call,
        approvers=tuple(Quota(quota.role, quota.quorum) for quota in message.approvers),
        server_streaming=message.server_streaming,
        client_streaming=message.client_streaming,
        resource_personal=message.resource_personal,
        model_facing_sha256=message.model_facing_sha256,
        data_classes=_words(message.data_classes, "data class"),
        results=_words(message.results, "result"),
        environments=_words(message.environments, "environment"),
        costs=MappingProxyType(dict(message.costs)),
        polls=message.polls,
        input_type=message.input_type,
        output_type=message.output_type,
        descriptors=message.descriptors,
        json_schema=message.json_schema,
    )


def _operation(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise CatalogError(f"`{text}` is no operation")
    return text


def _shapes(message: catalog_pb2.Method) -> tuple[Plan | Schema, Plan | None]:
    """Return how arguments are read, and how an answer is where that is known."""
    if message.codec == Codec.CODEC_PROTOBUF:
        if message.json_schema:
            raise CatalogError("a protobuf method has no JSON Schema")
        plan = compile_plan(message.descriptors, message.input_type, tuple(message.any_types))
        return plan, compile_plan(message.descriptors, message.output_type)
    if message.codec == Codec.CODEC_JSON_MCP:
        if message.descriptors or message.input_type or message.output_type or message.any_types:
            raise CatalogError("a JSON method has no descriptors")
        return compile_schema(message.json_schema), None
    raise CatalogError(f"codec {message.codec} is none")


def _resource(text: str) -> Template:
    template = read_template(text)
    template.check_resource()
    if not text:
        raise CatalogError("a method needs a resource template")
    return template


def _codes(message: catalog_pb2.Method) -> frozenset[int]:
    codes = frozenset(message.no_effect_codes)
    if not codes <= frozenset(range(1, 17)):
        raise CatalogError("no_effect_codes are gRPC status codes from 1 to 16")
    return codes


def _words(listed: Iterable[str], what: str) -> frozenset[str]:
    words = tuple(listed)
    if len(set(words)) != len(words) or not all(_NAME.fullmatch(word) for word in words):
        raise CatalogError(f"each {what} stands once, in lower case: {', '.join(words)[:256]}")
    return frozenset(words)


def _facts(message: catalog_pb2.Facts) -> Facts:
    if not message.tenant:
        raise CatalogError("facts must say where the tenant stands")
    return Facts(
        message.method,
        MappingProxyType(dict(message.request)),
        message.tenant,
        MappingProxyType(dict(message.preconditions)),
    )


def _check_paths(method: Method) -> None:
    fields = _input(method)
    for path in method.resource.paths:
        _demand(fields, path, _IDENTIFIERS, "an identifier")
    for path in method.sensitive:
        fields.kind(path)
    for path in method.say.paths:
        if not (path == "amount" and method.money is not None):
            fields.kind(path)
    if method.tenant_path:
        _demand(fields, method.tenant_path, _IDENTIFIERS, "an identifier")
    if method.money is not None:
        _demand(fields, method.money.amount, {Kind.INTEGER}, "an integer of minor units")
        _demand(fields, method.money.currency, {Kind.TEXT}, "a currency code")
    _words(method.costs, "cost")
    for spelled in method.costs.values():
        if not _AMOUNT.fullmatch(spelled):
            _demand(fields, spelled, {Kind.INTEGER}, "an integer that says what a call costs")


def _input(method: Method) -> Fields:
    return MessageFields(method.plan) if isinstance(method.plan, Plan) else SchemaFields(method.json_schema)


def _demand(fields: Fields, path: str, kinds: frozenset[Kind] | set[Kind], what: str) -> None:
    kind = fields.kind(path)
    if kind not in kinds:
        raise CatalogError(f"`{path}` is not {what} but {kind.value}")


def _check_class(method: Method) -> None:
    if method.tier >= GUARDED_TIER and not method.guarded:
        if method.tier == MAX_TIER:
            raise CatalogError("tier 5 needs a guard")
        if method.unguarded not in UNGUARDED:
            raise CatalogError("tier 4 needs a guard, or `unguarded` to say how its effect is kept to one")
    elif method.unguarded:
        raise CatalogError("`unguarded` is for tier 4 without a guard")
    if method.call_class is CallClass.PRIVILEGED:
        _check_privileged(method)
    elif method.approvers:
        raise CatalogError("approvers are demanded at tier 5 only; a rule can hold at any tier")


def _check_privileged(method: Method) -> None:
    if method.ceilings or method.decide_on_call:
        raise CatalogError("tier 5 takes neither ceilings nor decide_on_call")
    quorums = [quota.quorum for quota in method.approvers]
    if not quorums or min(quorums) < 1 or sum(quorums) > MAX_APPROVALS:
        raise CatalogError(f"tier 5 needs 1 to {MAX_APPROVALS} approvers, each quorum at least 1")
    roles = {quota.role for quota in method.approvers}
    if len(roles) != len(quorums) or "" in roles:
        raise CatalogError("each approver role stands once")


def _check_facts(method: Method, methods: Mapping[str, MethodVersions]) -> None:
    """Facts are read under the decider's own authority, so what they are read from must be harmless."""
    if method.facts is None:
        return
    source = methods.get(method.facts.method)
    if source is None:
        raise CatalogError(f"`{method.path}`: facts come from `{method.facts.method}`, which is not listed")
    for version in source.all():
        _check_source(method, method.facts, version)


def _check_source(method: Method, facts: Facts, source: Method) -> None:
    if source.tier > FACTS_TIER or source.facts is not None or source.money is not None or source.spends:
        raise CatalogError(
            f"`{source.path}` is no harmless read: tier {source.tier}, or facts, money or spends"
        )
    if source.output is None:
        raise CatalogError(f"`{source.path}`: facts are read from protobuf answers only")
    request, answer, call = _input(source), MessageFields(source.output), _input(method)
    for name, path in facts.request.items():
        request.kind(name)
        call.kind(path)
    _demand(answer, facts.tenant, _IDENTIFIERS, "an identifier")
    for path in facts.preconditions.values():
        answer.kind(path)
    for rule in method.argument_rules:
        if rule.visible and answer.kind_of_each(rule.visible) not in _IDENTIFIERS:
            raise CatalogError(f"the rule on `{rule.path}` looks for `{rule.visible}`, which names nothing")
