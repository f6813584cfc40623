"""A first `tools.yaml` from a descriptor set: what names and types suggest, for the owner to correct.

Guesses err to the strict side: an unknown verb is taken for an external effect, a request with money is
never below tier 4. Every guess carries a comment; what cannot be guessed (whose resource it is) stays out,
and the linter asks for it. Pure: descriptors in, text out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from decider.catalog.descriptors import INTEGER_TYPES, Descriptor, Descriptors, FieldDescriptor, reachable
from decider.catalog.tools import snake_case
from decider.catalog.verbs import verb_tier, words_of

UNKNOWN_VERB_TIER: Final = 4

_TENANTS: Final = ("tenant", "tenant_id", "customer", "customer_id", "account", "account_id", "org", "org_id")
_AMOUNTS: Final = re.compile(r"(^|\.)(amount(_minor|_cents)?|minor|cents|minor_units)$")
_CURRENCY: Final = re.compile(r"(^|\.)currency(_code)?$")


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a request looks like: the field that names the resource, and money."""

    identifier: str
    money: tuple[str, str] | None


def guess_tier(name: str, *, money: bool = False) -> int:
    """Return the tier that a method's name suggests: by its first word, 4 for a word that is not known."""
    tier = verb_tier(words_of(name)[:1]) or UNKNOWN_VERB_TIER
    return max(tier, UNKNOWN_VERB_TIER) if money and tier > 1 else tier


def _shape(message: Descriptor) -> _Shape:
    fields = [(path, field) for path, field in reachable(message) if not field.is_repeated]
    texts = [path for path, field in fields if field.type == FieldDescriptor.TYPE_STRING and "." not in path]
    ids = [path for path in texts if path in {"id", "name"} or path.endswith(("_id", "_name"))]
    amounts = [path for path, field in fields if field.type in INTEGER_TYPES and _AMOUNTS.search(path)]
    currencies = [path for path, _ in fields if _CURRENCY.search(path)]
    money = (min(amounts), min(currencies)) if amounts and currencies else None
    return _Shape(ids[0] if ids else "", money)


def draft(tool: str, descriptors: Descriptors) -> str:
    """Return the text of a first `tools.yaml`."""
    lines = [
        "# A draft: each `guessed` wants a look. Then: licet catalog lint DIR",
        f"tool: {tool}",
        "methods:",
    ]
    for path in descriptors.methods():
        lines.extend(_method(path, descriptors))
    return "\n".join(lines) + "\n"


def _method(path: str, descriptors: Descriptors) -> Iterator[str]:
    types = descriptors.method(path)
    if types is None:
        return
    if types.client_streaming:
        yield f"  # {path.removeprefix('/')}: streams from the client, which is not supported"
        return
    name = path.rpartition("/")[2]
    shape = _shape(types.input)
    tier = guess_tier(name, money=shape.money is not None)
    yield f"  {path.removeprefix('/')}:"
    yield f"    tier: {tier}  # guessed from the name"
    kind = shape.identifier.removesuffix("_id").removesuffix("_name")
    if kind in {"", "id", "name"}:
        kind = snake_case(name).partition("_")[2] or "resource"
    if shape.identifier:
        yield f'    resource: "{kind}:{{{shape.identifier}}}"  # guessed: the first field like an id'
    if shape.money is not None:
        yield f"    money: {{amount: {shape.money[0]}, currency: {shape.money[1]}}}"
    if tier == 5:
        yield "    approvers: {owner: 1}  # guessed: who must approve, and how many"
    if tier >= 3:
        yield _facts(path, shape.identifier, kind, descriptors)
    words = [snake_case(name).replace("_", " ").capitalize(), *(f"{{{part}}}" for part in _shown(shape))]
    yield f'    say: "{" ".join(words)}"'


def _shown(shape: _Shape) -> Iterator[str]:
    if shape.identifier:
        yield shape.identifier
    if shape.money is not None:
        yield "amount"
        yield shape.money[1]


def _facts(path: str, identifier: str, kind: str, descriptors: Descriptors) -> str:
    """Return the facts line: a read method of the same service that takes the same id and says the tenant."""
    service = path.rpartition("/")[0]
    for other in descriptors.methods():
        types = descriptors.method(other)
        if types is None or not identifier or other.rpartition("/")[0] != service:
            continue
        tenant = next((name for name in _TENANTS if name in types.output.fields_by_name), "")
        same = [field.name for field in types.input.fields] == [identifier]
        if guess_tier(other.rpartition("/")[2]) <= 1 and same and tenant:
            checks = f"{{{kind}.tenant: {tenant}}}"
            return (
                f"    facts: {{method: {other.removeprefix('/')}, request: {{{identifier}: {identifier}}},"
                f" tenant: {tenant}, preconditions: {checks}}}  # guessed"
            )
    return "    # facts: {method: …, request: {…}, tenant: …}: a read method that says whose it is"
