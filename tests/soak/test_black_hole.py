"""A collector that accepts and never answers, for ten minutes."""

import os

import pytest

from tests.integration.test_black_hole import BlackHole, hold_out, hole

__all__ = ["hole"]
SECONDS = float(os.environ.get("LICET_SOAK_SECONDS", "600"))


@pytest.mark.timeout(SECONDS + 300)
def test_nothing_waits_and_nothing_grows_for_ten_minutes(hole: BlackHole) -> None:
    hold_out(hole, SECONDS)
