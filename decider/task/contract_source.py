"""Contracts as people write them and as bundles and tasks carry them. Pure.

`contract: {allow, forbid, approve, approver, autonomy, addresses, values}` in tasks.yaml and in the templates
of bundle.yaml; `TaskContract` on the wire. A message that makes no contract raises ValueError.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from decider.source import Section
from decider.task.contract import AUTONOMY, Contract, normal
from licet.scope import ANY
from licet.v1 import task_pb2

ROLE: Final = re.compile(r"[a-z0-9_-]{1,64}\Z")
APPROVER: Final = "task-owner"
MODES: Final = frozenset(AUTONOMY.values())

Values = Mapping[str, Mapping[str, frozenset[str]]]


def read_contract(inner: Section) -> Contract:
    """Return the contract of a section; faults are noted in it."""
    mode = inner.text("autonomy", "full")
    if mode not in AUTONOMY:
        inner.refuse("autonomy", f"`{mode}` must be one of {', '.join(AUTONOMY)}")
    approver = inner.text("approver", APPROVER)
    if not ROLE.match(approver):
        inner.refuse("approver", f"`{approver}` must be 1 to 64 of a-z, 0-9, `_`, `-`")
    values = inner.section("values")
    contract = Contract(
        allowed=frozenset(inner.texts("allow")),
        forbidden=frozenset(inner.texts("forbid")),
        needs_approval=frozenset(inner.texts("approve")),
        autonomy=AUTONOMY.get(mode, 0),
        addresses=frozenset(map(normal, inner.texts("addresses"))) if inner.has("addresses") else None,
        approver=approver,
        values=MappingProxyType({} if values is None else _values(values)),
    )
    if not contract.needs_approval <= contract.allowed:
        inner.refuse("approve", "what needs approval must be allowed, too")
    inner.close()
    return contract


def _values(section: Section) -> dict[str, Mapping[str, frozenset[str]]]:
    bound: dict[str, Mapping[str, frozenset[str]]] = {}
    for operation in section.names():
        fields = section.section(operation)
        if fields is not None:
            bound[operation] = MappingProxyType(
                {path: frozenset(fields.texts(path)) for path in fields.names()}
            )
            fields.close()
    return bound


def contract_message(contract: Contract) -> task_pb2.TaskContract:
    """Return a contract as a message; sets in sorted order."""
    return task_pb2.TaskContract(
        allowed=sorted(contract.allowed),
        forbidden=sorted(contract.forbidden),
        needs_approval=sorted(contract.needs_approval),
        approver=contract.approver,
        autonomy=contract.autonomy,
        bounds_addresses=contract.addresses is not None,
        addresses=sorted(contract.addresses or ()),
        values=[
            task_pb2.BoundValue(operation=operation, path=path, values=sorted(names))
            for operation, fields in sorted(contract.values.items())
            for path, names in sorted(fields.items())
        ],
    )


def load_contract(message: task_pb2.TaskContract) -> Contract:
    """Return the contract that a message spells. Raises ValueError."""
    if message.autonomy not in MODES or not ROLE.match(message.approver):
        raise ValueError("a contract has an autonomy mode or an approver that is none")
    if message.addresses and not message.bounds_addresses:
        raise ValueError("a contract has addresses that bound nothing")
    if not set(message.needs_approval) <= set(message.allowed):
        raise ValueError("what a contract wants approved it must allow")
    return Contract(
        allowed=frozenset(message.allowed),
        forbidden=frozenset(message.forbidden),
        needs_approval=frozenset(message.needs_approval),
        autonomy=message.autonomy,
        addresses=frozenset(map(normal, message.addresses)) if message.bounds_addresses else None,
        approver=message.approver,
        values=load_values(message.values),
    )


def load_values(bound: Iterable[task_pb2.BoundValue]) -> Values:
    """Return what arguments must be. Raises ValueError where an argument is bound twice."""
    values: dict[str, dict[str, frozenset[str]]] = {}
    for one in bound:
        fields = values.setdefault(one.operation, {})
        if one.path in fields or not one.path or not one.operation:
            raise ValueError(f"`{one.path}` of `{one.operation}` is bound twice, or is no argument")
        fields[one.path] = frozenset(one.values)
    return MappingProxyType({operation: MappingProxyType(fields) for operation, fields in values.items()})


def narrowed_contract(contract: Contract, *, addresses: frozenset[str] | None, values: Values) -> Contract:
    """Return a contract bound further, never wider. Raises ValueError where it does not lie within."""
    if addresses is not None and contract.addresses is not None and not addresses <= contract.addresses:
        raise ValueError("an address that the template does not name")
    bound: dict[str, dict[str, frozenset[str]]] = {
        name: dict(fields) for name, fields in contract.values.items()
    }
    for operation, fields in values.items():
        if contract.allowed.isdisjoint((operation, ANY)):
            raise ValueError(f"`{operation}` is bound, and the template does not allow it")
        for path, names in fields.items():
            had = bound.setdefault(operation, {}).get(path)
            if had is not None and not names <= had:
                raise ValueError(f"`{path}` of `{operation}` has a value that the template does not name")
            bound[operation][path] = names
    return Contract(
        allowed=contract.allowed,
        forbidden=contract.forbidden,
        needs_approval=contract.needs_approval,
        autonomy=contract.autonomy,
        addresses=contract.addresses if addresses is None else addresses,
        approver=contract.approver,
        values=MappingProxyType({name: MappingProxyType(fields) for name, fields in bound.items()}),
    )
