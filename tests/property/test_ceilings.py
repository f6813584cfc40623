"""Over all ceilings and arguments: nothing passes that a constraint refuses, or that none speaks of."""

import json
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from licet.call import Arguments, compile_schema, read_json
from licet.ceilings import check_ceilings, check_constraint
from licet.refusal import Refusal
from licet.v1 import decision_pb2
from licet.v1.decision_pb2 import Constraint
from licet.v1.statement_pb2 import Scalar

ANYTHING = {"type": ["string", "integer", "number", "boolean", "null"]}
CLOSED = {"type": "object", "additionalProperties": False}
ROW = CLOSED | {"properties": {"a": ANYTHING, "b": ANYTHING}}
SCHEMA = compile_schema(
    json.dumps(
        CLOSED
        | {"properties": {"a": ANYTHING, "b": ANYTHING, "m": ROW, "l": {"type": "array", "items": ROW}}}
        | {"$defs": {"x": ANYTHING}}
    )
)
LEAF = st.integers(-2, 2) | st.sampled_from(["", "a", "ab", "b"]) | st.booleans() | st.none() | st.just(0.5)
ROWS = st.fixed_dictionaries({}, optional={"a": LEAF, "b": LEAF})
VALUES = st.fixed_dictionaries(
    {}, optional={"a": LEAF, "b": LEAF, "m": ROWS, "l": st.lists(ROWS, max_size=2)}
)
PATHS = [["a"], ["b"], ["m"], ["m", "a"], ["m", "b"], ["l"], ["l", "a"], ["l", "b"], ["z"], []]
SCALARS = st.one_of(
    st.builds(Scalar, integer=st.integers(-2, 2)),
    st.builds(Scalar, unsigned=st.integers(0, 2)),
    st.builds(Scalar, text=st.sampled_from(["", "a", "ab", "b"])),
    st.builds(Scalar, flag=st.booleans()),
    st.just(Scalar()),
)
CONSTRAINTS = st.builds(
    Constraint, path=st.sampled_from(PATHS), op=st.integers(0, 9), values=st.lists(SCALARS, max_size=2)
)


def read(values: dict[str, Any]) -> Arguments:
    arguments = read_json(SCHEMA, json.dumps(values).encode())
    assert isinstance(arguments, Arguments)
    return arguments


def fitting(values: dict[str, Any], path: tuple[str, ...] = ()) -> list[Constraint]:
    """Constraints made for exactly these values: what a decider would mint, and the way to a passing case."""
    found: list[Constraint] = []
    for name, value in values.items():
        here = (*path, name)
        if isinstance(value, dict):
            found += fitting(value, here)
        elif isinstance(value, list):
            found.append(_at(here, decision_pb2.CONSTRAINT_OP_MAX_ITEMS, Scalar(integer=len(value))))
            leaves = {key: [row[key] for row in value if key in row] for row in value for key in row}
            found += [
                _at((*here, key), decision_pb2.CONSTRAINT_OP_IN, *map(_scalar, items))
                for key, items in leaves.items()
            ]
        else:
            found.append(_at(here, decision_pb2.CONSTRAINT_OP_EQ, _scalar(value)))
    return found


def _at(path: tuple[str, ...], op: Any, *values: Scalar) -> Constraint:
    return Constraint(path=path, op=op, values=values)


def _scalar(value: Any) -> Scalar:
    kinds = {bool: "flag", int: "integer", str: "text"}
    return Scalar(**{kinds[type(value)]: value}) if type(value) in kinds else Scalar()


@given(VALUES, st.lists(CONSTRAINTS, max_size=6))
def test_ceilings_never_pass_what_a_constraint_alone_refuses(
    values: dict[str, Any], constraints: list[Constraint]
) -> None:
    arguments = read(values)
    for listed in (constraints, fitting(values) + constraints):
        if check_ceilings(listed, arguments, None) is None:
            assert [check_constraint(one, arguments) for one in listed] == [None] * len(listed)


@given(VALUES, st.lists(CONSTRAINTS, max_size=3))
def test_ceilings_that_pass_speak_of_every_leaf(
    values: dict[str, Any], constraints: list[Constraint]
) -> None:
    arguments, listed = read(values), fitting(values) + constraints
    if check_ceilings(listed, arguments, None) is None:
        spoken_of = {tuple(one.path) for one in listed if one.op != decision_pb2.CONSTRAINT_OP_ABSENT}
        assert {path for path, _ in arguments.leaves()} <= spoken_of


@given(VALUES)
def test_arguments_pass_the_ceilings_made_for_them_unless_something_cannot_be_covered(
    values: dict[str, Any],
) -> None:
    """The lawful twin of all: without it, refusing everything would satisfy the others."""
    arguments = read(values)
    rows = values.get("l", [])
    uneven = any(row.keys() != rows[0].keys() or not row for row in rows)
    mixed = any(len({type(row[key]) for row in rows}) > 1 for key in (rows[0] if rows and not uneven else ()))
    assume(not uneven and not mixed and values.get("m") != {} and values)
    speakable = all(isinstance(value, int | str) for _, value in arguments.leaves())
    assert (check_ceilings(fitting(values), arguments, None) is None) == speakable


@given(VALUES, st.sampled_from(["a", "b"]), LEAF)
def test_one_more_value_is_refused(values: dict[str, Any], name: str, value: Any) -> None:
    assume(name not in values)
    constraints = fitting(values)
    assert isinstance(check_ceilings(constraints, read(values | {name: value}), None), Refusal)


@given(VALUES, st.sampled_from(["a", "b"]), LEAF)
def test_another_value_is_refused(values: dict[str, Any], name: str, value: Any) -> None:
    assume(name in values and (type(values[name]), values[name]) != (type(value), value))
    constraints = fitting(values)
    assert isinstance(check_ceilings(constraints, read(values | {name: value}), None), Refusal)


@given(VALUES, st.sampled_from(["a", "b"]))
def test_one_value_less_is_refused(values: dict[str, Any], name: str) -> None:
    assume(name in values)
    constraints = fitting(values)
    rest = {key: value for key, value in values.items() if key != name}
    assert isinstance(check_ceilings(constraints, read(rest), None), Refusal)
