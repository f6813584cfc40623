"""The `licet` command finds its parts, and a part that cannot be loaded harms no other."""

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from typer.testing import CliRunner

import licet
from licet import cli

WORKING = """
import typer
app = typer.Typer(help="Works.")

@app.command()
def go(word: str) -> None:
    typer.echo(f"went {word}")

@app.command()
def stop() -> None:
    pass
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install three commands: one works, one lacks a dependency, one lacks a module of ours."""
    (tmp_path / "part_that_works.py").write_text(WORKING)
    (tmp_path / "part_without_extra.py").write_text("import no_such_dependency")
    (tmp_path / "part_without_module.py").write_text("import audit.no_such_module")
    (tmp_path / "function_that_works.py").write_text("def app(count: int = 2):\n    print('n' * count)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(cli.EXTRAS, "part_without_extra", "audit")
    monkeypatch.setitem(cli.EXTRAS, "part_without_module", "audit")
    entries = EntryPoints(
        EntryPoint(name, f"{module}:app", cli.COMMAND_GROUP)
        for name, module in {
            "works": "part_that_works",
            "plain": "function_that_works",
            "extra": "part_without_extra",
            "broken": "part_without_module",
        }.items()
    )
    monkeypatch.setattr(cli, "entry_points", entries.select)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, list(arguments), prog_name="licet")
    return result.exit_code, result.stdout, result.stderr


def test_version_is_that_of_the_distribution() -> None:
    assert run("--version") == (0, f"licet {licet.__version__}\n", "")


@pytest.mark.usefixtures("commands")
def test_installed_part_runs_under_its_entry_point_name() -> None:
    assert run("works", "go", "there") == (0, "went there\n", "")


@pytest.mark.usefixtures("commands")
def test_completion_is_offered_by_the_main_command_alone() -> None:
    assert "--install-completion" in run("--help")[1]
    assert "--install-completion" not in run("works", "--help")[1]


@pytest.mark.usefixtures("commands")
def test_entry_point_may_be_a_plain_function_with_typer_parameters() -> None:
    assert run("plain", "--count", "3") == (0, "nnn\n", "")


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize("arguments", [(), ("--help",), ("serve", "--port", "1")])
def test_part_without_its_extra_says_what_to_install(arguments: tuple[str, ...]) -> None:
    status, out, err = run("extra", *arguments)
    assert (status, out) == (1, "")
    assert err == "`licet extra` needs the extra: pip install 'licet[audit]'\n"


@pytest.mark.usefixtures("commands")
def test_missing_module_of_ours_is_no_missing_extra() -> None:
    result = CliRunner().invoke(cli.app, ["broken"], prog_name="licet")
    assert result.exit_code == 1
    assert "pip install" not in result.stderr
    assert isinstance(result.exception, ModuleNotFoundError)


@pytest.mark.usefixtures("commands")
def test_help_lists_every_part_whatever_is_broken() -> None:
    status, out, _ = run("--help")
    assert status == 0
    assert [name for name in ("works", "extra", "broken") if name in out] == ["works", "extra", "broken"]


@pytest.mark.usefixtures("commands")
def test_unknown_command_is_wrong_usage() -> None:
    status, out, err = run("no-such-part")
    assert (status, out) == (2, "")
    assert "no-such-part" in err


@pytest.mark.parametrize(
    ("module", "extra"),
    [("decider.cli", "decider"), ("licet.embedded.cli", "embedded"), ("licet.client", None), ("licet", None)],
)
def test_extra_of_a_module_is_that_of_its_nearest_package(module: str, extra: str | None) -> None:
    assert cli.extra_of(module) == extra


def test_version_needs_no_part_to_be_imported() -> None:
    code = (
        "import sys; sys.argv = ['licet', '--version']\n"
        "from licet.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'grpc', 'nats', 'cedarpy', 'chdb', 'decider', 'sidecar', 'audit'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
