"""One running house for every test of this folder: the parts of the embedded stack, two sidecars."""

import licet.embedded  # noqa: F401, I001 - before grpc

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.refund.demo.house import House


@pytest.fixture(scope="package")  # ends with the folder: an idle house costs half a core
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory: Path = tmp_path_factory.mktemp("h")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LICET_LOG_LEVEL", "debug")  # what may be logged at all is searched for secrets
        with House(directory / "house") as running:
            yield running
