"""What `licet up` runs: a project directory with one `licet.yaml` that names tools, policy and tasks.

Guarantees: `read_project` returns a project whose files exist, or raises with file and field; unknown keys
are errors, so that a typo cannot silently leave a tool out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from licet.identity import subject_token

FILE: Final = "licet.yaml"
_TOP: Final = frozenset({"environment", "policy", "tools", "demo", "approvers"})
_TOOL: Final = frozenset({"command", "seed", "environment", "ledger"})
_LEDGER: Final = frozenset({"dsn", "sql"})


class ProjectError(ValueError):
    """The project file is missing, unreadable or says something this version does not know."""


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """How a tool service is started.

    Every text may hold `{python}`, this interpreter, and `{data}`, the tool's own data directory. `seed` runs
    once before the first start. `ledger` says how the reconciler reads the tool's ledger itself
    (`dsn`, `sql`; see audit.judging.ledger_reader); empty where it does not.
    """

    name: str
    command: tuple[str, ...]
    seed: tuple[str, ...]
    environment: Mapping[str, str]
    ledger: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Project:
    """A project directory: its policy directory, its tools, and the command that shows them off."""

    directory: Path
    environment: str
    policy: Path
    tools: tuple[ToolCommand, ...]
    demo: tuple[str, ...] = ()
    approvers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Who gets a development key to answer holds with, and in which roles."""

    def tenants(self) -> tuple[str, ...]:
        """Return the tenants that the policy's tasks are for, as far as a key file can be named for them."""
        path = self.policy / "tasks.yaml"
        try:
            source = yaml.safe_load(path.read_text("utf-8")) if path.is_file() else None
        except (yaml.YAMLError, UnicodeDecodeError):
            return ()  # the decider says what is wrong with it
        tasks = source.get("tasks") if isinstance(source, dict) else None
        named = [task.get("tenant") for task in (tasks or {}).values() if isinstance(task, dict)]
        return tuple(sorted({name for name in named if isinstance(name, str) and _is_token(name)}))


def _is_token(text: str) -> bool:
    try:
        return bool(subject_token(text))
    except ValueError:
        return False


def read_project(directory: Path) -> Project:
    """Read `licet.yaml` in `directory`.

    Raises:
        ProjectError: naming the file and the field.
    """
    path = directory / FILE
    if not path.is_file():
        raise ProjectError(f"`{path}` is missing: a project is a directory with a `{FILE}`")
    try:
        source = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ProjectError(f"`{path}` is no YAML: {' '.join(str(error).split())}") from error
    top = _mapping(source, path, "the file", _TOP)
    policy = directory / str(top.get("policy", "policy"))
    if not policy.is_dir():
        raise ProjectError(f"`{path}`: policy: `{policy}` is no directory")
    tools = _mapping(top.get("tools"), path, "tools", None)
    if not tools:
        raise ProjectError(f"`{path}`: tools: at least one tool is needed")
    environment = _token(top.get("environment", "dev"), path, "environment")
    commands = tuple(_tool(name, value, path) for name, value in tools.items())
    demo = _words(top.get("demo", []), path, "demo")
    approvers = {
        name: _words(roles, path, f"approvers.{name}")
        for name, roles in _mapping(top.get("approvers", {}), path, "approvers", None).items()
    }
    return Project(directory.resolve(), environment, policy.resolve(), commands, demo, approvers)


def _tool(name: str, value: object, path: Path) -> ToolCommand:
    where = f"tools.{name}"
    fields = _mapping(value, path, where, _TOOL)
    command = _words(fields.get("command"), path, f"{where}.command")
    if not command:
        raise ProjectError(f"`{path}`: {where}.command: a list of words is needed")
    environment = _mapping(fields.get("environment", {}), path, f"{where}.environment", None)
    return ToolCommand(
        _token(name, path, where),
        command,
        _words(fields.get("seed", []), path, f"{where}.seed"),
        {key: str(text) for key, text in environment.items()},
        _ledger(fields.get("ledger"), path, f"{where}.ledger"),
    )


def _ledger(value: object, path: Path, where: str) -> Mapping[str, str]:
    if value is None:
        return MappingProxyType({})
    given = _mapping(value, path, where, _LEDGER)
    missing = sorted(_LEDGER - set(given))
    if missing:
        raise ProjectError(f"`{path}`: {where}: `{missing[0]}` is missing")
    return MappingProxyType({key: str(text) for key, text in given.items()})


def _mapping(value: object, path: Path, where: str, known: frozenset[str] | None) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ProjectError(f"`{path}`: {where}: a mapping is needed")
    unknown = sorted(set(value) - known) if known is not None else []
    if unknown:
        raise ProjectError(f"`{path}`: {where}: unknown key `{unknown[0]}`")
    return value


def _words(value: object, path: Path, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ProjectError(f"`{path}`: {where}: a list of words is needed")
    return tuple(value)


def _token(value: object, path: Path, where: str) -> str:
    try:
        return subject_token(str(value))
    except ValueError as error:
        raise ProjectError(f"`{path}`: {where}: {error}") from error
