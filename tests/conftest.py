"""What every test gets: the marker of the folder it lies in."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("licet", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("licet")  # a busy machine is no failure: speed lives in bench/, as ratios

TESTS = Path(__file__).parent
MARKED_FOLDERS = frozenset({"soak", "chaos", "e2e", "conformance"})
"""A test in one of these carries the folder's name as a marker, which nobody can forget to write."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
