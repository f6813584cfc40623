from pathlib import Path

import pytest

from tests.worlds.charts import Helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm.prepare(Path(tmp_path_factory.mktemp("charts")))
