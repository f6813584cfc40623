"""What a call's arguments are: the strict walk, the tree encoding, the call digest.

Pure: no I/O, no clock, no randomness. Start at `compile_plan` and `walk` (protobuf), `compile_schema` and
`read_json` (JSON), `call_digest`.
"""

from licet.call.arguments import Arguments
from licet.call.digest import call_digest, left_out_mark, same_digest, tool_key
from licet.call.json_text import Json, read_json_text
from licet.call.plan import CatalogError, Plan, compile_plan
from licet.call.schema import Schema, compile_schema
from licet.call.strict_json import read_json
from licet.call.tree import MAX_DEPTH, MAX_NODES, MAX_REQUEST_BYTES, EnumNumber, Leaf
from licet.call.walk import walk

__all__ = [
    "MAX_DEPTH",
    "MAX_NODES",
    "MAX_REQUEST_BYTES",
    "Arguments",
    "CatalogError",
    "EnumNumber",
    "Json",
    "Leaf",
    "Plan",
    "Schema",
    "call_digest",
    "compile_plan",
    "compile_schema",
    "left_out_mark",
    "read_json",
    "read_json_text",
    "same_digest",
    "tool_key",
    "walk",
]
