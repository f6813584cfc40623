"""Nobody commits the keys of a data directory by accident, and nobody's own files are hidden."""

import os
import subprocess
from pathlib import Path

import pytest

from licet.embedded.layout import DataLayout
from licet.embedded.own_directory import take_directory
from licet.embedded.process import StartError


def staged(tree: Path) -> set[str]:
    """Return what `git add .` takes."""
    alone = {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    for command in (("init", "-q"), ("add", ".")):
        subprocess.run(("git", *command), cwd=tree, env=alone, check=True, capture_output=True)
    done = subprocess.run(
        ("git", "ls-files"), cwd=tree, env=alone, check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


def take(root: Path) -> None:
    os.close(take_directory(DataLayout(root)))


@pytest.mark.parametrize("there", [False, True])
def test_keys_in_a_new_data_directory_are_not_committed_and_files_beside_it_are(
    tmp_path: Path, there: bool
) -> None:
    data = tmp_path / "data"
    if there:
        data.mkdir()
    take(data)
    (data / "keys").mkdir()
    (data / "keys" / "root.key").write_text("secret")
    (tmp_path / "policy.toml").write_text("")
    assert staged(tmp_path) == {"policy.toml"}


def test_a_directory_that_already_has_files_keeps_what_git_sees_of_it(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("")
    take(tmp_path)
    assert "policy.toml" in staged(tmp_path)


def test_what_a_person_wrote_there_stays_at_the_next_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    take(data)
    (data / ".gitignore").write_text("keys/\n")
    take(data)
    assert (data / ".gitignore").read_text() == "keys/\n"


def test_one_process_has_a_data_directory_and_the_next_once_it_is_free(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path / "data")
    held = take_directory(layout)
    with pytest.raises(StartError, match="in use by another"):
        take_directory(layout)
    os.close(held)
    os.close(take_directory(layout))
