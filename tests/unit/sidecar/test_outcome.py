"""What a tool's status proves of a call's effect, where no guard says it."""

from dataclasses import replace

import pytest

from licet.catalog import Method
from sidecar.exchange import ToolAnswer
from sidecar.outcome import Outcome, outcome_of
from tests.worlds.mint import REFUND, Mint

MADE_BY_GRPC = {1: "cancelled", 2: "unknown", 4: "late", 8: "too large", 13: "broken", 14: "lost"}


@pytest.fixture
def unguarded(mint: Mint) -> Method:
    return replace(
        mint.catalog.methods[REFUND].current, guarded=False, no_effect_codes=frozenset(range(1, 17))
    )


@pytest.mark.parametrize("code", MADE_BY_GRPC, ids=MADE_BY_GRPC.values())
def test_a_status_that_our_own_end_makes_too_proves_nothing(unguarded: Method, code: int) -> None:
    """A reply of more than 16 MiB is RESOURCE_EXHAUSTED, and what it is a reply to has happened."""
    assert outcome_of(unguarded, ToolAnswer(code=code)) is Outcome.UNKNOWN


@pytest.mark.parametrize("code", [3, 5, 6, 7, 9, 10, 11, 12, 15, 16])
def test_a_status_that_the_tool_alone_makes_is_its_word(unguarded: Method, code: int) -> None:
    assert outcome_of(unguarded, ToolAnswer(code=code)) is Outcome.FAILED_NO_EFFECT
    assert (
        outcome_of(replace(unguarded, no_effect_codes=frozenset()), ToolAnswer(code=code)) is Outcome.UNKNOWN
    )
