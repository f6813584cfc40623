"""A stream of messages cannot be masked, so a permit that demands it lets nothing through."""

from dataclasses import replace

import pytest

from licet.permit import examine
from licet.permit.case import Case
from licet.permit.checks import check_11_obligations
from licet.refusal import Reason, Refusal
from licet.v1.decision_pb2 import Obligation
from tests.worlds import permit as world
from tests.worlds.permit import DOOR, NOW

MASKING = replace(DOOR, obligations=frozenset({"mask_reply"}))


@pytest.mark.parametrize("streams", [True, False])
def test_mask_that_only_the_door_does_is_refused_at_a_stream_and_done_at_a_single_reply(
    streams: bool,
) -> None:
    presented = world.presented()
    permit = examine(presented, DOOR, now_ms=NOW, monotonic_ms=NOW)
    assert not isinstance(permit, Refusal)
    case = Case(presented, MASKING, NOW, NOW)
    case.method = replace(permit.method, server_streaming=streams)
    case.decision = permit.decision
    case.decision.obligations.append(Obligation(id="mask_reply"))
    refusal = check_11_obligations(case)
    assert (refusal.reason if refusal is not None else None) == (
        Reason.OBLIGATION_UNKNOWN if streams else None
    )
