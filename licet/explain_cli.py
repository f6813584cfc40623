"""`licet explain`: twelve questions about one call, each with its answer, the value and the rule behind it.

What a call is read from is the business of the parts that are installed, by the entry-point group
`licet.explainers`: `file` decides a call file dry (the decider's), `recorded` reads the decision's record
(the audit's).
"""

import json
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from licet.explain import Explanation, text_of
from licet.identity import TRUST_DOMAIN_DEV

GROUP: Final = "licet.explainers"
EXTRA: Final = {"file": "decider", "recorded": "audit"}


class ExplainError(ValueError):
    """A call cannot be explained; `str()` says what to change."""


def explain(
    call: Annotated[
        str, typer.Argument(help="a call file, TASK/CALL, a decision id, or `last`", metavar="CALL")
    ],
    *,
    denied: Annotated[bool, typer.Option("--denied", help="With `last`: the last that was stopped.")] = False,
    policy: Annotated[
        Path | None, typer.Option(help="Policy directory that a call file is decided by; default: policy")
    ] = None,
    environment: Annotated[str, typer.Option(envvar="LICET_ENVIRONMENT")] = "dev",
    trust_domain: Annotated[str, typer.Option(envvar="LICET_TRUST_DOMAIN")] = TRUST_DOMAIN_DEV,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Answer twelve questions about a call: a recorded one, or a call file, decided dry.

    Dry means: nothing is permitted, booked or recorded, and nobody is asked. Exit status: 0 explained, 1 not.

    Examples:
        licet explain last --denied
        licet explain task_789/call_42
        licet explain call.yaml --policy examples/refund/policy
    """
    file = Path(call)
    try:
        if file.is_file():
            found = _explainer("file")(file, policy or Path("policy"), environment, trust_domain)
        else:
            found = _explainer("recorded")(call, denied=denied)
    except ExplainError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else text_of(found))


def _explainer(name: str) -> Callable[..., Explanation]:
    found = tuple(entry_points(group=GROUP, name=name))
    try:
        loaded: Any = found[0].load() if found else None
    except ModuleNotFoundError:
        loaded = None
    if loaded is None:
        raise ExplainError(f"explaining this needs the extra: pip install 'licet[{EXTRA[name]}]'")
    explainer: Callable[..., Explanation] = loaded
    return explainer
