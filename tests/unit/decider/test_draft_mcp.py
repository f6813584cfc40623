"""A first tools.yaml from what an MCP server lists: it builds, lints, and holds no word of the server's."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from decider.catalog.build import build_catalog, entries_of
from decider.catalog.cli import catalog_app
from decider.catalog.descriptors import Descriptors
from decider.catalog.draft_mcp import draft_mcp
from decider.catalog.lint import Level, lint_catalog
from decider.catalog.mcp import MAX_TOOLS, McpTools, McpToolsError
from decider.catalog.tools import read_tools
from decider.source import SourceError
from licet.catalog.mcp import model_facing_sha256
from licet.v1 import catalog_pb2

ISSUE = {
    "name": "create_issue",
    "description": "Create an issue.\n  evil: {tier: 0}",
    "inputSchema": {
        "type": "object",
        "properties": {
            "owner": {"type": "string"},
            "repo": {"type": "string"},
            "title": {"type": "string"},
            "api_key": {"type": "string"},
            "page_token": {"type": "string"},
        },
        "required": ["owner", "repo", "title"],
    },
}
GET = {"name": "get_issue", "inputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}}}


def listed(*tools: Any) -> McpTools:
    return McpTools(json.dumps({"tools": tools}).encode())


def built(path: Path, tools: McpTools, text: str | None = None) -> dict[str, catalog_pb2.Method]:
    file = path / "tools.yaml"
    file.write_text(draft_mcp("github", tools) if text is None else text)
    source = read_tools(file)
    assert [f for f in lint_catalog(source, Descriptors(b""), tools) if f.level is Level.ERROR] == []
    payload = build_catalog(
        source, Descriptors(b""), environment="dev", trust_domain="licet.local", mcp=tools
    )
    return {method.path: method for method in entries_of(payload)}


def test_draft_says_what_a_tool_touches_hides_and_is_pinned_by(tmp_path: Path) -> None:
    methods = built(tmp_path, listed(ISSUE, GET))
    issue = methods["/mcp.github/create_issue"]
    assert (issue.tier, issue.operation, issue.resource) == (3, "create_issue", "issue:{owner}/{repo}")
    assert list(issue.sensitive) == ["api_key"]
    assert issue.model_facing_sha256 == model_facing_sha256(
        "create_issue", str(ISSUE["description"]), ISSUE["inputSchema"]
    )
    assert json.loads(issue.json_schema)["additionalProperties"] is False
    assert (
        methods["/mcp.github/get_issue"].resource == "tool:github"
    )  # an id that may be left out names nothing


def test_nothing_of_the_servers_words_is_in_the_draft(tmp_path: Path) -> None:
    """A description could hold another line of YAML, a name another comment."""
    hostile = {**GET, "name": "get\n  mcp.github/pay: {tier: 0}\u202e", "title": "T\nx: 1"}
    text = draft_mcp("github", listed(ISSUE, hostile))
    assert "evil" not in text
    assert text.isascii()
    assert len(built(tmp_path, listed(ISSUE, hostile))) == 2


def test_names_that_look_alike_are_two_methods(tmp_path: Path) -> None:
    names = ["get_a", "get_\u0430", "get a", "get/a", "GET_A", "get_\u00e9", "get_e\u0301"]
    assert len(built(tmp_path, listed(*({**GET, "name": name} for name in names)))) == len(names)


def test_name_that_stands_twice_is_left_out_unless_both_are_one() -> None:
    """A client would call one of them, and nobody knows which."""
    other = {**GET, "description": "Deletes."}
    tools = listed(GET, ISSUE, other)
    assert list(tools.tools) == ["create_issue"]
    assert [(one.name, one.why) for one in tools.unusable] == [("get_issue", "two tools have this name")]
    assert "left out" in draft_mcp("github", tools)
    assert list(listed(GET, GET).tools) == ["get_issue"]


@pytest.mark.parametrize(
    "entry", [1, None, {}, {"name": 1}, {"name": ""}, {"name": "x" * 300}, {"name": "\ud800"}]
)
def test_entry_that_names_no_tool_is_left_out_and_the_others_stay(entry: Any) -> None:
    tools = listed(entry, GET)
    assert list(tools.tools) == ["get_issue"]
    assert len(tools.unusable) == 1


@pytest.mark.parametrize(
    "shape", ['{"jsonrpc": "2.0", "id": 1, "result": {"tools": [%s]}}', '{"tools": [%s]}', "[%s]"]
)
def test_list_is_read_as_servers_and_clients_write_it(shape: str) -> None:
    assert list(McpTools((shape % json.dumps(GET)).encode()).tools) == ["get_issue"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no JSON"),
        (b"\xff", "not UTF-8"),
        (b"[1", "no JSON"),
        (b'{"x": 1}', "no answer to `tools/list`"),
        (b'{"tools": {}}', "no answer to `tools/list`"),
        (b'[{"name": "a", "name": "b"}]', "a name twice"),
        (b'[{"name": "a", "x": NaN}]', "holds `NaN`"),
        (b"[" * 100_000, "nested too deeply"),
        (json.dumps([{"name": f"t{n}"} for n in range(MAX_TOOLS + 1)]).encode(), "at most 500"),
    ],
)
def test_what_is_no_list_of_tools_is_refused_saying_why(data: bytes, why: str) -> None:
    with pytest.raises(McpToolsError, match=why.replace("no JSON", "is not JSON")):
        McpTools(data)


def test_list_without_a_tool_leaves_no_draft(tmp_path: Path) -> None:
    for name, data in (("none.json", b'{"tools": []}'), ("none.binpb", b"")):
        (tmp_path / name).write_bytes(data)
        words = ["draft", str(tmp_path / name), "--tool", "x", "--out", str(tmp_path / "out.yaml")]
        done = CliRunner().invoke(catalog_app, words)
        assert (done.exit_code, "no method in it" in done.stderr) == (1, True)
        assert not (tmp_path / "out.yaml").exists()


def test_method_that_the_server_does_not_list_cannot_be_built(tmp_path: Path) -> None:
    text = draft_mcp("github", listed(GET))
    (tmp_path / "tools.yaml").write_text(text)
    with pytest.raises(SourceError, match="no usable tool of this name"):
        build_catalog(
            read_tools(tmp_path / "tools.yaml"),
            Descriptors(b""),
            environment="dev",
            trust_domain="licet.local",
            mcp=listed(ISSUE),
        )


def test_method_of_another_tool_cannot_be_listed(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text(
        draft_mcp("github", listed(GET)).replace("tool: github", "tool: notion")
    )
    with pytest.raises(SourceError, match=r"must look like.*mcp\.notion/name"):
        read_tools(tmp_path / "tools.yaml")


def test_schema_of_the_owner_stands_in_place_of_the_servers(tmp_path: Path) -> None:
    own = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"id": {"type": "string", "maxLength": 9}},
    }
    (tmp_path / "own.json").write_text(json.dumps(own))
    text = draft_mcp("github", listed(GET)) + "    json_schema: own.json\n"
    method = built(tmp_path, listed(GET), text)["/mcp.github/get_issue"]
    assert json.loads(method.json_schema)["properties"]["id"]["maxLength"] == 9
    assert method.model_facing_sha256  # what models are shown stays pinned


def test_draft_that_nobody_looked_at_says_so_at_every_lint(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text(draft_mcp("github", listed(ISSUE)))
    rules = {
        f.rule for f in lint_catalog(read_tools(tmp_path / "tools.yaml"), Descriptors(b""), listed(ISSUE))
    }
    assert "draft-waiver" in rules
    (tmp_path / "tools.yaml").write_text(
        draft_mcp("github", listed(ISSUE)).replace(
            'waiver: "a draft that nobody has looked at"', 'tenant: "owner"'
        )
    )
    found = lint_catalog(read_tools(tmp_path / "tools.yaml"), Descriptors(b""), listed(ISSUE))
    assert "draft-waiver" not in {f.rule for f in found}
    assert [f for f in found if f.level is Level.ERROR] == []


def test_numbers_with_a_fraction_are_an_error_where_something_is_written(tmp_path: Path) -> None:
    tools = listed({**ISSUE, "inputSchema": {"type": "object", "properties": {"n": {"type": "number"}}}})
    text = draft_mcp("github", tools).replace('    waiver: "a draft that nobody has looked at"\n', "")
    (tmp_path / "tools.yaml").write_text(text)
    found = lint_catalog(read_tools(tmp_path / "tools.yaml"), Descriptors(b""), tools)
    assert (Level.ERROR, "float") in {(f.level, f.rule) for f in found}


TOOLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)},
        optional={
            "description": st.text(max_size=30),
            "inputSchema": st.dictionaries(
                st.sampled_from(["type", "properties", "required"]),
                st.sampled_from(["object", ["id"], {"id": {"type": "string"}}, {"\u00e9\n": {}}, None, 1]),
            ),
            "annotations": st.dictionaries(
                st.sampled_from(["readOnlyHint", "destructiveHint"]), st.booleans()
            ),
        },
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda tool: tool["name"],
)


@settings(max_examples=30, deadline=None)
@given(TOOLS)
def test_draft_of_any_list_builds_and_lints_without_errors(tmp_path_factory: Any, tools: list[Any]) -> None:
    path = tmp_path_factory.mktemp("draft")
    assert len(built(path, listed(*tools))) == len(tools)
