"""Every case that `licet demo` shows, one test each: what the caller got, the tool counted, the ledger has,
and what stands in ClickHouse and in the trace, all of it exact, for the attack and for its lawful twin.
"""

from collections.abc import Callable

import pytest

from examples.refund.demo import evidence
from examples.refund.demo.attempt import Case
from examples.refund.demo.cases import CASES, run
from examples.refund.demo.house import House
from examples.refund.demo.play import Play
from tests.e2e.negative_rows import ROWS

pytestmark = pytest.mark.timeout(180)

_played: list[Case] = []


def _parameter(case: Callable[[Play], None]) -> object:
    marks = [pytest.mark.negative(row) for row in ROWS.get(case.__name__, ())]
    return pytest.param(case, id=case.__name__, marks=marks)


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_case_ends_as_expected_in_reply_tool_ledger_store_and_trace(
    house: House, case: Callable[[Play], None]
) -> None:
    played = run(case, house)
    evidence.read_all(house, [played])
    _played.append(played)
    for attempt in played.attempts:
        assert attempt.differences() == (), attempt.label


def test_nothing_came_later_for_any_case(house: House) -> None:
    """Exactly one event means one for ever: a late duplicate must not hide behind an early look."""
    assert _played, "runs after the cases"
    for case in _played:
        for attempt in case.attempts:
            evidence.read_one(house, attempt)
            assert attempt.differences() == (), f"{case.name}: {attempt.label}"


def test_rows_are_of_cases_that_are_played() -> None:
    assert set(ROWS) <= {case.__name__ for case in CASES}


def test_every_attack_has_a_lawful_twin() -> None:
    """An attack that fails proves nothing if the lawful call beside it fails too."""
    for case in _played:
        assert any(attempt.lawful for attempt in case.attempts), case.name


def test_whole_audit_of_the_cases_is_sound(house: House) -> None:
    """After forged permits, restarts, wiped disks and an outage: every chain, checkpoint and column."""
    sound, said = house.verify()
    assert sound, said
