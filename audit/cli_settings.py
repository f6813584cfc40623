"""What every command of `licet audit` does alike: settings that say what is wrong, and ends with a word."""

from typing import Any

import typer


def fail(message: str) -> typer.Exit:
    """Say why on stderr and return the exit to raise: status 1."""
    typer.echo(message, err=True)
    return typer.Exit(1)


def read_settings(kind: Any, **given: object) -> Any:
    """Make settings from the environment and the options that were given; exits 2 with every bad value."""
    from pydantic import ValidationError

    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        for problem in error.errors():
            name = "_".join(["LICET", *(str(part).upper() for part in problem["loc"])])
            message = problem["msg"].removeprefix("Value error, ")
            message = message[:1].lower() + message[1:]
            typer.echo(f"{name}: {message}" if problem["loc"] else message, err=True)
        raise typer.Exit(2) from None
