"""Ceilings pass only what each constraint alone passes and one of them speaks of; none raises."""

from google.protobuf.message import DecodeError
from seeds import PROTOS, requests_of

from licet.call import Arguments, compile_plan, walk
from licet.ceilings import check_ceilings, check_constraint
from licet.refusal import Refusal
from licet.v1.catalog_pb2 import Money
from licet.v1.decision_pb2 import Constraint, ConstraintOp, Decision
from licet.v1.statement_pb2 import Scalar

INSTRUMENT = ["licet.call", "licet.ceilings"]


PLAN = compile_plan(
    (PROTOS / "requests.binpb").read_bytes(), "vectors.v1.Refund", ["vectors.v1.Item", "vectors.v1.Refund"]
)
MONEY = Money(amount="amount.amount_minor", currency="amount.currency")
LAWFUL = Decision(
    ceilings=[
        Constraint(path=["order_id"], op=ConstraintOp.CONSTRAINT_OP_EQ, values=[Scalar(text="O1")]),
        Constraint(
            path=["amount", "amount_minor"], op=ConstraintOp.CONSTRAINT_OP_LE, values=[Scalar(integer=5000)]
        ),
        Constraint(
            path=["amount", "amount_minor"], op=ConstraintOp.CONSTRAINT_OP_GE, values=[Scalar(integer=1)]
        ),
        Constraint(
            path=["amount", "currency"], op=ConstraintOp.CONSTRAINT_OP_EQ, values=[Scalar(text="USD")]
        ),
    ]
).SerializeToString()


def seeds() -> list[bytes]:
    head = len(LAWFUL).to_bytes(2, "big") + LAWFUL
    return [head + request for request in requests_of("digest") if len(request) < 200]


def check(data: bytes) -> None:
    """Two bytes of length, a Decision with ceilings, a request."""
    length = int.from_bytes(data[:2], "big")
    try:
        constraints = Decision.FromString(data[2 : 2 + length]).ceilings
    except DecodeError:
        return
    arguments = walk(PLAN, data[2 + length :])
    if isinstance(arguments, Refusal):
        return
    assert isinstance(arguments, Arguments)
    for money in (None, MONEY):
        result = check_ceilings(constraints, arguments, money)
        if result is not None:
            assert isinstance(result, Refusal)
            continue
        assert constraints
        assert all(check_constraint(one, arguments) is None for one in constraints)
        assert {path for path, _ in arguments.leaves()} <= {tuple(one.path) for one in constraints}
