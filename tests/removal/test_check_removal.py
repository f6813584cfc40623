"""No check of the door can go missing unnoticed: docs/check-removal.md, run."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from licet.permit import Permit
from licet.permit.checks import CHECKS
from tests.removal.without_check import HOLLOW, without
from tests.worlds.permit_flaws import FLAWS, LAWFUL

SCRIPT = runpy.run_path(
    str(Path(__file__).parents[2] / "scripts" / "check_removal.py"), run_name="check_removal"
)
REMOVALS: list[Any] = SCRIPT["removals"]()
BY_NAME = {flaw.name: flaw for flaw in FLAWS}


def test_table_has_every_check_in_order() -> None:
    assert [removal.check for removal in REMOVALS] == [check.__name__ for check in CHECKS]
    assert {removal.check for removal in REMOVALS if removal.how == "hollowed"} == set(HOLLOW)


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


@pytest.mark.parametrize("removal", REMOVALS, ids=lambda removal: removal.check)
def test_removal_turns_the_named_test_red(removal: Any) -> None:
    assert SCRIPT["noticed"](removal)


def test_named_tests_are_green_with_every_check_in_place() -> None:
    """Else a test that is red anyway would notice everything."""
    assert SCRIPT["run"]([removal.test for removal in REMOVALS]) == 0
