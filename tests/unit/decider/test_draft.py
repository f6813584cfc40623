"""A first tools.yaml from a service never seen before: strict guesses, and it builds."""

import re
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from typer.testing import CliRunner

from decider.catalog.build import build_catalog, entries_of
from decider.catalog.cli import catalog_app
from decider.catalog.descriptors import Descriptors
from decider.catalog.draft import draft, guess_tier
from decider.catalog.lint import Level, lint_catalog
from decider.catalog.tools import read_tools

POLICY = Path(__file__).parents[3] / "examples" / "refund" / "policy"


def service_never_seen() -> Descriptors:
    """A little CRM: contacts with their tenant, mail, deletion, an upload stream."""
    file = descriptor_pb2.FileDescriptorProto(name="crm.proto", package="crm.v1", syntax="proto3")

    def message(name: str, *fields: str) -> None:
        made = file.message_type.add(name=name)
        for number, field in enumerate(fields, start=1):
            made.field.add(name=field, number=number, type=9, label=1)

    message("ById", "contact_id")
    message("Contact", "contact_id", "tenant", "mail")
    message("Mail", "contact_id", "subject", "text")
    message("Done")
    service = file.service.add(name="Crm")
    for name, given, answer in (
        ("GetContact", "ById", "Contact"),
        ("SendMail", "Mail", "Done"),
        ("DeleteContact", "ById", "Done"),
        ("Upload", "Mail", "Done"),
    ):
        method = service.method.add(name=name, input_type=f".crm.v1.{given}", output_type=f".crm.v1.{answer}")
        method.client_streaming = name == "Upload"
    return Descriptors(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())


def errors_of(path: Path, text: str, descriptors: Descriptors) -> list[str]:
    file = path / "tools.yaml"
    file.write_text(text)
    return [f.rule for f in lint_catalog(read_tools(file), descriptors) if f.level is Level.ERROR]


def test_draft_of_an_unknown_service_builds_and_lints_without_errors(tmp_path: Path) -> None:
    descriptors = service_never_seen()
    text = draft("crm", descriptors)
    assert errors_of(tmp_path, text, descriptors) == []
    source = read_tools(tmp_path / "tools.yaml")
    methods = {
        method.path: method
        for method in entries_of(
            build_catalog(source, descriptors, environment="dev", trust_domain="licet.local")
        )
    }
    assert {path.rpartition("/")[2]: method.tier for path, method in methods.items()} == {
        "GetContact": 1,
        "SendMail": 4,
        "DeleteContact": 5,
    }
    assert methods["/crm.v1.Crm/SendMail"].facts.method == "/crm.v1.Crm/GetContact"
    assert "Upload: streams from the client" in text


def test_draft_of_the_example_finds_money_resource_and_facts(tmp_path: Path) -> None:
    descriptors = Descriptors((POLICY / "descriptors.binpb").read_bytes())
    text = draft("finance", descriptors)
    assert errors_of(tmp_path, text, descriptors) == []
    [refund] = [m for m in read_tools(tmp_path / "tools.yaml").methods if m.path.endswith("/IssueRefund")]
    assert (refund.tier, refund.money, refund.resource) == (
        4,
        ("amount.minor", "amount.currency"),
        "order:{order_id}",
    )
    assert refund.facts is not None


@pytest.mark.parametrize(
    ("name", "money", "tier"),
    [
        ("GetOrder", False, 1),
        ("ListPayments", True, 1),
        ("DraftReply", False, 2),
        ("UpdateContact", False, 3),
        ("UpdateLimit", True, 4),
        ("FrobnicateWidget", False, 4),
        ("DeleteAll", False, 5),
        ("ExecSQL", False, 5),
        ("getaway", False, 4),
    ],
)
def test_unknown_verbs_and_money_are_guessed_strictly(name: str, money: bool, tier: int) -> None:
    assert guess_tier(name, money=money) == tier


QUICKSTART = (Path(__file__).parents[3] / "docs" / "quickstart.md").read_text("utf-8")


def fenced(kind: str) -> str:
    """The first block of a kind in the quickstart."""
    found = re.search(rf"```{kind}\n(.*?)```", QUICKSTART, re.DOTALL)
    assert found is not None
    return found[1]


def test_owner_of_a_new_tool_edits_five_lines_of_the_draft(tmp_path: Path) -> None:
    """The quickstart's own files; tests/helm/test_quickstart.py goes on from here to the first gated call."""
    (tmp_path / "notes.proto").write_text(fenced("proto"))
    out = tmp_path / "descriptors.binpb"
    command = ["", f"-I{tmp_path}", "--include_imports", f"--descriptor_set_out={out}", "notes.proto"]
    assert protoc.main(command) == 0
    done = CliRunner().invoke(
        catalog_app, ["draft", str(out), "--tool", "notes", "--out", str(tmp_path / "tools.yaml")]
    )
    assert done.exit_code == 0, done.output
    drafted, edited = (tmp_path / "tools.yaml").read_text(), fenced("yaml")
    unmarked = [line.partition("  #")[0] for line in drafted.splitlines()]
    changed = [line for line in edited.splitlines() if line not in unmarked]
    assert 0 < len(changed) <= 5
    (tmp_path / "tools.yaml").write_text(edited)
    linted = CliRunner().invoke(catalog_app, ["lint", str(tmp_path)])
    assert linted.exit_code == 0, linted.output


def test_draft_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text("mine")
    source = str(POLICY / "descriptors.binpb")
    done = CliRunner().invoke(
        catalog_app, ["draft", source, "--tool", "finance", "--out", str(tmp_path / "tools.yaml")]
    )
    assert done.exit_code == 1
    assert (tmp_path / "tools.yaml").read_text() == "mine"
    done = CliRunner().invoke(
        catalog_app, ["draft", source, "--tool", "finance", "--out", str(tmp_path / "new.yaml")]
    )
    assert done.exit_code == 0
    assert (tmp_path / "new.yaml").read_text().startswith("# A draft")
