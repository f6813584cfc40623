"""The ProtoJSON part of protobuf's conformance suite, through the walk.

Arguments travel as binary protobuf or as strict JSON, never as ProtoJSON. What is checked: every request
that ProtoJSON can spell is walked, unless it holds what no call may hold, and then for that reason; and the
plain values that policy sees differ from ProtoJSON only as docs/protocol-call.md says.
"""

import math
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, unknown_fields

from licet.call import Arguments, Plan, compile_plan, walk
from licet.refusal import Reason

ROWS = "05-crypto-format/protojson_conformance.jsonl"
TYPE = "protobuf_test_messages.proto3.TestAllTypesProto3"


@pytest.fixture(scope="module")
def pool(data: Path) -> descriptor_pool.DescriptorPool:
    files = descriptor_pb2.FileDescriptorSet.FromString((data / "test_messages_proto3.fds").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@pytest.fixture(scope="module")
def plan(data: Path) -> Plan:
    return compile_plan((data / "test_messages_proto3.fds").read_bytes(), TYPE)


def forbidden(message: Any) -> set[Reason]:
    """What no call may hold, found without the walk."""
    found: set[Reason] = set()
    if len(unknown_fields.UnknownFieldSet(message)):
        found.add(Reason.UNKNOWN_FIELD)
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
            descriptor = descriptor.message_type.fields_by_name["value"]  # noqa: PLW2901 - the values' type
            values: Any = [value[key] for key in value]
        else:
            values = value if descriptor.is_repeated else [value]
        for one in values:
            if descriptor.message_type is not None:
                found |= {Reason.UNKNOWN_FIELD} if one.DESCRIPTOR.name == "Any" else forbidden(one)
            elif descriptor.enum_type is not None and one not in descriptor.enum_type.values_by_number:
                found.add(Reason.UNKNOWN_FIELD)
            elif isinstance(one, float) and (not math.isfinite(one) or math.copysign(1, one) < 0 == one):
                found.add(Reason.ARGUMENTS_MALFORMED)
    return found


def parse(row: dict[str, Any], pool: descriptor_pool.DescriptorPool) -> Any:
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(row["message"]))()
    ignore = row["kind"] == "parse_ok_ignore_unknown"
    return json_format.Parse(row["json_input"], message, ignore_unknown_fields=ignore, descriptor_pool=pool)


def test_request_is_walked_or_refused_for_what_it_holds(
    row: dict[str, Any], pool: descriptor_pool.DescriptorPool, plan: Plan
) -> None:
    deviates = row["observed_python_protobuf_7.36.2"] == "deviates"
    if row["kind"] == "parse_fail" and not deviates:
        with pytest.raises(json_format.ParseError):
            parse(row, pool)
        return
    if row.get("json_input") is None:
        pytest.skip("no JSON goes in: the case is about writing it")
    try:
        message = parse(row, pool)
    except json_format.ParseError:
        assert deviates or row["kind"] == "parse_ok_or_fail"
        return
    result = walk(plan, message.SerializeToString())
    reasons = forbidden(message)
    if not isinstance(result, Arguments):
        assert result.reason in reasons
        return
    assert reasons == set()
    assert type(message).FromString(result.canonical) == message
    assert walk(plan, result.canonical) == result
    check_plain(result.to_plain(), message)


WELL_KNOWN = "google.protobuf."


def check_plain(plain: dict[str, Any], message: Any) -> None:
    """Like ProtoJSON with the proto's names, but: 64 bit integers are integers, and well-known types are
    plain messages.
    """
    fields = {d.name: d for d, _ in message.ListFields()}
    assert plain.keys() == fields.keys()
    wanted = json_format.MessageToDict(message, preserving_proto_field_name=True)
    for name, descriptor in fields.items():
        if not holds_well_known(descriptor):
            assert normal(plain[name]) == normal(wanted[name]), name


def holds_well_known(descriptor: Any, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a value could hold a well-known type, which ProtoJSON writes in a way of its own."""
    part = descriptor.message_type
    if descriptor.enum_type is not None:
        return bool(descriptor.enum_type.full_name.startswith(WELL_KNOWN))  # NullValue is written as null
    return part is not None and (
        part.full_name.startswith(WELL_KNOWN)
        or (
            part.full_name not in seen
            and any(holds_well_known(f, seen | {part.full_name}) for f in part.fields)
        )
    )


def normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: normal(part) for key, part in value.items()}
    if isinstance(value, list):
        return [normal(part) for part in value]
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-6)  # ProtoJSON writes a float in its own shortest form
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
