"""What is shipped is what is declared: names, metadata, dependencies, locks, commands, markers."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

SCOPES = {
    "licet": (),
    "licet/call/schema": ("mcp",),
    "licet/embedded": ("embedded",),
    "licet/guard/postgres": ("guard-postgres",),
    "licet/metrics": ("sidecar",),
    "sidecar": ("sidecar",),
    "decider": ("decider",),
    "audit": ("audit",),
    "audit/store/engine": ("embedded",),
    "audit/store/front": ("embedded",),
    "audit/judging/ledger_reader": ("audit", "guard-postgres"),
}
"""Which extras a folder (or the module of that name) may import from beside the base; longest name wins."""

NEED_EXTRA = ("licet/embedded", "licet/guard/postgres", "audit/store/engine", "audit/store/front")
"""What cannot be imported at all without its extra; whatever else uses one imports it where it is needed."""


def direct(*extras: str) -> set[str]:
    """Return the names of the distributions that the base and `extras` declare, extras of extras included."""
    names: set[str] = set()
    todo = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    while todo:
        requirement = Requirement(todo.pop())
        if requirement.name == "licet":
            todo += [line for extra in requirement.extras for line in EXTRAS[extra]]
        else:
            names.add(canonicalize_name(requirement.name))
    return names


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    target = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(target), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


def test_wheel_holds_exactly_the_declared_import_names(wheel: zipfile.ZipFile, metadata: Message) -> None:
    top_level = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}
    assert top_level == set(PROJECT["import-names"]) == set(metadata.get_all("Import-Name", []))


def test_every_import_package_ships_its_types(wheel: zipfile.ZipFile) -> None:
    assert {f"{name}/py.typed" for name in PROJECT["import-names"]} <= set(wheel.namelist())


def test_wheel_has_the_policy_of_every_pack(wheel: zipfile.ZipFile) -> None:
    policies = sorted((ROOT / "examples" / "packs").glob("*/policy/*"))
    expected = {f"decider/packs/{path.parent.parent.name}/{path.name}" for path in policies}
    assert expected
    assert expected <= set(wheel.namelist())


def test_no_index_accepts_an_upload(metadata: Message) -> None:
    assert "Private :: Do Not Upload" in metadata.get_all("Classifier", [])


def test_metadata_names_licence_and_pythons(metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata["Requires-Python"].split(",")) == {">=3.11", "<3.14"}


def test_installed_entry_points_are_the_declared_ones() -> None:
    declared = PROJECT["entry-points"]["licet.commands"]
    installed = distribution("licet").entry_points.select(group="licet.commands")
    assert {entry.name: entry.value for entry in installed} == declared, "run `make install` again"


def test_sidecar_has_the_shortest_list_of_dependencies() -> None:
    assert direct("sidecar") < direct("decider")
    assert direct("sidecar") < direct("audit")


def test_every_dependency_has_a_floor_and_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    tables = text[text.index("\ndependencies = [") : text.index("[project.scripts]")]
    tables += text[text.index("[dependency-groups]") : text.index("[tool.hatch")]
    lines = [line.strip() for line in tables.splitlines() if line.startswith('  "')]
    assert lines
    bare = [line for line in lines if not re.fullmatch(r'"(licet\[|[^"]*>=)[^"]*", +# .{3,}', line)]
    assert bare == []


def imports_of(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports, those taken from a module in full."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def provides(name: str, module: str) -> bool:
    """Say whether distribution `name` installs `module`, or the module that `module` names a member of."""
    candidates = tuple(part.replace(".", "/") for part in (module, module.rpartition(".")[0]) if part)
    files = [str(file) for file in distribution(name).files or ()]
    return any(file.startswith((f"{path}/__init__.py", f"{path}.")) for path in candidates for file in files)


def scope_name(path: Path) -> str:
    module = str(path.relative_to(ROOT).with_suffix(""))
    return max((s for s in SCOPES if module == s or module.startswith(s + "/")), key=len)


def undeclared(path: Path) -> Iterator[str]:
    own = {*PROJECT["import-names"], *sys.stdlib_module_names}
    for module in imports_of(path):
        if module.partition(".")[0] not in own and not any(
            provides(name, module) for name in direct(*SCOPES[scope_name(path)])
        ):
            yield f"{path.relative_to(ROOT)}: {module}"


@pytest.mark.parametrize("package", PROJECT["import-names"])
def test_every_import_is_declared_by_the_extra_of_its_package(package: str) -> None:
    found = [line for path in sorted((ROOT / package).rglob("*.py")) for line in undeclared(path)]
    assert found == []


@pytest.mark.parametrize("package", PROJECT["import-names"])
def test_package_imports_with_its_own_extra_alone(package: str) -> None:
    """Agents install no extra, a sidecar only its own; a needless import at the top would stop them."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((ROOT / package).rglob("*.py"))
        if scope_name(path) not in NEED_EXTRA and path.name != "__main__.py"
    ]
    absent = direct(*EXTRAS) - direct(*SCOPES[package])
    code = (
        f"import sys\nfor name in {sorted(top_level_of(absent))!r}: sys.modules[name] = None\n"
        f"import importlib\nfor name in {modules!r}: importlib.import_module(name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def top_level_of(names: set[str]) -> set[str]:
    """Return the modules to block so that distributions `names` are as if not installed."""
    namespaces = {"opentelemetry", "google"}  # shared by several distributions: block the part, not the whole
    found: set[str] = set()
    for name in names:
        for file in distribution(name).files or ():
            parts = file.parts if file.suffix in {".py", ".so"} else ()
            if parts and parts[0] not in {"..", "bin"}:
                depth = 2 if parts[0] in namespaces else 1
                found.add(".".join(parts[:depth]).partition(".py")[0].partition(".so")[0])
    return found - {"opentelemetry.exporter", "opentelemetry.py"} | {"opentelemetry.exporter.otlp"}


def test_every_shell_is_kept_out_of_the_pure_modules() -> None:
    """A shell whose own imports are ignored, but which pure modules could import, would be a hole."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (purity,) = (contract for contract in contracts if "broken_contract_guidance" in contract)
    assert purity["source_modules"] == ["licet.*"]
    forbidden = {name for name in purity["forbidden_modules"] if name.startswith("licet.")}
    excused = {line.split(" -> ")[0].removesuffix(".**") for line in purity["ignore_imports"]}
    assert excused - {"licet.v1"} == forbidden


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / f"requirements/{lock}.lock").read_text()
    return {canonicalize_name(n): v for n, v in re.findall(r"^([\w.-]+)==([\w.!+]+)", text, re.MULTILINE)}


@pytest.mark.parametrize("lock", ["dev", "run"])
def test_lock_pins_every_file_by_hash_and_names_no_host(lock: str) -> None:
    text = (ROOT / f"requirements/{lock}.lock").read_text()
    assert not re.search(r"://|--index|--extra-index|--find-links|--trusted-host| @ ", text)
    entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    assert entries
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_run_lock_is_a_part_of_the_dev_lock() -> None:
    assert pins("run").items() <= pins("dev").items()


@pytest.mark.parametrize(("lock", "extras"), [("dev", tuple(EXTRAS)), ("run", ("embedded",))])
def test_lock_satisfies_what_is_declared(lock: str, extras: tuple[str, ...]) -> None:
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    wanted = [requirement for requirement in map(Requirement, lines) if requirement.name != "licet"]
    locked = pins(lock)
    unmet = [str(r) for r in wanted if locked.get(canonicalize_name(r.name), "0") not in r.specifier]
    assert unmet == [], "run `make lock`"


def test_markers_table_names_what_the_suite_uses(pytestconfig: pytest.Config) -> None:
    registered = {re.split(r"[(:]", line)[0] for line in pytestconfig.getini("markers")}
    assert {"negative", "soak", "chaos", "e2e", "conformance"} <= registered


def test_readme_names_only_commands_that_the_makefile_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    blocks = re.findall(r"^```.*?^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    lines = re.findall(r"^\s*(?:\$ )?make ([^#\n]+)", "\n".join(blocks), re.MULTILINE)
    named = {word for line in lines for word in line.split() if re.fullmatch(r"[a-z-]+", word)}
    assert "demo" in named
    assert named <= targets
