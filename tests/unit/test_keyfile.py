"""Key files: one line of hex, private, and errors that never show what is in them."""

from pathlib import Path

import pytest

from licet.keyfile import KeyFileError, read_public, read_secret, read_signed, read_signing_key, write_secret
from licet.statement import SigningKey

SECRET = bytes(range(32))


def test_a_secret_comes_back_and_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "spend-finance.key"
    write_secret(path, SECRET)
    assert read_secret(path) == SECRET
    assert read_signing_key(path).key_id == "spend-finance"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_secret(path, bytes(32))
    assert read_secret(path) == SECRET
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_what_only_the_owner_and_its_group_may_read_is_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "k.key"
    write_secret(path, SECRET)
    path.chmod(mode)
    assert read_secret(path) == SECRET


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o620, 0o602, 0o666, 0o777])
def test_what_others_may_read_or_anybody_else_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "k.key"
    write_secret(path, SECRET)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_secret(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"00" * 31,
        b"00" * 33,
        b"zz" * 32,
        b" " + b"00" * 32,
        b"00" * 32 + b"\n\n",
        b"0x" + b"00" * 31,
        b"00" * 32 + b" ",
        b"00" * 32 + b"  decider",
        b"00" * 32 + b" two words",
        b"00" * 32 + b" ../decider",
        b"00" * 32 + b" " + b"k" * 129,
    ],
)
def test_a_file_that_is_no_key_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "k.key"
    path.write_bytes(content)
    path.chmod(0o600)
    for read in (read_secret, read_public):
        with pytest.raises(KeyFileError) as refused:
            read(path)
        assert "64 hex digits" in str(refused.value)
        assert content.strip().decode() not in str(refused.value).partition("must")[2] or not content.strip()


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_line_ends_do_not_matter(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "k.pub"
    path.write_bytes(SECRET.hex().upper().encode() + end)
    assert read_public(path) == SECRET


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for read in (read_secret, read_public, read_signed):
        with pytest.raises(KeyFileError, match="none"):
            read(tmp_path / "none")


def test_what_is_no_signed_artifact_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keyset.signed"
    path.write_bytes(b"\xff\xff\xff")
    with pytest.raises(KeyFileError, match="no signed artifact"):
        read_signed(path)


def test_a_key_may_have_an_id_of_its_own_behind_its_digits(tmp_path: Path) -> None:
    path = tmp_path / "decider.key"
    write_secret(path, SECRET, "decider-2")
    assert read_secret(path) == SECRET
    assert read_signing_key(path).key_id == "decider-2"
    assert read_signing_key(path).public_key == SigningKey.from_seed("decider", SECRET).public_key


@pytest.mark.parametrize("mode", [0o646, 0o666, 0o602])
def test_a_public_key_that_everybody_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    """Whoever names the root key is believed in everything."""
    path = tmp_path / "root.pub"
    path.write_text(SECRET.hex())
    path.chmod(mode)
    with pytest.raises(KeyFileError, match="everybody may write"):
        read_public(path)
    for lawful in (0o400, 0o444, 0o644, 0o664):
        path.chmod(lawful)
        assert read_public(path) == SECRET
