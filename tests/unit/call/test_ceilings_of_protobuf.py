"""Ceilings over protobuf's own kinds of values: 64 bit integers, enums, bytes, maps, Any."""

from typing import Any

import pytest

from licet.call import Arguments, walk
from licet.ceilings import check_ceilings
from licet.refusal import Reason, Refusal
from licet.v1.decision_pb2 import Constraint, ConstraintOp
from licet.v1.statement_pb2 import Scalar

INT64 = (-(2**63), 2**63 - 1)


def constraint(path: str, op: str, *values: Scalar) -> Constraint:
    return Constraint(path=path.split("."), op=ConstraintOp.Value(f"CONSTRAINT_OP_{op}"), values=values)


def reason(samples: Any, body: bytes, *constraints: Constraint) -> Reason | None:
    arguments = walk(samples.refund, body)
    assert isinstance(arguments, Arguments), arguments
    refusal = check_ceilings(constraints, arguments, None)
    assert refusal is None or isinstance(refusal, Refusal)
    return None if refusal is None else refusal.reason


@pytest.mark.negative(20)
@pytest.mark.parametrize("limit", [*INT64, 0, 2**53, -(2**53), 2**53 + 1])
def test_integers_are_exact_to_the_limits_of_64_bits(samples: Any, wire: Any, limit: int) -> None:
    """As doubles, 2^53 + 1 is 2^53 and 2^63 - 1 is 2^63."""
    for value in {limit - 1, limit, limit + 1}:
        if INT64[0] <= value <= INT64[1] and value != 0:
            body = wire.data(2, wire.number(1, value))
            at_most = constraint("amount.amount_minor", "LE", Scalar(integer=limit))
            at_least = constraint("amount.amount_minor", "GE", Scalar(integer=limit))
            assert reason(samples, body, at_most) is (None if value <= limit else Reason.CEILING_EXCEEDED)
            assert reason(samples, body, at_least) is (None if value >= limit else Reason.CEILING_EXCEEDED)


def test_unsigned_integers_are_exact_and_compare_with_signed_operands(samples: Any, wire: Any) -> None:
    body = wire.number(15, 2**64 - 1)
    assert reason(samples, body, constraint("big", "LE", Scalar(unsigned=2**64 - 1))) is None
    below = constraint("big", "LE", Scalar(unsigned=2**64 - 2))
    assert reason(samples, body, below) is Reason.CEILING_EXCEEDED
    assert reason(samples, body, constraint("big", "LE", Scalar(integer=-1))) is Reason.CEILING_EXCEEDED


def test_enum_number_has_a_name_and_no_order(samples: Any, wire: Any) -> None:
    body = wire.number(8, 2)
    assert reason(samples, body, constraint("channel", "EQ", Scalar(integer=2))) is None
    assert reason(samples, body, constraint("channel", "EQ", Scalar(integer=1))) is Reason.CEILING_EXCEEDED
    assert reason(samples, body, constraint("channel", "LE", Scalar(integer=2))) is Reason.CEILING_UNMET
    assert (
        reason(samples, body, constraint("channel", "EQ", Scalar(text="CHANNEL_BANK")))
        is Reason.CEILING_UNMET
    )


def test_bytes_compare_with_bytes(samples: Any, wire: Any) -> None:
    body = wire.data(13, b"ab")
    assert reason(samples, body, constraint("blob", "EQ", Scalar(data=b"ab"))) is None
    assert reason(samples, body, constraint("blob", "EQ", Scalar(text="ab"))) is Reason.CEILING_UNMET
    assert reason(samples, body, constraint("blob", "MAX_LENGTH", Scalar(integer=2))) is None
    assert (
        reason(samples, body, constraint("blob", "MAX_LENGTH", Scalar(integer=1))) is Reason.CEILING_EXCEEDED
    )


@pytest.mark.negative(20)
@pytest.mark.parametrize("path", ["labels", "labels.k"])
def test_map_is_refused_whatever_speaks_of_it(samples: Any, wire: Any, path: str) -> None:
    """Its keys come from the caller."""
    order = constraint("order_id", "EQ", Scalar(text="O1"))
    body = wire.data(1, "O1") + wire.data(5, wire.data(1, "k") + wire.data(2, "v"))
    for op in ("EQ", "PREFIX", "MAX_LENGTH", "MAX_ITEMS"):
        scalar = Scalar(integer=9) if op.startswith("MAX") else Scalar(text="v")
        assert reason(samples, body, order, constraint(path, op, scalar)) is Reason.CEILING_UNMET
    assert reason(samples, body, order) is Reason.CEILING_UNCOVERED
    assert reason(samples, wire.data(1, "O1"), order) is None


def test_content_of_an_any_needs_its_type_covered_too(samples: Any, wire: Any) -> None:
    url = "type.googleapis.com/vectors.v1.Item"
    body = wire.data(10, wire.data(1, url) + wire.data(2, wire.data(1, "s")))
    sku = constraint("extra.sku", "EQ", Scalar(text="s"))
    assert reason(samples, body, sku) is Reason.CEILING_UNCOVERED
    assert reason(samples, body, sku, constraint("extra.@type", "EQ", Scalar(text=url))) is None


@pytest.mark.negative(20)
def test_field_dropped_because_it_has_its_default_is_unmet(samples: Any, wire: Any) -> None:
    """Amount 0 is not on the wire: a ceiling on it meets nothing."""
    currency = constraint("amount.currency", "EQ", Scalar(text="USD"))
    at_most = constraint("amount.amount_minor", "LE", Scalar(integer=5000))
    body = wire.data(2, wire.number(1, 0) + wire.data(2, "USD"))
    assert reason(samples, body, currency, at_most) is Reason.CEILING_UNMET
    lawful = wire.data(2, wire.number(1, 1) + wire.data(2, "USD"))
    assert reason(samples, lawful, currency, at_most) is None
