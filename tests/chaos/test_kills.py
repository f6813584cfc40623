"""Parts are killed while calls run: no effect without a spend, no spend off the record, each counted once."""

import licet.embedded  # noqa: F401, I001 - before grpc

import random
import sys
from pathlib import Path

import pytest

from examples.refund.demo.house import House
from examples.refund.demo.wire import OK
from licet.embedded.process import Process
from tests.worlds.chaos import CALLS_PER_S, Killer, run_load, settle, violations

SECONDS = 60
KILLS = 12
pytestmark = pytest.mark.timeout(300)


def test_kills_under_load_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    with House(tmp_path / "h", orders=SECONDS * CALLS_PER_S + 100) as house:
        killer = Killer(house, seed, KILLS)
        load = run_load(house, SECONDS, killer)
        print(f"killed {dict(killer.killed)}, steps ended {dict(load.ended)}")  # noqa: T201 - as above
        records = settle(house, load)
        sound, said = house.verify()
    assert violations(records, load) == ()
    assert sound, said
    assert killer.killed.total() >= 10
    assert set(killer.killed) == set(Killer.PARTS)
    assert load.ended.total() >= SECONDS * CALLS_PER_S
    assert load.ended[OK] > load.ended.total() / 2, "so many calls failed that the run shows little"


def test_a_sidecar_that_does_not_reserve_is_found_out(tmp_path: Path) -> None:
    """The checks above must be able to fail: the same run with the reserve taken out breaks them."""
    with House(tmp_path / "h", orders=400) as house:
        for name in [one for one in house.stack.processes if one.startswith("sidecar-")]:
            sound = house.stack.processes[name]
            sound.stop()
            house.stack.layout.health_port_file(name).unlink()
            house.stack.processes[name] = _without_reserve(sound)
            house.stack.restart(name)
        load = run_load(house, 5, lambda _end: None)
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
