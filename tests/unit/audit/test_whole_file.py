"""A file that people keep is there whole, or not at all, and never in another's place."""

import os
from pathlib import Path

import pytest

from audit.whole_file import new_file


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_file_has_its_name_only_once_it_is_whole(tmp_path: Path) -> None:
    with new_file(tmp_path / "out") as file:
        file.write("a")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out").read_text() == "a"
    assert names(tmp_path) == ["out"]


def test_writing_that_was_interrupted_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError), new_file(tmp_path / "out", 0o600) as file:
        file.write("a" * 100_000 + "\ud800")
    assert names(tmp_path) == []


def test_file_that_is_there_is_never_replaced_even_if_it_comes_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError), new_file(tmp_path / "out"):
        (tmp_path / "out").write_text("theirs")
    with pytest.raises(FileExistsError), new_file(tmp_path / "out"):
        pass
    assert (tmp_path / "out").read_text() == "theirs"
    assert names(tmp_path) == ["out"]


def test_medium_without_links_gets_the_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    with new_file(tmp_path / "out") as file:
        file.write("a")
    assert (tmp_path / "out").read_text() == "a"
    assert names(tmp_path) == ["out"]
