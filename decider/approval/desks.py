"""Desks: the peers that holds are shown to, and of which tenants. Pure.

Who answers is a person, by their signature; a desk is what shows them what waits, and brings their answers.
"""

from collections.abc import Mapping
from typing import Final

EVERY_TENANT: Final = "*"

Desks = Mapping[str, frozenset[str]] | None
"""SPIFFE ids of peers, each with its tenants; `*` is every tenant. None: every known peer sees all."""


def may_see(peer: str, tenant: str, desks: Desks) -> bool:
    """Tell whether a peer may see and answer holds of a tenant; one that is not named sees none."""
    return desks is None or not desks.get(peer, frozenset()).isdisjoint((tenant, EVERY_TENANT))
