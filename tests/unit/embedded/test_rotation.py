"""The next key in the place of a current one: both are good for a while, and nothing is lost on the way."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from licet.call.digest import tool_key
from licet.cli import app
from licet.embedded.dev_keys import make_dev_keys
from licet.embedded.rotation import HOUR_MS, next_id, rotate
from licet.identity import TRUST_DOMAIN_DEV, audience_of
from licet.keyfile import KeyFileError, read_public, read_secret, read_signed, read_signing_key
from licet.keys import KeySet, read_keyset
from licet.refusal import Reason, Refusal
from licet.statement import PayloadType, verify

NOW_MS = 1_800_000_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    make_dev_keys(tmp_path, "prod", ("finance",), (), TRUST_DOMAIN_DEV, now_ms=NOW_MS)
    return tmp_path


def keyset(directory: Path) -> KeySet:
    found = read_keyset(
        read_signed(directory / "keyset.signed"), read_public(directory / "root.pub"), environment="prod"
    )
    assert isinstance(found, KeySet)
    return found


def test_both_keys_are_good_until_the_current_ones_time_is_over(directory: Path) -> None:
    before = read_signing_key(directory / "decider.key")
    old, new, keys = rotate(directory, "prod", "decider", overlap_h=2, now_ms=NOW_MS)
    after = read_signing_key(directory / "decider.key")
    assert (old, new, after.key_id, keys.version) == ("decider", "decider-2", "decider-2", 2)
    assert keys == keyset(directory)
    first, second = keys.keys["decider"], keys.keys["decider-2"]
    assert (first.role, first.owner, first.audience) == (second.role, second.owner, second.audience)
    for key in (before, after):
        assert verify(PayloadType.PERMIT, key.sign(PayloadType.PERMIT, b"p"), keys, now_ms=NOW_MS) == b"p"
    late = NOW_MS + 2 * HOUR_MS
    ended = verify(PayloadType.PERMIT, before.sign(PayloadType.PERMIT, b"p"), keys, now_ms=late)
    assert isinstance(ended, Refusal)
    assert ended.reason is Reason.KEY_SCOPE
    assert verify(PayloadType.PERMIT, after.sign(PayloadType.PERMIT, b"p"), keys, now_ms=late) == b"p"


def test_a_key_is_rotated_again_and_again_and_the_rest_stays(directory: Path) -> None:
    others = {key_id for key_id in keyset(directory).keys if key_id != "spend-finance"}
    for number in (2, 3, 4):
        assert rotate(directory, "prod", "spend-finance", now_ms=NOW_MS)[1] == f"spend-finance-{number}"
    assert keyset(directory).keys.keys() == {
        *others,
        *(f"spend-finance{end}" for end in ("", "-2", "-3", "-4")),
    }
    assert not [path.name for path in directory.iterdir() if path.name.startswith(".")]
    made = make_dev_keys(directory, "prod", ("finance",), (), TRUST_DOMAIN_DEV, now_ms=NOW_MS)
    assert made == keyset(directory), "what is there already stays, a rotated key too"


@pytest.mark.parametrize(
    ("taken", "after"),
    [((), "decider-2"), (("decider-2",), "decider-3"), (("decider-2", "decider-3"), "decider-4")],
)
def test_an_id_is_never_given_twice(taken: tuple[str, ...], after: str) -> None:
    assert next_id("decider", taken) == after
    assert next_id("decider-2", taken) == (after if taken else "decider-3")


def test_a_key_that_is_not_of_the_key_set_is_not_rotated(directory: Path) -> None:
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    for name in ("master", "nobody"):
        with pytest.raises(KeyFileError):
            rotate(directory, "prod", name, now_ms=NOW_MS)
    (directory / "root.key").unlink()
    with pytest.raises(KeyFileError, match=r"root\.key"):
        rotate(directory, "prod", "decider", now_ms=NOW_MS)
    del before["root.key"]
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_key_set_that_would_not_hold_is_not_written(directory: Path) -> None:
    before = (directory / "keyset.signed").read_bytes()
    with pytest.raises(KeyFileError, match="never valid"):
        rotate(directory, "prod", "decider", overlap_h=0, now_ms=NOW_MS - 48 * HOUR_MS)
    assert (directory / "keyset.signed").read_bytes() == before
    assert read_signing_key(directory / "decider.key").key_id == "decider"


def test_the_commands_rotate_check_and_derive(tmp_path: Path) -> None:
    directory = tmp_path
    make_dev_keys(directory, "prod", ("finance",), (), TRUST_DOMAIN_DEV)
    told = ["--keys-dir", str(directory), "--environment", "prod"]
    done = CliRunner().invoke(app, ["keys", "rotate", "beacon", *told, "--overlap-hours", "1"])
    assert done.exit_code == 0, done.output
    assert "then `beacon-2`" in done.output
    done = CliRunner().invoke(app, ["keys", "check", *told])
    assert done.exit_code == 0, f"the next key is there, so nothing is to be done: {done.output}"
    assert CliRunner().invoke(app, ["keys", "rotate", "nobody", *told]).exit_code == 1
    done = CliRunner().invoke(app, ["keys", "generation", "2", *told, "--tool", "finance"])
    assert done.exit_code == 0, done.output
    derived = tool_key(
        read_secret(directory / "master.key"), audience_of(TRUST_DOMAIN_DEV, "prod", "finance"), 2
    )
    assert read_secret(directory / "tool-finance.key") == derived
    make_dev_keys(directory, "prod", ("finance",), (), TRUST_DOMAIN_DEV)
    assert read_secret(directory / "tool-finance.key") == derived, "a later generation's key stays"
    done = CliRunner().invoke(app, ["keys", "check", *told])
    assert "is not the private half" not in done.output
