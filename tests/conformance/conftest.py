"""Where the public conformance data lies: LICET_CONFORMANCE_DATA, by default beside the repository."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DATA = Path(os.environ.get("LICET_CONFORMANCE_DATA", Path(__file__).parents[3] / "shared" / "data"))


def lines(name: str) -> Iterator[Any]:
    with (DATA / name).open() as file:
        for line in file:
            yield json.loads(line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give `row` every line of the file that the module names in `ROWS`."""
    name = getattr(metafunc.module, "ROWS", None)
    if "row" not in metafunc.fixturenames or name is None:
        return
    if (DATA / name).is_file():
        rows = list(lines(name))
        metafunc.parametrize("row", rows, ids=[row["id"] for row in rows])
    else:
        skipped = pytest.mark.skip(reason=f"NOT CHECKED: no {DATA / name}; set LICET_CONFORMANCE_DATA")
        metafunc.parametrize("row", [pytest.param(None, marks=skipped)], ids=["no data"])


@pytest.fixture(scope="session")
def data() -> Path:
    folder = DATA / "05-crypto-format"
    if not folder.is_dir():
        pytest.skip(f"NOT CHECKED: no {folder}; set LICET_CONFORMANCE_DATA")
    return folder
