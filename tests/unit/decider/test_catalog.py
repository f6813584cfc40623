"""Catalogs from tools.yaml: defaults by tier, every wrong path named, digests that mean something."""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from decider.catalog.build import build_catalog, entries_of
from decider.catalog.descriptors import Descriptors, DescriptorsError
from decider.catalog.lint import Level, lint_catalog
from decider.catalog.tools import read_tools, snake_case
from decider.source import SourceError
from licet.catalog import method_digest
from licet.statement import canonical
from licet.v1 import catalog_pb2

POLICY = Path(__file__).parents[3] / "examples" / "refund" / "policy"
REFUND = "/fin.v1.Finance/IssueRefund"


def source_text() -> str:
    return (POLICY / "tools.yaml").read_text()


def descriptor_set() -> descriptor_pb2.FileDescriptorSet:
    return descriptor_pb2.FileDescriptorSet.FromString((POLICY / "descriptors.binpb").read_bytes())


def build(path: Path, text: str, files: Any = None) -> dict[str, catalog_pb2.Method]:
    file = path / "tools.yaml"
    file.write_text(text)
    descriptors = Descriptors((files or descriptor_set()).SerializeToString())
    payload = build_catalog(read_tools(file), descriptors, environment="dev", trust_domain="licet.local")
    return {method.path: method for method in entries_of(payload)}


def lint(path: Path, text: str) -> list[tuple[Level, str]]:
    file = path / "tools.yaml"
    file.write_text(text)
    descriptors = Descriptors(descriptor_set().SerializeToString())
    return [(finding.level, finding.rule) for finding in lint_catalog(read_tools(file), descriptors)]


def test_example_builds_without_errors(tmp_path: Path) -> None:
    methods = build(tmp_path, source_text())
    assert methods[REFUND].input_type == "fin.v1.IssueRefundRequest"
    assert Level.ERROR not in {level for level, _ in lint(tmp_path, source_text())}


def test_a_method_needs_five_lines(tmp_path: Path) -> None:
    text = """tool: finance
methods:
  fin.v1.Finance/GetOrder: {tier: 1, resource: "order:{order_id}"}
  fin.v1.Finance/IssueRefund:
    tier: 4
    resource: "order:{order_id}"
    money: {amount: amount.minor, currency: amount.currency}
    facts: {method: fin.v1.Finance/GetOrder, request: {order_id: order_id}}
    say: "Refund {amount} {amount.currency} for order {order_id}"
"""
    method = build(tmp_path, text)[REFUND]
    assert (method.operation, method.guarded, method.spends, method.decide_on_call) == (
        "issue_refund",
        True,
        True,
        False,
    )
    assert dict(method.facts.preconditions) == {"order.tenant": "tenant"}
    assert Level.ERROR not in {level for level, _ in lint(tmp_path, text)}


def test_equal_sources_make_equal_bytes_whatever_the_order(tmp_path: Path) -> None:
    one = build(tmp_path, source_text())
    head, *methods = source_text().split("  fin.v1.Finance/")
    two = build(tmp_path, head + "".join(f"  fin.v1.Finance/{method}" for method in reversed(methods)))
    assert {path: canonical(method) for path, method in one.items()} == {
        path: canonical(method) for path, method in two.items()
    }


def test_digest_follows_the_methods_own_types_and_no_others(tmp_path: Path) -> None:
    before = build(tmp_path, source_text())
    changed = descriptor_set()
    file = next(file for file in changed.file if file.package == "fin.v1")
    message = next(message for message in file.message_type if message.name == "SearchPolicyRequest")
    message.field.add(name="more", number=9, type=9, label=1)
    after = build(tmp_path, source_text(), changed)
    differing = {path for path in before if digest(before[path]) != digest(after[path])}
    assert differing == {"/fin.v1.Finance/SearchPolicy"}


def digest(method: catalog_pb2.Method) -> bytes:
    return method_digest(canonical(method))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("order:{order_id}", "order:{order}", "no field `order`"),
        ("order:{order_id}", "order:{order_id", "brace"),
        ("order:{order_id}", "order:{amount}", "must be a single scalar field"),
        ("amount: amount.minor", "amount: reason", "must be an integer"),
        ("currency: amount.currency", "currency: amount.minor", "must be a string"),
        ("tier: 4", "tier: 6", "from 0 to 5"),
        ("tier: 4", "tier: four", "must be an integer"),
        ("tier: 4", "tier: -1", "from 0 to 5"),
        ("tier: 4", "tier: 4\n    teir: 4", "unknown field"),
        ("tier: 4", "tier: 4\n    tier: 3", "given twice"),
        ("tier: 4", "tier: 5\n    approvers: {lead: 0}", "from 1 to 9"),
        ("tier: 4", "tier: 4\n    no_effect_codes: [INTERNAL]", "cannot prove"),
        ("tier: 4", "tier: 4\n    unguarded: perhaps", "must be one of"),
        ("tenant: tenant", "tenant: version", "must be a string"),
        ("method: fin.v1.Finance/GetOrder", "method: fin.v1.Finance/IssueRefund", "must be of tier 0 or 1"),
        ("method: fin.v1.Finance/GetOrder", "method: fin.v1.Finance/None", "no method"),
        ("request: {order_id: order_id}", "request: {order_id: amount.minor}", "must have one type"),
        ("order.version: version", "order.version: verzion", "no field `verzion`"),
        ("fin.v1.Finance/SearchPolicy", "fin.v1.Finance/searchPolicy", "no method"),
        ("fin.v1.Finance/SearchPolicy", "'fin.v1.Finance/SearchPolicy?x=1'", "must look like"),
        ("tool: finance", "tool: Finance", "1 to 64 of a-z"),
        ("tool: finance", "tool: finance\nversion: 0", "from 1"),
    ],
)
def test_wrong_source_is_refused_with_line_and_field(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert old in source_text()
    with pytest.raises(SourceError) as error:
        build(tmp_path, source_text().replace(old, new))
    assert any(why in fault.message and fault.line for fault in error.value.faults), str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("guarded: true", "guarded: false", "guard-missing"),
        ("guarded: true", "spends: false", "write-spends"),
        ("tier: 4", "tier: 5", "approvers-missing"),
        ("tier: 4", "tier: 4\n    approvers: {lead: 1}", "approvers-unused"),
        ("tier: 4", "tier: 5\n    approvers: {lead: 1}\n    ceilings: true", "privileged-ceilings"),
        ("tier: 4", "tier: 5\n    approvers: {lead: 1}\n    decide_on_call: true", "privileged-on-call"),
        ("order.tenant: tenant}", "order.tenant: status}", "tenant-precondition"),
        ('resource: "order:{order_id}"\n    money', 'resource: "{order_id}"\n    money', "resource-kind"),
    ],
)
def test_unwise_source_is_a_lint_error(tmp_path: Path, old: str, new: str, rule: str) -> None:
    assert old in source_text()
    assert (Level.ERROR, rule) in lint(tmp_path, source_text().replace(old, new, 1))


def test_float_in_a_write_is_a_lint_error_and_a_waiver_says_why(tmp_path: Path) -> None:
    files = descriptor_set()
    file = next(file for file in files.file if file.package == "fin.v1")
    message = next(message for message in file.message_type if message.name == "IssueRefundRequest")
    message.field.add(name="rate", number=99, type=1, label=1)
    descriptors = Descriptors(files.SerializeToString())
    path = tmp_path / "tools.yaml"
    path.write_text(source_text())
    assert (Level.ERROR, "float") in {(f.level, f.rule) for f in lint_catalog(read_tools(path), descriptors)}
    path.write_text(source_text().replace("guarded: true", 'guarded: true\n    waiver: "display only"'))
    [finding] = [f for f in lint_catalog(read_tools(path), descriptors) if f.rule == "float"]
    assert (finding.level, "display only" in finding.message) == (Level.WARNING, True)


def test_descriptors_that_are_none_or_incomplete_say_so() -> None:
    with pytest.raises(DescriptorsError, match="no FileDescriptorSet"):
        Descriptors(b"\xff\xff")
    lonely = descriptor_pb2.FileDescriptorSet()
    lonely.file.add(name="a.proto", dependency=["b.proto"])
    with pytest.raises(DescriptorsError, match=r"lacks the import `b\.proto`"):
        Descriptors(lonely.SerializeToString())


def test_names_of_methods_become_operations() -> None:
    names = ("IssueRefund", "GetHTTPStatus", "read", "ListV2Orders")
    assert [snake_case(name) for name in names] == [
        "issue_refund",
        "get_http_status",
        "read",
        "list_v2_orders",
    ]
