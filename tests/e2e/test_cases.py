"""Every case that `licet demo` shows, one test each: what the caller got, the tool counted, the ledger has,
and what stands in ClickHouse and in the trace, all of it exact, for the attack and for its lawful twin.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

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


def explained(house: House, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "licet", "explain", *words, "--json"]
    environment = {**os.environ, **house.stack.audit_environment()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_recorded_calls_are_explained_from_the_store(house: House) -> None:
    """A denial names its rule; its lawful twin, by its call, answers every question with yes."""
    stopped = explained(house, "last", "--denied")
    assert stopped["decision"] in {"deny", "hold", "failed"}
    assert {"yes"} != {answer["answer"] for answer in stopped["answers"]}
    rows = [
        row
        for case in _played
        for attempt in case.attempts
        for row in attempt.seen.rows
        if row["kind"] == "decision.allowed" and row["agent"] != "decider"
    ]
    found = explained(house, rows[0]["decision_id"])
    assert {answer["answer"] for answer in found["answers"]} == {"yes"}
    by_call = explained(house, found["call"].split()[0])
    assert by_call["call"] == found["call"]
