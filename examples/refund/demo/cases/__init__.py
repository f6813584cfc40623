"""Every case, in the order in which they are played: what disturbs the house most comes last."""

from collections.abc import Callable
from typing import Final

from examples.refund.demo.attempt import Case
from examples.refund.demo.cases import encoding, moment, outage, permit, step
from examples.refund.demo.house import House
from examples.refund.demo.play import Play

CaseFunction = Callable[[Play], None]

CASES: Final[tuple[CaseFunction, ...]] = (
    permit.deny,
    permit.ignored_without_permit,
    permit.ignored_with_signed_denial,
    permit.allow,
    permit.other_amount,
    permit.other_order,
    permit.other_method,
    permit.surface_all_green,
    encoding.unknown_field_at_top,
    encoding.unknown_field_nested,
    encoding.unknown_field_in_a_map,
    encoding.amount_that_merges,
    step.two_replicas_at_once,
    step.restored_checkpoint,
    step.lost_reply,
    step.parallel_branch,
    moment.bundle_superseded,
    moment.bundle_superseded_before_the_transaction,
    moment.expired,
    moment.expired_before_the_transaction,
    outage.empty_disks,
    outage.nats_stopped,
)


def title_of(function: CaseFunction) -> str:
    """Return what a case is called: the first line of its docstring, without the full stop."""
    assert function.__doc__ is not None
    return function.__doc__.splitlines()[0].rstrip(".")


def run(function: CaseFunction, house: House) -> Case:
    """Play one case; its evidence is not read yet."""
    case = Case(function.__name__, title_of(function))
    function(Play(house, case))
    return case
