"""A masked reply shows what its owner allows, and masking never harms the door."""

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from licet.call import compile_plan
from sidecar.mask import cleared


def described() -> descriptor_pb2.FileDescriptorSet:
    """A proto2 reply with a required field beside a map: the pair that ended the process in upb."""
    file = descriptor_pb2.FileDescriptorProto(name="mask.proto", package="mask", syntax="proto2")
    reply = file.message_type.add(name="Reply")
    entry = reply.nested_type.add(name="NotesEntry")
    entry.options.map_entry = True
    field = descriptor_pb2.FieldDescriptorProto
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, label=field.LABEL_OPTIONAL, type=field.TYPE_STRING)
    reply.field.add(name="iban", number=1, label=field.LABEL_REQUIRED, type=field.TYPE_STRING)
    reply.field.add(
        name="notes",
        number=2,
        label=field.LABEL_REPEATED,
        type=field.TYPE_MESSAGE,
        type_name=".mask.Reply.NotesEntry",
    )
    return descriptor_pb2.FileDescriptorSet(file=[file])


DESCRIBED = described()
PLAN = compile_plan(DESCRIBED.SerializeToString(), "mask.Reply")
POOL = descriptor_pool.DescriptorPool()
POOL.Add(DESCRIBED.file[0])
REPLY = message_factory.GetMessageClass(POOL.FindMessageTypeByName("mask.Reply"))
BODY = REPLY(iban="DE02", notes={"a": "b"}).SerializeToString(deterministic=True)


def test_required_field_is_masked_and_the_rest_stays() -> None:
    masked = REPLY.FromString(cleared(PLAN, BODY, ("iban",)))
    assert not masked.HasField("iban")
    assert dict(masked.notes) == {"a": "b"}


def test_reply_without_a_masked_path_stays_as_it_is() -> None:
    assert cleared(PLAN, BODY, ()) == BODY


def test_field_that_the_catalog_does_not_know_is_not_shown() -> None:
    assert cleared(PLAN, BODY + b"\x1a\x06secret", ()) == BODY


@pytest.mark.parametrize("path", ["nothing", "iban.more"])
def test_path_that_names_no_field_is_an_error_not_a_leak(path: str) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        cleared(PLAN, BODY, (path,))


def test_reply_that_is_none_is_an_error_not_a_leak() -> None:
    with pytest.raises(DecodeError):
        cleared(PLAN, b"\xff", ("iban",))
