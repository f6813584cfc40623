"""What else an owner may say: argument rules, data classes, results, environments, owner, versions."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from decider.catalog.build import build_catalog
from decider.catalog.cli import catalog_app
from decider.catalog.descriptors import Descriptors
from decider.catalog.tools import read_tools
from decider.policy.cedar import SAMPLE_CONTEXT, Allowed, Forbidden, RuleCall, RuleSet
from decider.policy.cli import policy_app
from decider.source import SourceError
from licet.call import CatalogError
from licet.catalog import Catalog, read_payload
from licet.catalog.domain import DEFAULT_SCHEMES
from licet.strict import canonical
from licet.v1 import catalog_pb2

POLICY = Path(__file__).parents[3] / "examples" / "refund" / "policy"
REFUND = "/fin.v1.Finance/IssueRefund"


def text(more: str, top: str = "") -> str:
    """The example's tools.yaml with more said of its refund."""
    whole = (POLICY / "tools.yaml").read_text()
    return whole.replace("    guarded: true\n", f"    guarded: true\n{more}") + top


def message(path: Path, more: str, top: str = "", environment: str = "dev") -> catalog_pb2.Catalog:
    (path / "tools.yaml").write_text(text(more, top))
    payload = build_catalog(
        read_tools(path / "tools.yaml"),
        Descriptors((POLICY / "descriptors.binpb").read_bytes()),
        environment=environment,
        trust_domain="licet.local",
    )
    return catalog_pb2.Catalog.FromString(payload)


def built(path: Path, more: str, top: str = "", environment: str = "dev") -> Catalog:
    return read_payload(message(path, more, top, environment))


def test_rules_on_arguments_come_through_as_they_are_written(tmp_path: Path) -> None:
    more = """    arguments:
      amount.minor: {min: -5, max: 9223372036854775807, required: true}
      order_id: {pattern: "O[0-9]+", max_length: 12, one_of: [O1, 7, true]}
      amount.currency: {domains: ["*.example.com"], schemes: [http, https], visible: currency, max_items: 1}
"""
    rules = {rule.path: rule for rule in built(tmp_path, more).methods[REFUND].current.argument_rules}
    minor, order, currency = rules["amount.minor"], rules["order_id"], rules["amount.currency"]
    assert (minor.low, minor.high, minor.required, minor.default) == (-5, (1 << 63) - 1, True, 0)
    assert (order.pattern, order.max_length, order.one_of) == ("O[0-9]+", 12, {"O1", "7", "true"})
    assert (currency.domains, currency.schemes) == ({"*.example.com"}, {"http", "https"})
    assert (currency.visible, currency.max_items, order.schemes) == ("currency", 1, DEFAULT_SCHEMES)


@pytest.mark.parametrize(
    ("rule", "field", "why"),
    [
        ("{}", "order_id", "says nothing"),
        ("{min: 1, max: 0}", "order_id", "`min` above its `max`"),
        ("{max_length: 0}", "order_id.max_length", "must be from 1"),
        ("{min: 1.5}", "order_id.min", "is a float"),
        ("{min: 9223372036854775808}", "order_id.min", "must be from"),
        ('{pattern: "(a"}', "order_id.pattern", "is no RE2 pattern"),
        ('{pattern: "(?=a)"}', "order_id.pattern", "is no RE2 pattern"),
        ("{one_of: []}", "order_id.one_of", "must be a list"),
        ("{one_of: [[a]]}", "order_id.one_of", "must be a list"),
        ("{one_of: a}", "order_id.one_of", "must be a list"),
        ("{domain: [example.com]}", "order_id.domain", "unknown field"),
        ("{required: yes}", "order_id.required", "must be true or false"),
        ("7", "order_id", "must be a mapping"),
    ],
)
def test_rule_that_is_written_wrongly_is_told_with_line_and_field(
    tmp_path: Path, rule: str, field: str, why: str
) -> None:
    with pytest.raises(SourceError, match=why) as error:
        message(tmp_path, f"    arguments:\n      order_id: {rule}\n")
    [line] = [number for number, one in enumerate(text("").splitlines(), 1) if "guarded: true" in one]
    assert f"tools.yaml:{line + 2}: methods.fin.v1.Finance/IssueRefund.arguments.{field}" in str(error.value)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("nope: {required: true}", "is no value of `fin.v1.IssueRefundRequest`"),
        ("amount: {required: true}", "is no value of `fin.v1.IssueRefundRequest`"),
        ('order_id: {domains: ["https://example.com"]}', "is no domain"),
        ("order_id: {visible: nope}", "is no value of `fin.v1.GetOrderResponse`"),
        ("order_id: {visible: refund_allowed}", "names nothing"),
    ],
)
def test_rule_that_could_not_be_checked_is_not_built(tmp_path: Path, rule: str, why: str) -> None:
    with pytest.raises((SourceError, CatalogError), match=why):
        built(tmp_path, f"    arguments:\n      {rule}\n")


def test_method_of_other_environments_is_not_in_the_catalog(tmp_path: Path) -> None:
    more = "    environments: [staging, prod]\n"
    assert REFUND not in built(tmp_path, more).methods
    assert REFUND in built(tmp_path, more, environment="prod").methods
    everything = (
        (POLICY / "tools.yaml").read_text().replace("    tier:", "    environments: [prod]\n    tier:")
    )
    (tmp_path / "tools.yaml").write_text(everything)
    with pytest.raises(SourceError, match="lists no method for environment `dev`"):
        build_catalog(
            read_tools(tmp_path / "tools.yaml"),
            Descriptors((POLICY / "descriptors.binpb").read_bytes()),
            environment="dev",
            trust_domain="licet.local",
        )


def test_signed_catalog_with_a_method_of_other_environments_is_refused(tmp_path: Path) -> None:
    """Whoever moves an entry into another environment's catalog moves what its owner kept out."""
    moved = message(tmp_path, "    environments: [prod]\n", environment="prod")
    moved.environment, moved.audience = "dev", moved.audience.replace("/prod/", "/dev/")
    with pytest.raises(CatalogError, match="is not for environment `dev`"):
        read_payload(moved)


def test_owner_of_a_tool_has_a_role_and_a_default(tmp_path: Path) -> None:
    assert built(tmp_path, "").owner_role == "tool-owner"
    assert built(tmp_path, "", "owner: finance-lead\n").owner_role == "finance-lead"
    with pytest.raises(SourceError, match="owner"):
        built(tmp_path, "", 'owner: "Finance Lead"\n')


SCHEMA = """
entity Agent;
entity Resource;
type Call = { data_classes: Set<String>, results: Set<String> };
action refund appliesTo { principal: Agent, resource: Resource, context: Call };
"""
RULES = """
@id("all") permit (principal, action, resource);
@id("no-personal") forbid (principal, action, resource) when { context.data_classes.contains("personal") };
@id("no-payout") forbid (principal, action, resource) when { context.results.contains("money_out") };
"""


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("", Allowed(("all",))),
        ("    data_classes: [public]\n    results: [note]\n", Allowed(("all",))),
        ("    data_classes: [public, personal]\n", Forbidden(("no-personal",))),
        ("    results: [money_out]\n", Forbidden(("no-payout",))),
    ],
)
def test_rules_see_data_classes_and_results(tmp_path: Path, said: str, answer: Any) -> None:
    method = built(tmp_path, said).methods[REFUND].current
    context = {
        **SAMPLE_CONTEXT,
        "data_classes": tuple(sorted(method.data_classes)),
        "results": tuple(sorted(method.results)),
    }
    call = RuleCall("bot", "refund", "Resource", "order:O1", {}, context)
    assert RuleSet(RULES, SCHEMA).evaluate(call) == answer


@pytest.mark.parametrize(
    "said", ["results: [Money]", "data_classes: [a, a]", 'environments: ["x y"]', "results: a"]
)
def test_word_that_is_none_is_told(tmp_path: Path, said: str) -> None:
    with pytest.raises(SourceError, match=said.partition(":")[0]):
        built(tmp_path, f"    {said}\n")


def test_rollout_lists_the_versions_of_another_catalog_beside(tmp_path: Path) -> None:
    policy, key = tmp_path / "policy", tmp_path / "catalog.key"
    policy.mkdir()
    (policy / "descriptors.binpb").write_bytes((POLICY / "descriptors.binpb").read_bytes())
    old = tmp_path / "old.catalog"
    (policy / "tools.yaml").write_text(text(""))
    from licet.embedded.dev_keys import make_dev_keys

    make_dev_keys(tmp_path / "keys", "dev", ["finance"], (), "licet.local")
    key = tmp_path / "keys" / "catalog.key"

    def build(out: Path, *more: str) -> Catalog:
        command = [
            "build",
            "--policy",
            str(policy),
            "--key",
            str(key),
            "--out",
            str(out),
            "--environment",
            "dev",
        ]
        done = CliRunner().invoke(catalog_app, [*command, *more])
        assert done.exit_code == 0, done.output
        from decider.catalog.cli import signed_catalog

        return read_payload(signed_catalog(out))

    before = build(old).methods
    (policy / "tools.yaml").write_text(text("    data_classes: [personal]\n"))
    rolling = build(tmp_path / "new.catalog", "--next", str(old)).methods
    versions = rolling[REFUND]
    assert versions.next is not None
    assert versions.next.digest == before[REFUND].current.digest != versions.current.digest
    assert rolling["/fin.v1.Finance/GetOrder"].next is None  # it is one version
    done = CliRunner().invoke(catalog_app, ["diff", str(old), str(tmp_path / "new.catalog"), "--json"])
    assert done.exit_code == 1
    assert {row["field"] for row in json.loads(done.stdout)} == {"data_classes"}


def test_tool_that_speaks_json_alone_needs_no_descriptors(tmp_path: Path) -> None:
    tools = [
        {"name": "get_issue", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}}}
    ]
    (tmp_path / "mcp_tools.json").write_text(json.dumps({"tools": tools}))
    draft = [
        "draft",
        str(tmp_path / "mcp_tools.json"),
        "--tool",
        "github",
        "--out",
        str(tmp_path / "tools.yaml"),
    ]
    assert CliRunner().invoke(catalog_app, draft).exit_code == 0
    done = CliRunner().invoke(catalog_app, ["lint", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    [row, *_] = json.loads(done.stdout)
    assert (row["rule"], row["level"], row["method"]) == ("tenant-unknown", "warning", "mcp.github/get_issue")
    (tmp_path / "mcp_tools.json").write_text("{")
    done = CliRunner().invoke(catalog_app, ["lint", str(tmp_path)])
    assert done.exit_code == 1
    assert "mcp_tools.json: is not JSON" in done.output


def test_equal_sources_make_equal_bytes(tmp_path: Path) -> None:
    one = "    arguments: {order_id: {one_of: [b, a]}, amount.minor: {min: 1}}\n    results: [b, a]\n"
    two = "    results: [a, b]\n    arguments: {amount.minor: {min: 1}, order_id: {one_of: [a, b]}}\n"
    assert canonical(message(tmp_path, one)) == canonical(message(tmp_path, two))


@pytest.mark.parametrize(("operation", "status"), [("get_issue", 0), ("other", 1)])
def test_bundle_that_does_not_know_an_mcp_tool_is_refused(
    tmp_path: Path, operation: str, status: int
) -> None:
    """Each of its calls would fail, and only at run time."""
    tools = [
        {"name": "get_issue", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}}}
    ]
    (tmp_path / "mcp_tools.json").write_text(json.dumps(tools))
    draft = [
        "draft",
        str(tmp_path / "mcp_tools.json"),
        "--tool",
        "github",
        "--out",
        str(tmp_path / "tools.yaml"),
    ]
    assert CliRunner().invoke(catalog_app, draft).exit_code == 0
    (tmp_path / "bundle.yaml").write_text('version: 1\nescalate_to: "desk@example.com"\n')
    (tmp_path / "schema.cedarschema").write_text(
        "entity Agent;\nentity Resource;\ntype Call = { tenant: String };\n"
        f"action {operation} appliesTo {{ principal: Agent, resource: Resource, context: Call }};\n"
    )
    (tmp_path / "rules.cedar").write_text(
        f'@id("read") permit (principal == Agent::"bot", action == Action::"{operation}", resource);\n'
    )
    done = CliRunner().invoke(policy_app, ["lint", str(tmp_path)])
    assert done.exit_code == status, done.output
    assert status == 0 or "mcp.github/get_issue: the rules cannot be evaluated" in done.output
