"""Delegations at a running decider: granted, narrowed and taken back with the command line."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from decider.delegation.cli import app
from decider.delegation.delegations import Registry, read_links, signed_chain
from decider.house import read_delegations
from licet.embedded.dev_keys import make_dev_keys
from licet.identity import TRUST_DOMAIN_DEV
from licet.refusal import Refusal
from licet.v1 import delegation_pb2
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY
from licet.v1.statement_pb2 import Signed
from tests.worlds.decisions import APPROVERS, ENV, Ground, House, furnish, refund

REFUND = "/fin.v1.Finance/IssueRefund"


class Desk:
    """Where delegations are handed out."""

    def __init__(self, ground: Ground) -> None:
        self.directory = ground.directory / "delegations"
        self.directory.mkdir()
        self.keys = ground.keys_dir

    def run(self, *words: str, fails: bool = False) -> str:
        common = ["--dir", str(self.directory)]
        if words[0] != "revoke":
            common += ["--keys-dir", str(self.keys), "--environment", ENV]
        result = CliRunner().invoke(app, [*words, *common])
        assert result.exit_code == (1 if fails else 0), result.output
        return (result.stderr if fails else result.stdout).strip()

    def key(self, name: str) -> str:
        return str(self.keys / f"{name}.key")

    def grant(self, *more: str) -> str:
        base = ["grant", "--key", self.key("delegator"), "--tenant", "t1", "--from", "ana@t1.example.com"]
        base += ["--to", "support-bot", "--method", REFUND, "--operation", "refund", "--resource", "order"]
        return self.run(*base, "--max-tier", "4", "--autonomy", "full", "--max-cost", "USD:10000", *more)

    def narrow(self, parent: str, *more: str, key: str = "delegator-support-bot", fails: bool = False) -> str:
        words = ["narrow", parent, "--key", self.key(key), "--to", "refund-bot", *more]
        return self.run(*words, fails=fails)


@pytest.fixture
def desk(ground: Ground) -> Desk:
    agents = ["support-bot", "refund-bot"]
    ground.keys = make_dev_keys(
        ground.keys_dir, ENV, ["finance"], agents, TRUST_DOMAIN_DEV, approvers=APPROVERS
    )
    return Desk(ground)


@pytest_asyncio.fixture
async def house(ground: Ground, desk: Desk) -> AsyncIterator[House]:
    first = desk.grant()
    last = desk.narrow(first, "--resource", "order:O1", "--max-cost", "USD:6000")
    (ground.policy / "tasks.yaml").write_text(
        "tasks:\n"
        '  task_789: {agent: refund-bot, caller: agent/refund-bot, principal: "ana@t1.example.com",'
        f" tenant: t1, delegation: {last}}}\n"
        '  task_gone: {agent: refund-bot, caller: agent/refund-bot, principal: "ana@t1.example.com",'
        f" tenant: t1, delegation: {'0' * 32}}}\n"
        '  task_other: {agent: refund-bot, caller: agent/refund-bot, principal: "ben@t2.example.com",'
        f" tenant: t1, delegation: {last}}}\n"
    )
    made = await furnish(ground, delegations_dir=desk.directory)
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.asyncio
async def test_call_within_the_chain_gets_a_permit_that_names_every_link(house: House, desk: Desk) -> None:
    response = await house.decide()
    assert response.decision == DECISION_TYPE_ALLOW
    rows = json.loads(desk.run("show", "--json"))
    assert list(house.permit(response).delegations) == [row["id"] for row in rows]
    [event] = await house.decisions()
    assert list(event.delegations) == [row["id"] for row in rows]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("body", "task"),
    [
        (refund("O2"), "task_789"),  # only O1 was handed down
        (refund(minor=6001), "task_789"),  # less than the first link, more than the last
        (refund(), "task_gone"),
        (refund(), "task_other"),  # it is Ana's
    ],
)
async def test_call_outside_the_chain_is_denied(house: House, body: bytes, task: str) -> None:
    response = await house.decide(body, task_id=task)
    assert response.decision == DECISION_TYPE_DENY
    assert response.refusal.reason == "DELEGATION_EXCEEDED"


@pytest.mark.negative(35)
@pytest.mark.asyncio
async def test_revoked_parent_stops_the_next_decision(house: House, desk: Desk) -> None:
    assert (await house.decide(call_id="before")).decision == DECISION_TYPE_ALLOW
    first, last = (row["id"] for row in json.loads(desk.run("show", "--json")))
    assert desk.run("revoke", first).split() == [first, last]
    response = await house.decide(call_id="after")
    assert response.decision == DECISION_TYPE_DENY
    assert response.refusal.reason == "DELEGATION_EXCEEDED"
    assert (desk.directory / "revoked" / f"{first}.delegation").is_file()


@pytest.mark.negative(36)
@pytest.mark.parametrize(
    ("wider", "twin"),
    [
        (("--max-cost", "USD:10001"), ("--max-cost", "USD:10000")),
        (("--resource", "orders"), ("--resource", "order:O1")),
        (("--max-tier", "5"), ("--max-tier", "4")),
        (("--hours", "2"), ("--hours", "1", "--max-calls", "1")),
        (("--operation", "*"), ("--operation", "refund")),
    ],
)
def test_wider_link_is_not_written_and_its_twin_is(
    desk: Desk, wider: tuple[str, ...], twin: tuple[str, ...]
) -> None:
    first = desk.grant("--hours", "1") if wider[0] != "--hours" else desk.grant()
    if wider[0] == "--hours":
        assert "not_after" in desk.narrow(first, *wider, fails=True)
    else:
        assert "not within its parent's" in desk.narrow(first, *wider, fails=True)
        desk.narrow(first, *twin)
    assert len(list(desk.directory.glob("*.delegation"))) == (1 if wider[0] == "--hours" else 2)


def test_agents_key_cannot_hand_down_for_a_person(desk: Desk) -> None:
    words = ["grant", "--tenant", "t1", "--from", "ana@t1.example.com", "--to", "refund-bot"]
    told = desk.run(*words, "--key", desk.key("delegator-support-bot"), fails=True)
    assert "does not speak for" in told
    first = desk.grant()
    assert "does not speak for" in desk.narrow(first, key="delegator-refund-bot", fails=True)


def test_tree_shows_who_has_what_from_whom(desk: Desk) -> None:
    first = desk.grant()
    last = desk.narrow(first)
    lines = desk.run("show").splitlines()
    assert lines[0].startswith(f"{first}  ana@t1.example.com → support-bot")
    assert lines[1].startswith(f"  {last}  support-bot → refund-bot")


def test_wrong_words_are_told(desk: Desk, tmp_path: Path) -> None:
    assert "CURRENCY:MINOR_UNITS" in desk.narrow(desk.grant(), "--max-cost", "USD", fails=True)
    assert "is not in" in desk.run("revoke", "0" * 32, fails=True)
    assert "not in the registry" in desk.narrow("0" * 32, fails=True)


def test_registry_reads_again_what_changed_and_leaves_out_what_is_no_link(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry(desk.directory)
    first = desk.grant()
    assert set(registry.links) == {first}
    (desk.directory / f"{'e' * 32}.delegation").write_bytes(b"no link")
    (desk.directory / f"{'f' * 32}.delegation").write_bytes(
        (desk.directory / f"{first}.delegation").read_bytes()
    )
    assert set(registry.links) == {first}
    assert len([record for record in caplog.records if "unreadable" in record.getMessage()]) == 2
    desk.run("revoke", first)
    assert not registry.links
    assert not Registry(None).links


def test_ring_of_links_is_no_chain(desk: Desk) -> None:
    first = desk.grant()
    links, _ = read_links(desk.directory)
    message = delegation_pb2.Delegation.FromString(links[first].payload)
    message.parent_id = first
    ring = {first: Signed(payload=message.SerializeToString())}
    assert isinstance(signed_chain(ring, first), Refusal)
    assert signed_chain(links, first) == (links[first],)


def test_decider_does_not_start_on_a_registry_with_a_fault(ground: Ground, desk: Desk) -> None:
    def registry(directory: Path) -> Path | None:
        return read_delegations(ground.settings("", delegations_dir=directory))

    bad = desk.directory / f"{'e' * 32}.delegation"
    bad.write_bytes(b"no link")
    with pytest.raises(ValueError, match="no signed artifact"):
        registry(desk.directory)
    with pytest.raises(ValueError, match="is no directory"):
        registry(ground.directory / "nowhere")
    bad.unlink()
    assert registry(desk.directory) == desk.directory
