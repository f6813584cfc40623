"""Task contracts: what a task may bring about, what it may not, what needs a person first.

A task is no licence for everything its agent could do. The contract is registered with the task by an
application that is not the agent; nothing that a model says changes it. Guarantees: an operation that the
contract does not allow is refused, one that it forbids is refused whatever else it says, and an argument
that the contract binds has one of the values it names wherever it is present. With `addresses`, no web
address, e-mail address or IBAN stands anywhere in the arguments but those named: a call cannot be pointed
somewhere else, nor carry a link there.

Pure. Refusals are CONTRACT_REFUSED; rules are asked all the same, and can only take away.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from licet.call import Arguments
from licet.delegation import TIER_OF_AUTONOMY
from licet.refusal import Reason, Refusal
from licet.scope import ANY

CONTRACT_RULE: Final = "task-contract"
"""The rule id under which a contract's own demand for a person stands."""

AUTONOMY: Final[Mapping[str, int]] = {"observe": 1, "draft": 2, "act": 3, "full": 4}
"""Autonomy modes as contracts name them; each includes the ones before it."""

_ADDRESS: Final = re.compile(
    r"(?P<mail>[\w.!#$%&'*+/=?^`{|}~-]{1,64}@(?:[\w-]{1,63}\.)+[A-Za-z]{2,24})"
    r"|(?P<web>\b(?:[A-Za-z][A-Za-z0-9+.-]{1,20}://|www\.)[^\s<>\"'`(){}\[\]|\\^]+)"
    r"|(?P<iban>\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b)"
)
_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class Contract:
    """What a task may bring about, by operation. `*` in a set is every operation."""

    allowed: frozenset[str]
    forbidden: frozenset[str] = frozenset()
    needs_approval: frozenset[str] = frozenset()
    autonomy: int = AUTONOMY["full"]
    addresses: frozenset[str] | None = None
    """Where calls may point, as `normal` writes it, or `@domain` for all of a domain; None: anywhere."""
    approver: str = "task-owner"
    """The role of the one person who must approve what needs approval."""
    values: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    """By operation and path: what a text or number must be where it is present."""


def check_contract(contract: Contract, *, operation: str, tier: int, arguments: Arguments) -> Refusal | None:
    """Return why a call is outside its task's contract, or None."""
    if not contract.forbidden.isdisjoint((operation, ANY)):
        return _refused(f"`{operation}` is forbidden")
    if contract.allowed.isdisjoint((operation, ANY)):
        return _refused(f"`{operation}` is not among what it allows")
    if tier > TIER_OF_AUTONOMY.get(contract.autonomy, -1):
        return _refused(f"tier {tier} is more than its autonomy mode")
    for path, names in contract.values.get(operation, {}).items():
        if not all(value in names for value in _present(arguments, path)):
            return _refused(f"`{path}` has a value that it does not name")
    if contract.addresses is not None:
        for path, text in _texts(arguments):
            if not all(_named(address, contract.addresses) for address in addresses_in(text)):
                return _refused(f"`{path}` holds an address that it does not name")
    return None


def needs_approval(contract: Contract, operation: str) -> bool:
    """Say whether a person must approve an operation that the contract allows."""
    return not contract.needs_approval.isdisjoint((operation, ANY))


def _refused(detail: str) -> Refusal:
    return Refusal(Reason.CONTRACT_REFUSED, f"the task's contract: {detail}")


def _present(arguments: Arguments, path: str) -> Iterator[str]:
    """Yield every single value at or below a path as text; nothing where it is absent."""
    at = tuple(path.split("."))
    for where, value in arguments.leaves():
        if where[: len(at)] == at and value is not None:
            yield str(value)


def _texts(arguments: Arguments) -> Iterator[tuple[str, str]]:
    for path, value in arguments.leaves():
        if isinstance(value, str):
            yield ".".join(path[:1]), value
        yield from ((path[0], name) for name in path[1:])  # keys of maps come from the caller


def addresses_in(text: str) -> Iterator[str]:
    """Yield the addresses of a text, as `normal` writes them."""
    for match in _ADDRESS.finditer(text):
        yield normal(match.group())


def normal(address: str) -> str:
    """Return an address as contracts name it: lower case, without scheme, spaces, last dots and slashes."""
    return _SCHEME.sub("", address.lower().replace(" ", "")).rstrip(".,;:!?/")


def _named(address: str, names: frozenset[str]) -> bool:
    if address in names or any(address.startswith((f"{name}/", f"{name}?")) for name in names):
        return True
    domain = address.rpartition("@")[2] if "@" in address and "/" not in address else ""
    return bool(domain) and f"@{domain}" in names
