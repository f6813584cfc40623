"""Parts of a replicated house are killed while calls run: no effect without a spend, each counted once."""

import licet.embedded  # noqa: F401, I001 - before grpc

import random
import sys
import time
from pathlib import Path

import pytest

from examples.refund.demo.wire import OK
from licet.embedded.process import Process
from tests.worlds.chaos import (
    Killer,
    ReplicatedHouse,
    Tasks,
    figures,
    open_rounds,
    run_load,
    settle,
    until_all_known,
    verified,
    violations,
)

KILLS = 10
"""The run ends with them and with every part's first, not by the clock; minutes of kills are the soak's."""
ORDERS = 6_000
"""As many as a machine that is so busy that the kills take five minutes may use."""
SHOWN = 100
"""Effects that a run must have had to show anything."""
FENCED_WITHIN_S = 300
"""A fence waits 5 s after the permit's end, and the reconciler needs its turns."""
pytestmark = pytest.mark.timeout(1_200)


def test_kills_under_load_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    with ReplicatedHouse(tmp_path / "h", orders=ORDERS) as house:
        tasks, killer = Tasks(house), Killer(house, seed, at_least=KILLS)
        load = run_load(house, 0, killer, tasks)
        settle(house, load)
        records, late_s = until_all_known(house, tasks.last_end, FENCED_WITHIN_S)
        print(figures(records, load, killer, late_s))  # noqa: T201 - as above
        records = settle(house, load)
        sound, said = verified(house)
    assert violations(records, load) == ()
    assert open_rounds(records) == set(), f"outcomes unknown {late_s:.0f} s after the last permit's end"
    assert sound, said
    assert set(killer.killed) == killer.parts
    assert killer.killed.total() >= KILLS
    assert load.ended[OK] >= SHOWN, "so many calls failed that the run shows little"


def test_a_sidecar_that_does_not_reserve_is_found_out(tmp_path: Path) -> None:
    """The checks above must be able to fail: the same run with the reserve taken out breaks them."""
    with ReplicatedHouse(tmp_path / "h", orders=400) as house:
        for name in [one for one in house.stack.processes if one.startswith("sidecar-")]:
            sound = house.stack.processes[name]
            sound.stop()
            house.stack.layout.health_port_file(name).unlink()
            house.stack.processes[name] = _without_reserve(sound)
            house.stack.restart(name)
        load = run_load(house, 5, lambda end: time.sleep(end - time.monotonic()), Tasks(house))
        records = settle(house, load, within_s=5)
    assert records.exec_rows, "nothing ran, so nothing was found out"
    assert "EXEC within reserves" in violations(records, load)


def _without_reserve(sound: Process) -> Process:
    return Process(
        sound.name,
        (sys.executable, "-m", "tests.worlds.sidecar_without_reserve", "sidecar", "serve"),
        log=sound._log,
        environment={**sound._environment, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        ready=sound._ready,
    )
