"""Development keys: complete, stable, private, and one role each."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from licet.call.digest import tool_key
from licet.cli import app
from licet.embedded.dev_keys import make_dev_keys
from licet.identity import TRUST_DOMAIN_DEV, agent_id, audience_of, decider_id, sidecar_id
from licet.keyfile import KeyFileError, read_public, read_secret, read_signed, read_signing_key
from licet.keys import KeyRole, KeySet, read_keyset
from licet.statement import ROLE_OF_SLOT, PayloadType, verify

TOOLS = ("finance", "crm")
NOW_MS = 1_800_000_000_000


def make(directory: Path, tools: tuple[str, ...] = TOOLS, **more: object) -> KeySet:
    return make_dev_keys(directory, "dev", tools, ("refund-bot",), TRUST_DOMAIN_DEV, now_ms=NOW_MS, **more)  # type: ignore[arg-type]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_every_key_of_the_house_is_there_with_its_role_and_owner(tmp_path: Path) -> None:
    keys = make(tmp_path, approvers={"lena": ("finance-lead",)})
    roles = {
        "decider": KeyRole.DECIDER,
        "beacon": KeyRole.BEACON,
        "bundle": KeyRole.BUNDLE,
        "catalog": KeyRole.CATALOG,
        "task": KeyRole.TASK,
        "spend-finance": KeyRole.SPEND,
        "checkpoint-decider": KeyRole.CHECKPOINT,
        "checkpoint-sidecar-finance": KeyRole.CHECKPOINT,
        "checkpoint-audit": KeyRole.CHECKPOINT,
        "checkpoint-reconciler": KeyRole.CHECKPOINT,
        "delegator-refund-bot": KeyRole.DELEGATOR,
        "approver-lena": KeyRole.APPROVER,
    }
    assert {key_id: keys.keys[key_id].role for key_id in roles} == roles
    assert keys.keys["decider"].owner == decider_id(TRUST_DOMAIN_DEV, "dev")
    assert keys.keys["spend-finance"].owner == sidecar_id(TRUST_DOMAIN_DEV, "dev", "finance")
    assert keys.keys["spend-finance"].audience == audience_of(TRUST_DOMAIN_DEV, "dev", "finance")
    assert keys.keys["delegator-refund-bot"].owner == agent_id(TRUST_DOMAIN_DEV, "dev", "refund-bot")
    assert keys.keys["approver-lena"].approver_roles == ("finance-lead",)
    assert "root" not in keys.keys


def test_each_file_is_the_private_half_of_its_key(tmp_path: Path) -> None:
    keys = make(tmp_path)
    for key_id, key in keys.keys.items():
        signing = read_signing_key(tmp_path / f"{key_id}.key")
        assert (signing.key_id, signing.public_key) == (key_id, key.public_key)
    signed = read_signing_key(tmp_path / "decider.key").sign(PayloadType.PERMIT, b"permit")
    assert verify(PayloadType.PERMIT, signed, keys, now_ms=NOW_MS) == b"permit"


def test_a_tenant_gets_a_payload_key_that_signs_nothing(tmp_path: Path) -> None:
    keys = make(tmp_path, tenants=("t1",))
    key = keys.keys["payload-t1"]
    assert (key.role, key.owner, key.audience) == (KeyRole.PAYLOAD, "t1", "")
    assert key.role not in ROLE_OF_SLOT.values()
    with pytest.raises(ValueError, match="t 1"):
        make(tmp_path, tenants=("t 1",))


def test_the_key_set_is_the_roots(tmp_path: Path) -> None:
    keys = make(tmp_path)
    read = read_keyset(
        read_signed(tmp_path / "keyset.signed"), read_public(tmp_path / "root.pub"), environment="dev"
    )
    assert read == keys


def test_a_tool_key_is_derived_from_the_master(tmp_path: Path) -> None:
    make(tmp_path)
    audience = audience_of(TRUST_DOMAIN_DEV, "dev", "crm")
    assert read_secret(tmp_path / "tool-crm.key") == tool_key(
        read_secret(tmp_path / "master.key"), audience, 1
    )


def test_a_second_run_changes_no_byte(tmp_path: Path) -> None:
    make(tmp_path)
    before = contents(tmp_path)
    assert make(tmp_path).version == 1
    assert contents(tmp_path) == before


def test_a_new_tool_adds_keys_and_a_version_and_changes_no_other_key(tmp_path: Path) -> None:
    before = make(tmp_path)
    after = make(tmp_path, (*TOOLS, "mail"))
    assert after.version == 2
    assert {key_id: after.keys[key_id] for key_id in before.keys} == dict(before.keys)
    assert after.keys.keys() - before.keys.keys() == {"spend-mail", "checkpoint-sidecar-mail"}


def test_a_key_no_longer_asked_for_stays(tmp_path: Path) -> None:
    make(tmp_path)
    assert "spend-crm" in make(tmp_path, ("finance",)).keys


def test_a_lost_key_is_made_anew_under_a_new_version(tmp_path: Path) -> None:
    before = make(tmp_path)
    (tmp_path / "beacon.key").unlink()
    after = make(tmp_path)
    assert after.version == 2
    assert after.keys["beacon"].public_key != before.keys["beacon"].public_key


def test_secrets_are_private_and_the_directory_says_what_it_is(tmp_path: Path) -> None:
    directory = tmp_path / "keys"
    make(directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.glob("*.key")} == {0o600}
    assert (directory / "README").read_text().startswith("DEVELOPMENT ONLY")
    assert not list(directory.glob(".*"))


def test_keys_of_another_environment_are_not_mixed_in(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(KeyFileError, match="environment"):
        make_dev_keys(tmp_path, "staging", TOOLS, (), TRUST_DOMAIN_DEV)


def test_a_foreign_root_is_noticed(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "root.key").unlink()
    with pytest.raises(KeyFileError, match="not the public half"):
        make(tmp_path)


@pytest.mark.parametrize("tool", ["a.b", "*", "", "A"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, tool: str) -> None:
    with pytest.raises(ValueError):
        make(tmp_path, (tool,))


def test_commands_make_show_and_check_and_print_no_secret(tmp_path: Path) -> None:
    run = CliRunner()
    place = ["--keys-dir", str(tmp_path)]
    made = run.invoke(app, ["keys", "dev", *place, "--tool", "finance"])
    assert made.exit_code == 0, made.output
    shown = run.invoke(app, ["keys", "show", *place, "--json"])
    assert json.loads(shown.stdout)["version"] == 1
    assert run.invoke(app, ["keys", "check", *place]).exit_code == 0
    secrets = [path.read_text().strip() for path in tmp_path.glob("*.key")]
    assert not any(secret in shown.output + made.output for secret in secrets)
    (tmp_path / "beacon.key").write_text(secrets[0] + "\n")
    (tmp_path / "decider.key").chmod(0o644)
    wrong = run.invoke(app, ["keys", "check", *place])
    assert wrong.exit_code == 1
    assert "not the private half of key `beacon`" in wrong.stdout
    assert "chmod 600" in wrong.stdout
    assert run.invoke(app, ["keys", "show", "--keys-dir", str(tmp_path / "none")]).exit_code == 1
