"""Drift: a method is served otherwise than its catalog lists it.

A tool that was changed without its catalog runs under a description that nobody signed: an argument may mean
something else, a model may be told something else. What is served is a descriptor set, or the answer of an
MCP server; a method is as listed when one of its listed versions is. Pure.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from google.protobuf import descriptor_pb2

from decider.catalog.descriptors import Descriptors
from decider.catalog.mcp import McpTools
from decider.source import read_bytes
from licet.catalog import Catalog, Method
from licet.catalog.mcp import is_mcp_path


class Served(TypedDict, total=False):
    """What a tool serves, as `drifted` takes it."""

    descriptors: Descriptors
    mcp: McpTools


def served_by(file: Path) -> Served:
    """Read what a tool serves: from `*.json` the answer to MCP's `tools/list`, else descriptors.

    Raises SourceError, DescriptorsError and McpToolsError where it cannot be read.
    """
    data = read_bytes(file)
    return {"mcp": McpTools(data)} if file.suffix == ".json" else {"descriptors": Descriptors(data)}


def drifted(
    catalog: Catalog, *, descriptors: Descriptors | None = None, mcp: McpTools | None = None
) -> dict[str, str]:
    """Return the paths of methods that are served otherwise than listed, each with how.

    Protobuf methods are compared with `descriptors`, MCP tools with `mcp`; those of which nothing is known
    (None) are left out: that nobody looked is no drift.
    """
    found = {}
    for path, versions in catalog.methods.items():
        hows = [_how(method, descriptors, mcp) for method in versions.all()]
        if "" not in hows:
            found[path] = hows[0]
    return found


def _how(method: Method, descriptors: Descriptors | None, mcp: McpTools | None) -> str:
    """Return how one version differs from what is served; empty where it does not."""
    if is_mcp_path(method.path):
        return "" if mcp is None else _mcp(method, mcp)
    return "" if descriptors is None or not method.descriptors else _protobuf(method, descriptors)


def _mcp(method: Method, mcp: McpTools) -> str:
    listed = mcp.at(method.path)
    if listed is None:
        return "is not served any more, or cannot be used"
    if method.model_facing_sha256 and listed.model_facing_sha256 != method.model_facing_sha256:
        return "its name, description or schema is another than the one that was signed"
    return ""


def _protobuf(method: Method, descriptors: Descriptors) -> str:
    types = descriptors.method(method.path)
    if types is None:
        return "is not served any more"
    if (types.client_streaming, types.server_streaming) != (method.client_streaming, method.server_streaming):
        return "streams otherwise than listed"
    if (types.input.full_name, types.output.full_name) != (method.input_type, method.output_type):
        return "takes or returns another type than listed"
    if _plain(descriptors.closure(types.input, types.output)) != _plain(method.descriptors):
        return "its types are others than those that were signed"
    return ""


def _plain(raw: bytes) -> bytes:
    """Return descriptors without what compilers add and no reader decides by."""
    files = descriptor_pb2.FileDescriptorSet.FromString(raw)
    for file in files.file:
        for message in file.message_type:
            for one in _all(message):
                for field in one.field:
                    field.ClearField("json_name")
    return files.SerializeToString(deterministic=True)


def _all(message: descriptor_pb2.DescriptorProto) -> Iterator[descriptor_pb2.DescriptorProto]:
    yield message
    for nested in message.nested_type:
        yield from _all(nested)
