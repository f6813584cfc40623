"""The vectors are append-only: a promise to whoever built on them in another language."""

import re
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
SUMS = dict(reversed(line.split("  ")) for line in (HERE / "SHA256SUMS").read_text().splitlines())
VECTORS = {f"{path.parent.name}/{path.name}": path for path in HERE.glob("*/[0-9][0-9][0-9]_*.json")}


def test_no_vector_was_ever_changed_renamed_or_removed() -> None:
    assert {name: sha256(VECTORS[name].read_bytes()).hexdigest() for name in SUMS} == SUMS


def test_every_vector_has_its_sum() -> None:
    """A new one: `cd tests/vectors; sha256sum FOLDER/NNN_flaw.json >> SHA256SUMS`."""
    assert VECTORS.keys() == SUMS.keys()


def test_page_says_of_every_folder_what_to_do_with_it() -> None:
    told = set(re.findall(r"^\| (\w+) \|", (HERE / "README.md").read_text(), re.MULTILINE)) - {"folder"}
    assert told == {name.partition("/")[0] for name in VECTORS}
