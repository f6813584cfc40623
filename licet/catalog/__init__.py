"""The catalog: the signed list of one tool's methods, and what its owner says of each."""

from licet.catalog.method import Catalog, Facts, Method, MethodVersions, method_digest
from licet.catalog.money import Money, spell_amount
from licet.catalog.reader import read_catalog, read_method, read_payload
from licet.catalog.resource import hidden_resource
from licet.catalog.template import Template, read_template
from licet.hold import Quota

__all__ = [
    "Catalog",
    "Facts",
    "Method",
    "MethodVersions",
    "Money",
    "Quota",
    "Template",
    "hidden_resource",
    "method_digest",
    "read_catalog",
    "read_method",
    "read_payload",
    "read_template",
    "spell_amount",
]
