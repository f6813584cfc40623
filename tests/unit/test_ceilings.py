"""Ceilings pass what every constraint speaks of, and nothing else."""

import json
from typing import Any

import pytest

from licet.call import Arguments, compile_schema, read_json
from licet.ceilings import check_ceilings, check_constraint
from licet.refusal import Reason, Refusal
from licet.v1 import decision_pb2
from licet.v1.catalog_pb2 import Money
from licet.v1.decision_pb2 import Constraint, ConstraintOp
from licet.v1.statement_pb2 import Scalar

MONEY = Money(amount="amount.minor", currency="amount.currency")
KINDS = {bool: "flag", int: "integer", str: "text", bytes: "data"}
SCALAR = {"type": ["string", "integer", "number", "boolean", "null"]}
CLOSED = {"type": "object", "additionalProperties": False}
SCHEMA = compile_schema(
    json.dumps(
        CLOSED
        | {
            "properties": {
                "order": SCALAR,
                "note": SCALAR,
                "ratio": SCALAR,
                "amount": CLOSED | {"properties": {"minor": SCALAR, "currency": SCALAR}},
                "items": {
                    "type": "array",
                    "items": CLOSED
                    | {
                        "properties": {
                            "sku": SCALAR,
                            "tags": {"type": "array", "items": SCALAR},
                            "sub": {"$ref": "#"},
                        }
                    },
                },
                "grid": {"type": "array", "items": {"type": "array", "items": SCALAR}},
            }
        }
    )
)


def of(**values: Any) -> Arguments:
    arguments = read_json(SCHEMA, json.dumps(values).encode())
    assert isinstance(arguments, Arguments), arguments
    return arguments


def constraint(path: str, op: str, *values: Any) -> Constraint:
    scalars = [v if isinstance(v, Scalar) else Scalar(**{KINDS[type(v)]: v}) for v in values]
    return Constraint(
        path=path.split(".") if path else [],
        op=ConstraintOp.Value(f"CONSTRAINT_OP_{op}"),
        values=scalars,
    )


ORDER = constraint("order", "EQ", "O1")
AMOUNT = (
    constraint("amount.minor", "GE", 1),
    constraint("amount.minor", "LE", 50_00),
    constraint("amount.currency", "EQ", "USD"),
)
UP_TO_50 = (ORDER, *AMOUNT)
O1_FOR_50 = {"order": "O1", "amount": {"minor": 50_00, "currency": "USD"}}


def reason(constraints: Any, arguments: Arguments, money: Money | None = None) -> Reason | None:
    refusal = check_ceilings(constraints, arguments, money)
    assert refusal is None or isinstance(refusal, Refusal)
    return None if refusal is None else refusal.reason


@pytest.mark.negative(20)
@pytest.mark.parametrize("minor", [1, 49_99, 50_00])
def test_call_within_its_ceilings_passes(minor: int) -> None:
    call = O1_FOR_50 | {"amount": {"minor": minor, "currency": "USD"}}
    assert check_ceilings(UP_TO_50, of(**call), MONEY) is None


@pytest.mark.negative(20)
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"amount": {"minor": 50_01, "currency": "USD"}}, Reason.CEILING_EXCEEDED),
        ({"amount": {"minor": -1, "currency": "USD"}}, Reason.CEILING_EXCEEDED),
        ({"amount": {"minor": 0, "currency": "USD"}}, Reason.CEILING_EXCEEDED),
        ({"amount": {"minor": 50_00, "currency": "JPY"}}, Reason.CEILING_EXCEEDED),
        ({"amount": {"minor": 50_00, "currency": "usd"}}, Reason.CEILING_EXCEEDED),
        ({"order": "O2"}, Reason.CEILING_EXCEEDED),
        ({"amount": {"minor": 50_00}}, Reason.CEILING_UNMET),
        ({"amount": {"currency": "USD"}}, Reason.CEILING_UNMET),
        ({"amount": {"minor": "5000", "currency": "USD"}}, Reason.CEILING_UNMET),
        ({"amount": {"minor": 49.5, "currency": "USD"}}, Reason.CEILING_UNMET),
        ({"amount": {"minor": True, "currency": "USD"}}, Reason.CEILING_UNMET),
        ({"amount": {"minor": None, "currency": "USD"}}, Reason.CEILING_UNMET),
        ({"order": None}, Reason.CEILING_UNMET),
        ({"note": "to another account"}, Reason.CEILING_UNCOVERED),
        ({"note": None}, Reason.CEILING_UNCOVERED),
        ({"ratio": 0.5}, Reason.CEILING_UNCOVERED),
        ({"items": []}, Reason.CEILING_UNCOVERED),
        ({"items": [{}]}, Reason.CEILING_UNCOVERED),
    ],
)
def test_call_outside_its_ceilings_is_refused(change: dict[str, Any], expected: Reason) -> None:
    assert reason(UP_TO_50, of(**(O1_FOR_50 | change)), MONEY) is expected


def test_no_constraint_is_no_permission() -> None:
    assert reason((), of()) is Reason.CEILING_UNCOVERED
    assert reason((), of(order="O1")) is Reason.CEILING_UNCOVERED
    assert reason((ORDER,), of(order="O1")) is None


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_money_needs_floor_ceiling_and_currency(left_out: int) -> None:
    """Whatever the bundle's author forgot."""
    arguments = of(amount={"minor": 1, "currency": "USD"})
    constraints = [one for index, one in enumerate(AMOUNT) if index != left_out]
    covered = [*constraints, constraint("amount.minor", "IN", 1), constraint("amount.currency", "IN", "USD")]
    assert reason(covered, arguments, MONEY) is Reason.CEILING_UNCOVERED
    assert reason(covered, arguments) is None
    assert reason([*covered, AMOUNT[left_out]], arguments, MONEY) is None


@pytest.mark.parametrize("floor", [0, -1])
def test_floor_of_money_is_at_least_one(floor: int) -> None:
    arguments = of(amount={"minor": 1, "currency": "USD"})
    constraints = (constraint("amount.minor", "GE", floor), *AMOUNT[1:])
    assert reason(constraints, arguments, MONEY) is Reason.CEILING_UNCOVERED
    assert (
        reason((*constraints, constraint("amount.minor", "GE", Scalar(unsigned=1))), arguments, MONEY) is None
    )


def test_money_without_a_path_is_covered_by_nothing() -> None:
    assert reason(UP_TO_50, of(**O1_FOR_50), Money()) is Reason.CEILING_UNCOVERED


@pytest.mark.parametrize(
    ("op", "values", "fits", "exceeds", "unmet"),
    [
        ("EQ", ["O1"], ["O1"], ["O2", "o1", "O1 ", ""], [1, True, None, 0.5]),
        ("EQ", [1], [1], [0, 2], ["1", True, None, 1.5]),
        ("EQ", [True], [True], [False], [1, "true", None]),
        ("EQ", [Scalar(unsigned=1)], [1], [2], ["1", True]),
        ("IN", ["a", "b"], ["a", "b"], ["c", "ab"], [1]),
        ("IN", [1, 2], [1, 2], [3], ["1", True]),
        ("LE", [5], [5, -5], [6], ["5", True, 4.5, None]),
        ("LE", [Scalar(unsigned=2**64 - 1)], [2**53 - 1], [], ["5"]),
        ("GE", [5], [5, 6], [4, -6], ["5", True, 5.5, None]),
        ("PREFIX", ["ab"], ["ab", "abc"], ["a", "", "AB", "xab"], [1, None, True]),
        ("MAX_LENGTH", [2], ["", "ab", "é"], ["abc", "éa"], [1, True, None]),
        ("MAX_LENGTH", [0], [""], ["a"], [0]),
        ("LE", [True], [], [], [0, 1, True]),
        ("GE", [True], [], [], [1, 2, True]),
    ],
)
def test_operator_compares_values_of_its_type_alone(
    op: str, values: list[Any], fits: list[Any], exceeds: list[Any], unmet: list[Any]
) -> None:
    one = constraint("note", op, *values)
    expected = [*((v, None) for v in fits), *((v, Reason.CEILING_EXCEEDED) for v in exceeds)]
    expected += [(v, Reason.CEILING_UNMET) for v in unmet]
    for value, outcome in expected:
        assert (value, reason([one], of(note=value))) == (value, outcome)


@pytest.mark.parametrize(
    ("op", "values"),
    [
        ("UNSPECIFIED", ["O1"]),
        ("EQ", []),
        ("EQ", ["O1", "O2"]),
        ("EQ", [Scalar()]),
        ("EQ", [1]),
        ("EQ", [b"O1"]),
        ("IN", []),
        ("IN", ["O1", 1]),
        ("IN", ["O1", Scalar()]),
        ("LE", []),
        ("LE", ["P"]),
        ("GE", ["A"]),
        ("GE", [1, 2]),
        ("PREFIX", [""]),
        ("PREFIX", [b"O"]),
        ("PREFIX", ["O", "O1"]),
        ("MAX_LENGTH", ["2"]),
        ("MAX_LENGTH", [True]),
        ("MAX_LENGTH", [1, 2]),
        ("MAX_ITEMS", [1]),
        ("MAX_ITEMS", []),
        ("ABSENT", ["O1"]),
    ],
)
def test_malformed_constraint_refuses_and_is_never_skipped(op: str, values: list[Any]) -> None:
    assert reason([ORDER, constraint("order", op, *values)], of(order="O1")) is Reason.CEILING_UNMET
    assert reason([ORDER], of(order="O1")) is None


def test_operator_of_the_future_and_empty_path_refuse() -> None:
    assert reason([ORDER, Constraint(path=["order"], op=99)], of(order="O1")) is Reason.CEILING_UNMET  # type: ignore[arg-type]
    assert reason([ORDER, constraint("", "EQ", "O1")], of(order="O1")) is Reason.CEILING_UNMET
    assert reason([ORDER, constraint("", "ABSENT")], of(order="O1")) is Reason.CEILING_UNMET


@pytest.mark.parametrize(
    ("present", "path"),
    [
        ({"note": "x"}, "note"),
        ({"note": None}, "note"),
        ({"amount": {}}, "amount"),
        ({"items": []}, "items"),
        ({"items": [{}, {"sku": "x"}]}, "items.sku"),
        ({"items": [{"tags": []}]}, "items.tags"),
    ],
)
def test_absent_refuses_whatever_is_present(present: dict[str, Any], path: str) -> None:
    absent = constraint(path, "ABSENT")
    assert reason([absent], of(**present)) is Reason.CEILING_EXCEEDED
    assert reason([ORDER, absent], of(order="O1")) is None


@pytest.mark.parametrize("path", ["amount.minor", "items.sku", "order.deeper", "nowhere"])
def test_absent_is_met_where_the_path_leads_nowhere(path: str) -> None:
    assert reason([ORDER, constraint(path, "ABSENT")], of(order="O1")) is None


SKUS = (constraint("items", "MAX_ITEMS", 2), constraint("items.sku", "IN", "a", "b"))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([{"sku": "a"}], None),
        ([{"sku": "a"}, {"sku": "b"}], None),
        ([{"sku": "a"}, {"sku": "c"}], Reason.CEILING_EXCEEDED),
        ([{"sku": "a"}] * 3, Reason.CEILING_EXCEEDED),
        ([{"sku": "a"}, {}], Reason.CEILING_UNMET),
        ([], Reason.CEILING_UNMET),
        ([{"sku": "a", "tags": []}], Reason.CEILING_UNCOVERED),
        ([{"sku": "a", "sub": {}}], Reason.CEILING_UNCOVERED),
    ],
)
def test_list_is_held_in_number_and_in_each_element(items: list[Any], expected: Reason | None) -> None:
    assert reason(SKUS, of(items=items)) is expected


def test_list_needs_both_its_bound_and_a_constraint_on_its_elements() -> None:
    arguments = of(items=[{"sku": "a"}])
    assert reason(SKUS[:1], arguments) is Reason.CEILING_UNCOVERED
    assert reason(SKUS[1:], arguments) is Reason.CEILING_UNCOVERED
    assert reason(SKUS, arguments) is None


def test_bound_of_a_list_is_a_number() -> None:
    assert reason([constraint("items", "MAX_ITEMS", True)], of(items=[])) is Reason.CEILING_UNMET
    assert reason([constraint("items", "MAX_ITEMS", 1)], of(items=[])) is None


def test_empty_list_is_covered_by_its_bound() -> None:
    assert reason(SKUS[:1], of(items=[])) is None


def test_bound_on_lists_in_lists_holds_for_each() -> None:
    bounds = (constraint("grid", "MAX_ITEMS", 2), constraint("grid", "LE", 9))
    assert reason(bounds, of(grid=[[1, 2], [3]])) is None
    assert reason(bounds, of(grid=[[1, 2, 3]])) is Reason.CEILING_EXCEEDED
    assert reason(bounds, of(grid=[[1], [1], [1]])) is Reason.CEILING_EXCEEDED
    assert reason(bounds, of(grid=[[1], []])) is Reason.CEILING_UNMET
    tags = (*SKUS, constraint("items.tags", "MAX_ITEMS", 1), constraint("items.tags", "EQ", "x"))
    assert reason(tags, of(items=[{"sku": "a", "tags": ["x"]}, {"sku": "b", "tags": ["x"]}])) is None
    assert reason(tags, of(items=[{"sku": "a", "tags": ["x", "x"]}])) is Reason.CEILING_EXCEEDED


def test_constraint_on_a_message_meets_no_value() -> None:
    for op, value in (("EQ", "x"), ("LE", 1), ("PREFIX", "x"), ("MAX_LENGTH", 1), ("MAX_ITEMS", 1)):
        assert reason([constraint("amount", op, value)], of(amount={"minor": 1})) is Reason.CEILING_UNMET


def test_refusal_names_the_path_and_never_the_value() -> None:
    refusal = check_constraint(ORDER, of(order="4111111111111111"))
    assert refusal == Refusal(Reason.CEILING_EXCEEDED, "`order`: outside its ceiling")
    assert refusal is not None
    assert refusal.step == 10


def test_every_operator_of_the_wire_format_is_known_or_unspecified() -> None:
    """An operator that is added to the protocol must be given a meaning here."""
    values = {
        "EQ": ["O1"], "IN": ["O1"], "LE": [1], "GE": [1], "PREFIX": ["O"], "ABSENT": [], "MAX_LENGTH": [2],
        "MAX_ITEMS": [1],
    }  # fmt: skip
    names = {name.removeprefix("CONSTRAINT_OP_") for name in decision_pb2.ConstraintOp.keys()}  # noqa: SIM118
    assert names == values.keys() | {"UNSPECIFIED"}
