"""Rules of a tool's owner on arguments: each condition with what it stops and the nearest that passes."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import re2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import Message

from licet.call import Arguments, CatalogError, EnumNumber, Plan, compile_plan, walk
from licet.call.tree import Leaf
from licet.catalog import Method, read_method
from licet.catalog.argument import ARGUMENTS_RULE, ArgumentRule, check_arguments, check_visible
from licet.catalog.argument_reader import MAX_RULES
from licet.catalog.fields import MessageFields
from licet.refusal import Reason, Refusal
from licet.strict import canonical
from licet.v1.decision_pb2 import Codec, Constraint, ConstraintOp, Decision
from tests.worlds import permit as world
from tests.worlds.permit import GET, REFUND

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "count": {"type": "integer"},
        "rate": {"type": "number"},
        "dry": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "to": {"type": "array", "items": {"type": "string"}},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"file": {"type": "string"}},
            },
        },
    },
}


def tool(*rules: dict[str, Any], **changes: Any) -> Method:
    """A JSON method with these rules."""
    fields = {
        "codec": Codec.CODEC_JSON_MCP,
        "json_schema": json.dumps(SCHEMA),
        "descriptors": b"",
        "input_type": "",
        "output_type": "",
        "resource": "thing:{id}",
        "say": "Read {id}",
        "arguments": list(rules),
    }
    return read_method(GET, canonical(world.method(GET, **{**fields, **changes})))


def compiled(pattern: str) -> Callable[[str], bool]:
    found = re2.compile(pattern)
    return lambda text: found.fullmatch(text) is not None


def sent(method: Method, **values: Any) -> Arguments:
    arguments = method.arguments(json.dumps({"id": "A1", **values}).encode())
    assert isinstance(arguments, Arguments), arguments
    return arguments


def check(method: Method, **values: Any) -> Refusal | None:
    return check_arguments(method.argument_rules, sent(method, **values), compiled=compiled)


CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"path": "count", "min": 1}, {"count": 0}, {"count": 1}),
    ({"path": "count", "min": 1}, {"count": -(2**53 - 1)}, {"count": 2**53 - 1}),
    ({"path": "count", "max": 10}, {"count": 11}, {"count": 10}),
    ({"path": "count", "max": 0}, {"count": 1}, {"count": 0}),
    ({"path": "count", "one_of": ["1", "3"]}, {"count": 2}, {"count": 3}),
    ({"path": "dry", "one_of": ["true"]}, {"dry": False}, {"dry": True}),
    ({"path": "note", "max_length": 4}, {"note": "ééx"}, {"note": "éé"}),
    ({"path": "note", "pattern": "[a-z]+"}, {"note": "ab1"}, {"note": "ab"}),
    ({"path": "note", "pattern": "[a-z]+"}, {"note": "ab\n"}, {"note": "ab"}),
    ({"path": "note", "pattern": "[a-z]+"}, {"note": ""}, {"note": "a"}),
    ({"path": "note", "pattern": "a|b"}, {"note": "ab"}, {"note": "b"}),
    ({"path": "note", "one_of": ["low", "high"]}, {"note": "LOW"}, {"note": "low"}),
    ({"path": "note", "required": True}, {}, {"note": "x"}),
    ({"path": "note", "required": True}, {"note": None}, {"note": "x"}),
    ({"path": "to", "domains": ["example.com"]}, {"to": ["a@example.com", "b@evil.test"]}, {"to": []}),
    ({"path": "to", "domains": ["example.com"]}, {"to": ["a@example.com."]}, {"to": ["a@example.com"]}),
    ({"path": "to", "domains": ["example.com"]}, {"to": [" "]}, {"to": [""]}),
    ({"path": "to", "max_items": 1}, {"to": ["a", "b"]}, {"to": ["a"]}),
    ({"path": "to", "required": True}, {"to": []}, {"to": ["a"]}),
    ({"path": "parts.file", "one_of": ["f1"]}, {"parts": [{"file": "f1"}, {"file": "f2"}]}, {"parts": [{}]}),
]


_SHOWN = {"min": "range", "max": "range"}


@pytest.mark.parametrize(("rule", "broken", "kept"), CASES)
def test_value_outside_the_rule_is_refused_and_the_nearest_one_passes(
    rule: dict[str, Any], broken: dict[str, Any], kept: dict[str, Any]
) -> None:
    method = tool(rule)
    refusal = check(method, **broken)
    assert refusal is not None
    assert (refusal.reason, refusal.rule_id) == (Reason.ARGUMENT_REFUSED, ARGUMENTS_RULE)
    assert refusal.argument == rule["path"]
    assert refusal.message == f"an argument is not allowed: `{rule['path']}`"
    condition = next(name for name in rule if name != "path")
    assert f"`{_SHOWN.get(condition, condition)}`" in refusal.detail
    assert check(method, **kept) is None


@pytest.mark.parametrize(
    ("rule", "kept", "others"),
    [
        (ArgumentRule("a", low=0, high=9), 1, (True, "1", b"1", 1.0, EnumNumber(1, "ONE"))),
        (ArgumentRule("a", max_length=4), "1", (1, b"1", True, 1.0)),
        (ArgumentRule("a", one_of=frozenset({"1", "1.0"})), "1", (b"1", 1.0, True)),
        (ArgumentRule("a", one_of=frozenset({"true"})), True, (1, b"true", EnumNumber(1, "TRUE"))),
        (ArgumentRule("a", one_of=frozenset({"ONE"})), EnumNumber(1, "ONE"), (1, EnumNumber(1, "TWO"))),
        (ArgumentRule("a", domains=frozenset({"example.com"})), "a@example.com", (1, b"a@example.com")),
    ],
)
def test_value_of_another_kind_does_not_meet_a_condition(
    rule: ArgumentRule, kept: Leaf, others: tuple[Leaf, ...]
) -> None:
    assert rule.unmet(kept) is None
    assert None not in {rule.unmet(other) for other in others}


def test_what_is_refused_is_named_and_never_shown() -> None:
    refusal = check(tool({"path": "note", "one_of": ["low"]}), note="hunter2")
    assert refusal is not None
    assert "hunter2" not in refusal.detail + refusal.message


def test_absent_argument_meets_every_condition_but_being_required() -> None:
    method = tool({"path": "note", "pattern": "x", "max_length": 1}, {"path": "count", "min": 1})
    assert check(method) is None
    assert check(method, note=None) is None


def test_absence_that_a_tool_cannot_tell_from_a_default_is_judged_as_the_default() -> None:
    """A refund of nothing is a refund of 0: in protobuf both are the same bytes."""
    method = read_method(
        REFUND, canonical(world.method(REFUND, arguments=[{"path": "amount.minor", "min": 1}]))
    )
    for body, passes in ((world.refund(minor=0), False), (world.refund(minor=1), True)):
        arguments = method.arguments(body)
        assert isinstance(arguments, Arguments)
        assert (check_arguments(method.argument_rules, arguments) is None) is passes
    view = read_method(
        GET, canonical(world.method(GET, arguments=[{"path": "view", "one_of": ["VIEW_FULL"]}]))
    )
    for body, passes in ((world.GET_BODY, False), (world.GET_FULL_BODY, True)):
        arguments = view.arguments(body)
        assert isinstance(arguments, Arguments)
        assert (check_arguments(view.argument_rules, arguments) is None) is passes


@pytest.mark.parametrize(
    ("ops", "passes"),
    [(["EQ", "UNSPECIFIED"], False), (["UNSPECIFIED"], False), (["EQ", "EQ"], True), ([], True)],
)
def test_default_is_judged_in_every_element_of_a_list(ops: list[str], passes: bool) -> None:
    """An element that leaves its enum out has the number 0 for the tool, whatever stands beside it."""
    plan = plan_of(Decision)
    default = MessageFields(plan).default("ceilings.op")
    assert default == "CONSTRAINT_OP_UNSPECIFIED"
    numbers = [ConstraintOp.Value(f"CONSTRAINT_OP_{op}") for op in ops]
    arguments = walk(plan, canonical(Decision(ceilings=[Constraint(path="a", op=op) for op in numbers])))
    assert isinstance(arguments, Arguments)
    rule = ArgumentRule("ceilings.op", one_of=frozenset({"CONSTRAINT_OP_EQ"}), default=default, in_list=True)
    assert (check_arguments((rule,), arguments) is None) is passes


def plan_of(message: type[Message]) -> Plan:
    files, waiting = FileDescriptorSet(), [message.DESCRIPTOR.file]
    while waiting:
        one = waiting.pop()
        one.CopyToProto(files.file.add())
        waiting.extend(one.dependencies)
    known = {file.name: file for file in files.file}
    ordered = FileDescriptorSet(file=reversed(known.values()))
    return compile_plan(ordered.SerializeToString(), message.DESCRIPTOR.full_name)


def test_what_is_required_is_required_of_every_element() -> None:
    method = tool({"path": "parts.file", "required": True})
    assert check(method, parts=[{"file": "f1"}, {}]) is not None
    assert check(method, parts=[{"file": "f1"}, {"file": "f2"}]) is None


def test_door_without_an_engine_for_patterns_checks_everything_else() -> None:
    method = tool({"path": "note", "pattern": "x", "max_length": 2})
    assert check_arguments(method.argument_rules, sent(method, note="y")) is None
    assert check_arguments(method.argument_rules, sent(method, note="yyy")) is not None


def test_attachment_must_be_one_that_the_facts_know() -> None:
    facts = {
        "method": world.GET,
        "request": {"order_id": "order_id"},
        "tenant": "tenant",
        "preconditions": {},
    }
    method = read_method(
        REFUND,
        canonical(
            world.method(
                REFUND,
                facts=facts,
                ceilings=False,
                arguments=[{"path": "note", "max_length": 1}, {"path": "tags", "visible": "attachments"}],
            )
        ),
    )
    known = {"attachments": frozenset({"a", "7"})}

    def seen(**values: Any) -> Refusal | None:
        arguments = method.arguments(world.refund(**values))
        assert isinstance(arguments, Arguments)
        return check_visible(method.argument_rules, arguments, lambda path: known.get(path, frozenset()))

    assert seen(tags=["a", "7"]) is None
    assert seen() is None
    assert seen(note="long", tags=["a"]) is None  # its other rules are not asked here
    refusal = seen(tags=["a", "b"])
    assert refusal is not None
    assert (refusal.argument, refusal.reason) == ("tags", Reason.ARGUMENT_REFUSED)
    known.clear()  # facts that say nothing let nothing through
    assert seen(tags=["a"]) is not None


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([{"path": "note"}], "says nothing"),
        ([{"path": "nope", "required": True}], "is no value of the arguments' schema"),
        ([{"path": "parts", "required": True}], "is no value of the arguments' schema"),
        ([{"path": "no te", "required": True}], "is no argument path"),
        ([{"path": "note", "min": 1}], "has a range and is not an integer"),
        ([{"path": "rate", "max": 1}], "has a range and is not an integer"),
        ([{"path": "rate", "one_of": ["1"]}], "is neither an integer nor text"),
        ([{"path": "count", "pattern": "1"}], "has a rule about text"),
        ([{"path": "count", "domains": ["example.com"]}], "has a rule about text"),
        ([{"path": "count", "min": 2, "max": 1}], "`min` above its `max`"),
        ([{"path": "note", "domains": ["Example.com"]}], "is no domain"),
        ([{"path": "note", "domains": ["b\u00fccher.example"]}], "xn--"),
        ([{"path": "note", "schemes": ["http"]}], "says nothing"),
        ([{"path": "note", "schemes": ["http"], "required": True}], "names schemes and no domains"),
        ([{"path": "note", "domains": ["a.example"], "schemes": ["HTTP"]}], "is no scheme"),
        ([{"path": "note", "one_of": ["a", "a"]}], "twice"),
        ([{"path": "note", "required": True}, {"path": "note", "max_length": 1}], "on one path"),
        ([{"path": "note", "visible": "notes"}], "the method has none"),
        ([{"path": "note", "pattern": "x" * 513}], "longer than"),
        ([{"path": "note", "required": True}] * (MAX_RULES + 1), f"at most {MAX_RULES}"),
    ],
)
def test_rule_that_could_not_be_meant_is_refused_with_the_catalog(
    rules: list[dict[str, Any]], why: str
) -> None:
    with pytest.raises(CatalogError, match=why):
        tool(*rules)


def test_ceilings_do_not_go_with_what_the_door_cannot_check() -> None:
    """Within ceilings the door lets through arguments that no decider saw."""
    rule = {"path": "note", "pattern": "x"}
    with pytest.raises(CatalogError, match="`ceilings` do not go with"):
        read_method(REFUND, canonical(world.method(REFUND, arguments=[rule])))
    assert read_method(REFUND, canonical(world.method(REFUND, arguments=[rule], ceilings=False)))


def test_pattern_that_runs_away_in_other_engines_takes_linear_time() -> None:
    method = tool({"path": "note", "pattern": "(a+)+b", "max_length": 1 << 17})
    refusal = check(method, note="a" * (1 << 16))
    assert refusal is not None
