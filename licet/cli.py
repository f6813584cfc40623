"""The `licet` command: one name for the commands of every part that is installed.

Commands come from the entry-point group `licet.commands` and are loaded when they are used: `licet audit`
imports nothing of the decider, and a part whose extra is missing says so and disturbs no other. Help goes to
stdout, errors to stderr. Exit status: 0 done, 1 not done, 2 wrong usage.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

import licet

COMMAND_GROUP: Final = "licet.commands"
"""The entry-point group: each name is a sub-command, each value a Typer app or a function to run."""

OWN_PACKAGES: Final = frozenset({"licet", "decider", "sidecar", "audit"})
"""What this distribution imports as; a missing module of these is a defect, not a missing extra."""

EXTRAS: Final[dict[str, str]] = {
    "decider": "decider",
    "sidecar": "sidecar",
    "audit": "audit",
    "licet.embedded": "embedded",
}
"""Which extra brings what a package needs."""


def extra_of(module: str) -> str | None:
    """Return the extra that `module` (dotted) needs, or None where the base installation is enough."""
    parts = module.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((EXTRAS[prefix] for prefix in prefixes if prefix in EXTRAS), None)


def _stand_in(name: str, extra: str | None, error: Exception) -> TyperCommand:
    """Make the command for one that cannot be loaded: help lists it as such, and any use of it says why."""
    needs = f"needs the extra: pip install 'licet[{extra}]'" if extra else f"cannot be loaded: {error}"

    def refuse(**_: object) -> None:
        typer.echo(f"`licet {name}` {needs}", err=True)
        if not extra:
            raise error
        raise typer.Exit(1)

    return TyperCommand(
        name,
        callback=refuse,
        help=needs,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )


class InstalledCommands(TyperGroup):
    """The commands of the installed parts, each imported at its first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return every command's name: the built-in ones, then the installed ones by name."""
        return [*super().list_commands(ctx), *sorted(entry_points(group=COMMAND_GROUP).names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command `cmd_name`, a stand-in if it cannot be imported, None if there is none."""
        found = tuple(entry_points(group=COMMAND_GROUP, name=cmd_name))
        return _load(found[0]) if found else super().get_command(ctx, cmd_name)


def _load(entry: EntryPoint) -> Any:
    try:
        target = entry.load()
    except ModuleNotFoundError as error:
        ours = (error.name or "").partition(".")[0] in OWN_PACKAGES
        return _stand_in(entry.name, None if ours else extra_of(entry.module), error)
    except (ImportError, AttributeError) as error:
        return _stand_in(entry.name, None, error)
    holder = typer.Typer(add_completion=False)
    holder.callback()(lambda: None)  # makes a group of it whatever it holds
    if isinstance(target, typer.Typer):
        holder.add_typer(target, name=entry.name)
    else:
        holder.command(entry.name)(target)
    return typer.main.get_group(holder).commands[entry.name]


app: Final = typer.Typer(
    name="licet",
    cls=InstalledCommands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # a traceback must not print arguments or keys
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"licet {licet.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Authorization of AI-agent tool calls that holds at the moment of execution."""


def main() -> None:
    """Run the command line; the console script `licet`."""
    app(prog_name="licet")
