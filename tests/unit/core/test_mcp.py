"""MCP tools in the catalog: one path for each name, and a digest over what a model is shown."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from licet.call import CatalogError, call_digest
from licet.catalog import Method, read_method
from licet.catalog.mcp import mcp_name, mcp_path, model_facing_sha256
from licet.refusal import Reason, Refusal
from licet.strict import canonical
from licet.v1 import catalog_pb2
from licet.v1.decision_pb2 import Codec
from tests.worlds import permit as world

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
SCHEMA = json.dumps(
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {"id": {"type": "string"}, "n": {"type": "integer"}},
    }
)


@settings(deadline=None)
@given(NAMES)
def test_path_gives_the_name_back(name: str) -> None:
    assert mcp_name(mcp_path("github", name)) == name


@settings(deadline=None)
@given(NAMES, NAMES)
def test_two_names_have_two_paths(one: str, other: str) -> None:
    """Also two that look alike: nothing is normalised."""
    assert (mcp_path("github", one) == mcp_path("github", other)) is (one == other)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("get-sum", "/mcp.github/get-sum"),
        ("notes/read.all", "/mcp.github/notes%2Fread.all"),
        ("r\u00e9sum\u00e9", "/mcp.github/r%C3%A9sum%C3%A9"),
        ("re\u0301sume\u0301", "/mcp.github/re%CC%81sume%CC%81"),
        ("..", "/mcp.github/%2E%2E"),
        ("a b\n", "/mcp.github/a%20b%0A"),
        ("%2e", "/mcp.github/%252e"),
    ],
)
def test_name_is_spelled_so_that_no_path_is_another(name: str, path: str) -> None:
    assert mcp_path("github", name) == path


@pytest.mark.parametrize(
    "path",
    [
        *("/mcp.github/%2e%2e", "/mcp.github/%C3%A9%", "/mcp.github/a%20", "/mcp.github/..", "/mcp.github/"),
        *("/mcp.github/%67et", "/mcp.github/a/b", "mcp.github/get", "/mcp.GitHub/get", "/mcp.github/get?x"),
        *("/mcp.github/%FF", "/mcp.github/get\n", "/mcp./get", "/fin.v1.Finance/GetOrder"),
    ],
)
def test_path_in_any_other_spelling_is_none(path: str) -> None:
    assert mcp_name(path) is None or path == "/mcp.github/a%20"


@pytest.mark.parametrize("name", ["", "x" * 257, "\u00e9" * 129, "\ud800"])
def test_name_that_cannot_be_spelled_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"a tool's name|surrogates"):
        mcp_path("github", name)


def test_digest_of_what_a_model_is_shown_changes_with_each_part_and_with_nothing_else() -> None:
    first = model_facing_sha256("pay", "Pays.", {"b": 1, "a": [1.0, 2**60]})
    assert model_facing_sha256("pay", "Pays.", json.loads('{"a": [1, 1152921504606846976], "b": 1}')) == first
    for other in (("pay ", "Pays.", {"b": 1}), ("pay", "Pays.\u200b", {"b": 1}), ("pay", "Pays.", {"b": 2})):
        assert model_facing_sha256(*other) != model_facing_sha256("pay", "Pays.", {"b": 1})
    assert model_facing_sha256("a", "bc", {}) != model_facing_sha256("ab", "c", {})


def tool(path: str, **changes: object) -> Method:
    message = catalog_pb2.Method(
        path=path,
        codec=Codec.CODEC_JSON_MCP,
        json_schema=SCHEMA,
        tier=1,
        operation="read",
        resource="thing:{id}",
        say="Read {id}",
    )
    for name, value in changes.items():
        setattr(message, name, value)
    return read_method(path, canonical(message))


def test_json_call_of_an_mcp_tool_is_read_digested_and_named_by_its_arguments() -> None:
    method = tool("/mcp.github/get-thing", model_facing_sha256=bytes(32))
    one, other = method.arguments(b'{"id": "T/1", "n": 2}'), method.arguments(b'{ "n":2.0, "id":"T\\u002f1"}')
    assert not isinstance(one, Refusal)
    assert not isinstance(other, Refusal)
    assert one.canonical == other.canonical == b'{"id":"T/1","n":2}'
    digests = {
        call_digest(world.K_TOOL, method.codec, method.path, method.digest, arguments.encoded)
        for arguments in (one, other)
    }
    assert len(digests) == 1
    assert method.resource_of(one) == "thing:T%2F1"
    drifted = tool("/mcp.github/get-thing", model_facing_sha256=bytes(31) + b"\1")
    assert drifted.digest != method.digest  # what models are shown is part of the method's version


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"id": "T1", "id": "T2"}', Reason.JSON_STRICT),
        (b'{"id": "T1", "n": NaN}', Reason.JSON_STRICT),
        (b'[{"id": "T1"}]', Reason.JSON_STRICT),
        (b'{"id": "T1", "admin": true}', Reason.UNKNOWN_FIELD),
        (b'{"id": "T1", "n": "2"}', Reason.ARGUMENTS_MALFORMED),
    ],
)
def test_json_that_two_readers_could_read_in_two_ways_is_no_call(body: bytes, reason: Reason) -> None:
    refusal = tool("/mcp.github/get-thing").arguments(body)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason


def test_only_json_methods_have_paths_of_mcp_tools() -> None:
    with pytest.raises(CatalogError, match="is no path"):
        read_method("/mcp.github/get-order", canonical(world.method(world.GET, path="/mcp.github/get-order")))
