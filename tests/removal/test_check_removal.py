"""No check of the door can go missing unnoticed: docs/check-removal.md, run."""

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from licet.permit import Permit
from licet.permit.checks import CHECKS
from tests.removal.without_check import HOLLOW, STEPS, Line, without
from tests.worlds.permit_flaws import FLAWS, LAWFUL

PATH = Path(__file__).parents[2] / "scripts" / "check_removal.py"
SCRIPT = runpy.run_path(str(PATH), run_name="check_removal")
REMOVALS: list[Any] = SCRIPT["removals"]()
STEP_REMOVALS: list[Any] = SCRIPT["steps"]()
BY_NAME = {flaw.name: flaw for flaw in FLAWS}


def test_table_has_every_check_in_order() -> None:
    assert [removal.check for removal in REMOVALS] == [check.__name__ for check in CHECKS]
    assert {removal.check for removal in REMOVALS if removal.how == "hollowed"} == set(HOLLOW)


def test_table_has_every_step_that_no_check_makes_in_order() -> None:
    assert [removal.check for removal in STEP_REMOVALS] == list(STEPS)
    assert sorted(
        {int(name.split("_")[1]) for name in [*STEPS, *(check.__name__ for check in CHECKS)]}
    ) == list(range(1, 15)), "every number of the protocol"


def test_line_that_is_not_there_is_no_removal() -> None:
    with pytest.raises(ValueError, match="not the one line"):
        Line(Line, "rewritten", "no such line", "").rewritten()


def fate(removal: Any) -> str:
    """What becomes of the flawed call, and of a lawful one, without the check."""
    flaw = BY_NAME[removal.flaw]
    assert flaw.check == removal.check
    with without(removal.check):
        try:
            LAWFUL.examine()
            return "passes" if isinstance(flaw.scene.examine(), Permit) else "other check"
        except AttributeError:
            return "nothing passes"


@pytest.mark.parametrize("removal", REMOVALS, ids=lambda removal: removal.check)
def test_without_its_check_the_flawed_call_meets_the_fate_of_the_table(removal: Any) -> None:
    assert fate(removal) == removal.then


def test_every_check_is_back_after_a_removal() -> None:
    with pytest.raises(ValueError, match="no check"), without("check_99_nothing"):
        pass
    assert not isinstance(BY_NAME["amount_51"].scene.examine(), Permit)


@pytest.mark.timeout(300)
def test_every_removal_turns_its_named_test_red() -> None:
    """The script says no, too, if a named test is red with every check in place: that notices anything."""
    done = subprocess.run([sys.executable, str(PATH)], capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    rows = [*REMOVALS, *STEP_REMOVALS]
    assert lines == [[removal.check, "noticed", removal.flaw] for removal in rows], done.stderr
    assert done.returncode == 0


def test_check_that_is_in_no_table_is_said_to_be_none() -> None:
    command = [sys.executable, str(PATH), "check_99_nothing"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
