"""The chaos run for ten minutes, until every outcome is known: what stayed open is fenced."""

import licet.embedded  # noqa: F401, I001 - before grpc

import os
import random
import time
from pathlib import Path

import pytest

from examples.refund.demo.house import House
from tests.worlds.chaos import CALLS_PER_S, Killer, Records, read_records, run_load, settle, violations

MINUTES = 10
SECONDS = int(os.environ.get("LICET_SOAK_SECONDS", str(MINUTES * 60)))
KILLS = max(10, SECONDS // 5)
FENCED_WITHIN_S = 240
"""A permit lives 60 s, its fence waits 5 s more, and the reconciler needs its turns."""


@pytest.mark.chaos
@pytest.mark.timeout(SECONDS + 900)
def test_ten_minutes_of_kills_end_with_every_outcome_known(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    with House(tmp_path / "h", orders=SECONDS * CALLS_PER_S + 100) as house:
        killer = Killer(house, seed, KILLS)
        load = run_load(house, SECONDS, killer)
        print(f"killed {dict(killer.killed)}, steps ended {dict(load.ended)}")  # noqa: T201 - as above
        records = settle(house, load)
        assert violations(records, load) == ()
        end = time.monotonic() + FENCED_WITHIN_S
        while (left := open_rounds(records)) and time.monotonic() < end:
            time.sleep(5)
            records = read_records(house)
        records = settle(house, load)
        sound, said = house.verify()
    assert sound, said
    assert not left, f"{len(left)} rounds have no outcome"
    assert violations(records, load) == ()
    assert killer.killed.total() >= KILLS


def open_rounds(records: Records) -> set[tuple[str, int]]:
    """Return the reserves that no outcome closed."""
    ended = {(spend_id, round_) for spend_id, round_, _ in records.outcomes_in_jetstream}
    return set(records.reserves_in_jetstream) - ended
