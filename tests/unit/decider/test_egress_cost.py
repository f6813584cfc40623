"""No text makes the egress check dearer than its length: one slow text would hold up every caller."""

import time

import pytest

from decider.egress import inspect_text

SHORT = 10_000
TIMES_LONGER = 4
QUADRATIC = TIMES_LONGER**2
TEXTS = (
    "a",
    "A",
    "aA",
    ":",
    "0",
    " ",
    "= ",
    "\n",
    "<",
    "${",
    "a.",
    "ab-",
    "1.1.",
    "key=",
    "password for a ",
    "password is a1b2c3d4! ",
    "&#",
    "%",
    "QUJD",
    "f0 ",
)


def cost(text: str) -> float:
    """CPU seconds, the least of three: what else runs on the machine only adds."""
    spent = []
    for _ in range(3):
        begun = time.process_time()
        inspect_text(text)
        spent.append(time.process_time() - begun)
    return min(spent)


@pytest.mark.parametrize("unit", TEXTS)
def test_text_made_to_be_slow_costs_in_proportion_to_its_length(unit: str) -> None:
    """`a` alone once cost quadratically: 70 KB held a decider up for longer than beacons live."""
    short = unit * (SHORT // len(unit))
    assert cost(short * TIMES_LONGER) < cost(short) * QUADRATIC * 0.7
