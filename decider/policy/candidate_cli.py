"""`licet policy candidate`, `replay` and `new`: what another bundle would do, before it does anything.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage. Keys are named by file.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from decider.catalog.cli import AsJson, Environment, fail
from decider.in_force.change_cli import RootKey, place_of, run
from decider.policy.cli import (
    NatsAuthority,
    NatsPassword,
    NatsUrl,
    NatsUser,
    PolicyDirectory,
    policy_app,
    signed_bundle,
)

__all__ = ["policy_app"]


@policy_app.command("candidate")
def policy_candidate(
    *,
    directory: Annotated[Path | None, typer.Argument(help="policy directory")] = None,
    key: Annotated[Path | None, typer.Option(help="file of the bundle key")] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="take the candidate away")] = False,
    root_key_file: RootKey,
    environment: Environment,
    nats_url: NatsUrl,
    nats_user: NatsUser = "",
    nats_password_file: NatsPassword = None,
    nats_ca_file: NatsAuthority = None,
) -> None:
    """Evaluate a bundle beside the one in force: recorded with every decision, never enforced.

    Example:
        licet policy candidate policy --key keys/bundle.key --environment dev
    """
    from decider.in_force import propose

    place = place_of(environment, root_key_file, (nats_url, nats_user, nats_password_file, nats_ca_file))
    if withdraw is (directory is not None):
        raise typer.BadParameter("name a policy directory, or --withdraw")
    if directory is None:
        typer.echo(run(propose.withdraw(place)), err=True)
        return
    if key is None:
        raise typer.BadParameter("--key names the file of the bundle key")
    typer.echo(run(propose.propose(place, signed_bundle(directory, key, environment))), err=True)


@policy_app.command("replay")
def policy_replay(
    directory: PolicyDirectory,
    inputs: Annotated[Path, typer.Option(help="what `licet audit inputs` wrote")],
    *,
    gate: Annotated[
        bool, typer.Option("--gate", help="exit with 1 when anything is lost, gained or unavailable")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Ask recorded calls again under these rules, and show by call what would change.

    Example:
        licet audit inputs --out inputs.jsonl --payload-keys keys
        licet policy replay policy --inputs inputs.jsonl --gate
    """
    from decider.policy.bundle import load_bundle, read_bundle_source
    from decider.policy.replay import ReplayError, read_inputs, replay, text_of
    from decider.source import SourceError

    try:
        rules = load_bundle(read_bundle_source(directory, environment="replay")).rules
        result = replay(rules, read_inputs(inputs))
    except (SourceError, ReplayError) as error:
        fail(error)
    typer.echo(json.dumps(result.to_dict(), indent=2) if as_json else text_of(result))
    if not result.rows:
        fail(f"`{inputs}` has no calls")
    if gate and result.grave:
        fail(f"{len(result.grave)} calls would be lost, gained or unavailable")


@policy_app.command("new")
def policy_new(
    directory: Annotated[Path, typer.Argument(help="where bundle.yaml and the rules go")],
    pack: Annotated[
        str | None, typer.Option(help="start from this pack's policy, such as day-one, in a new directory")
    ] = None,
) -> None:
    """Write a first bundle that denies everything, with a schema from the catalog beside it, if there is one.

    Existing files stay as they are. Then: write rules, `licet policy lint`, `test`, `build`, `activate`.

    Example:
        licet policy new --pack day-one policy
    """
    from decider.packs import PackError, copy_pack
    from decider.policy.new_policy import new_policy
    from decider.source import SourceError

    try:
        written = copy_pack(pack, directory) if pack is not None else new_policy(directory)
    except (SourceError, PackError, OSError) as error:
        fail(error)
    for path in written:
        typer.echo(f"{path}: written", err=True)
    if not written:
        fail(f"nothing was written: `{directory}` has a bundle already")
