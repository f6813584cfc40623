"""The chaos run for ten minutes, until every outcome is known: what stayed open is fenced."""

import licet.embedded  # noqa: F401, I001 - before grpc

import os
import random
from pathlib import Path

import pytest

from examples.refund.demo.wire import OK
from tests.worlds.chaos import (
    Killer,
    LongTask,
    ReplicatedHouse,
    figures,
    open_rounds,
    run_load,
    settle,
    until_all_known,
    verified,
    violations,
)

MINUTES = 10
SECONDS = int(os.environ.get("LICET_SOAK_SECONDS", str(MINUTES * 60)))
ORDERS = 40_000
FENCED_WITHIN_S = 240
"""From the end of the last permit on: a fence waits 5 s more, and the reconciler needs its turns."""


@pytest.mark.chaos
@pytest.mark.timeout(SECONDS + 1_200)
def test_minutes_of_kills_end_with_every_outcome_known(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    with ReplicatedHouse(tmp_path / "h", orders=ORDERS) as house:
        task, killer = LongTask(), Killer(house, seed)
        load = run_load(house, SECONDS, killer, task)
        settle(house, load)
        records, late_s = until_all_known(house, task.last_end, FENCED_WITHIN_S)
        print(figures(records, load, killer, late_s))  # noqa: T201 - as above
        records = settle(house, load)
        sound, said = verified(house)
    assert violations(records, load) == ()
    assert open_rounds(records) == set(), f"outcomes unknown {late_s:.0f} s after the last permit's end"
    assert sound, said
    assert set(killer.killed) == killer.parts
    assert load.ended[OK] > load.ended.total() / 4, "so many calls failed that the run shows little"
