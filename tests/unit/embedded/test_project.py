"""The project file: what is read, and what each mistake is told."""

from pathlib import Path

import pytest

from licet.embedded.project import FILE, Project, ProjectError, read_project

GOOD = """\
environment: dev
policy: policy
tools:
  finance:
    command: ["{python}", "-m", "tool"]
    environment: {LEDGER: "{data}/ledger.db"}
    ledger: {dsn: "file:{data}/ledger.db", sql: "SELECT 1"}
demo: ["{python}", "-m", "demo"]
"""


def _project(directory: Path, text: str) -> Path:
    (directory / "policy").mkdir()
    (directory / FILE).write_text(text)
    return directory


def test_project_is_read_with_its_defaults(tmp_path: Path) -> None:
    found = read_project(_project(tmp_path, GOOD))
    (tool,) = found.tools
    assert (found.environment, found.policy, found.demo) == (
        "dev",
        tmp_path / "policy",
        ("{python}", "-m", "demo"),
    )
    assert (tool.name, tool.command, tool.seed) == ("finance", ("{python}", "-m", "tool"), ())
    assert dict(tool.environment) == {"LEDGER": "{data}/ledger.db"}
    assert set(tool.ledger) == {"dsn", "sql"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("policy: policy", "policy: nowhere", "is no directory"),
        ("tools:", "tool:", "unknown key `tool`"),
        ("    command:", "    comand:", "unknown key `comand`"),
        ('["{python}", "-m", "tool"]', '"python -m tool"', "a list of words is needed"),
        ("  finance:", "  fin*nce:", "tools.fin*nce"),
        ("environment: dev", "environment: d>v", "environment"),
        (', sql: "SELECT 1"', "", "`sql` is missing"),
        ("environment: dev", "environment: [", "is no YAML"),
    ],
)
def test_mistake_in_the_project_file_is_told_with_file_and_field(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert old in GOOD
    with pytest.raises(ProjectError) as error:
        read_project(_project(tmp_path, GOOD.replace(old, new, 1)))
    assert told in str(error.value)
    assert str(tmp_path / FILE) in str(error.value)


@pytest.mark.parametrize(
    ("text", "tenants"),
    [
        ("tasks: {a: {tenant: t2}, b: {tenant: t1}, c: {tenant: t1}}", ("t1", "t2")),
        ("tasks: {a: {tenant: 'no token'}, b: {tenant: 7}, c: none}", ()),
        ("tasks: [", ()),
        ("[]", ()),
    ],
)
def test_tenants_are_those_of_the_tasks(tmp_path: Path, text: str, tenants: tuple[str, ...]) -> None:
    project = Project(tmp_path, "dev", tmp_path, ())
    assert project.tenants() == ()
    (tmp_path / "tasks.yaml").write_text(text)
    assert project.tenants() == tenants


def test_directory_without_a_project_file_is_told_what_a_project_is(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="is missing: a project is a directory with"):
        read_project(tmp_path)
