"""A candidate beside the bundle in force: recorded with every decision, and without any influence."""

import shutil
import time

import pytest
import yaml

from decider.in_force.activate import ActivationError
from decider.in_force.change import Place
from decider.in_force.propose import propose, withdraw
from decider.policy.bundle import read_bundle_source
from licet.keyfile import read_signing_key
from licet.statement import PayloadType
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from tests.worlds.decisions import ENV, House, refund

pytestmark = pytest.mark.asyncio

STRICT = """
@id("candidate-limit")
forbid (principal, action == Action::"refund", resource is Order) when { context.amount_minor > 2000 };
"""


async def put_beside(house: House, rules: str, version: int) -> str:
    policy = house.ground.directory / f"candidate-{version}"
    shutil.copytree(house.ground.policy, policy)
    (policy / "rules.cedar").write_text(rules)
    top = yaml.safe_load((policy / "bundle.yaml").read_text())
    (policy / "bundle.yaml").write_text(yaml.safe_dump({**top, "notes": {}, "version": version}))
    payload = read_bundle_source(policy, environment=ENV)
    signed = read_signing_key(house.ground.keys_dir / "bundle.key").sign(PayloadType.BUNDLE, payload)
    return await propose(place(house), signed)


def place(house: House) -> Place:
    return Place(ENV, house.ground.keys_dir / "root.pub", house.ground.nats.settings("setup"))


async def seen(house: House, wanted: str, minor: int = 5000) -> tuple[int, object]:
    """Ask until the decision's event has this word of the candidate; return the decision and the event."""
    deadline, at = time.monotonic() + 60, 0
    while time.monotonic() < deadline:
        at += 1
        response = await house.decide(refund(minor=minor), call_id=f"{wanted or 'none'}-{minor}-{at}")
        (event,) = await house.decisions(f"{wanted or 'none'}-{minor}-{at}")
        if event.candidate_decision == wanted:
            return response.decision, event
    raise AssertionError(f"no decision came with `{wanted}` of a candidate")


async def test_candidate_is_recorded_with_each_decision_and_never_enforced(house: House) -> None:
    active = (house.ground.policy / "rules.cedar").read_text()
    said = await put_beside(house, active + STRICT, 2)
    assert "stays in force" in said
    decision, event = await seen(house, "deny")
    assert decision == DECISION_TYPE_ALLOW
    assert event.detail == "candidate 2: deny by candidate-limit"  # type: ignore[attr-defined]
    decision, event = await seen(house, "allow", minor=1500)
    assert (decision, event.detail) == (DECISION_TYPE_ALLOW, "")  # type: ignore[attr-defined]
    await put_beside(house, active.replace("!resource.refund_allowed", "false"), 3)
    denied = await house.decide(refund("O3"), call_id="o3")
    assert denied.decision == DECISION_TYPE_DENY
    assert house.permit(await house.decide(call_id="last")).bundle_version == 1
    assert "no longer evaluated" in await withdraw(place(house))
    decision, _ = await seen(house, "")
    assert decision == DECISION_TYPE_ALLOW


async def test_candidate_must_be_newer_and_goes_when_it_comes_into_force(house: House) -> None:
    active = (house.ground.policy / "rules.cedar").read_text()
    with pytest.raises(ActivationError, match="must be newer"):
        await put_beside(house, active, 1)
    await put_beside(house, active + STRICT, 2)
    await house.ground.activate(house.ground.directory / "candidate-2")
    from decider.in_force.activate import status

    row = await status(ENV, house.ground.nats.settings("setup"))
    assert row is not None
    assert (row["bundle_version"], row["candidate_version"]) == (2, 0)
