"""A plan is compiled from pinned descriptors, or the catalog is refused."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.internal import api_implementation

from licet.call import CatalogError, compile_plan, walk

OPTIONAL = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
STRING, BYTES = (
    descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
)


def file_set(samples: Any) -> descriptor_pb2.FileDescriptorSet:
    return descriptor_pb2.FileDescriptorSet.FromString(samples.descriptors)


def test_descriptors_that_cannot_be_parsed_are_refused() -> None:
    with pytest.raises(CatalogError, match="no FileDescriptorSet"):
        compile_plan(b"\xff", "vectors.v1.Refund")


def test_missing_import_is_refused(samples: Any) -> None:
    files = file_set(samples)
    kept = [file for file in files.file if file.name != "google/protobuf/any.proto"]
    alone = descriptor_pb2.FileDescriptorSet(file=kept)
    with pytest.raises(CatalogError, match=r"`[a-z]+\.proto` cannot be used"):
        compile_plan(alone.SerializeToString(), "vectors.v1.Refund")


def test_unknown_type_is_refused(samples: Any) -> None:
    with pytest.raises(CatalogError, match=r"no message `vectors.v1.Nothing`"):
        compile_plan(samples.descriptors, "vectors.v1.Nothing")
    with pytest.raises(CatalogError, match=r"no message `vectors.v1.Nothing`"):
        compile_plan(samples.descriptors, "vectors.v1.Refund", ["vectors.v1.Nothing"])


def test_type_of_the_process_is_not_in_reach(samples: Any) -> None:
    """Only what the catalog pins may be used, whatever this process has imported."""
    with pytest.raises(CatalogError, match=r"no message `google\.protobuf\.FileDescriptorSet`"):
        compile_plan(samples.descriptors, descriptor_pb2.FileDescriptorSet.DESCRIPTOR.full_name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Grouped", "is a group"),
        ("Delimited", "is a group"),
        ("Old", "MessageSet format"),
        ("HoldsOld", "MessageSet format"),
    ],
)
def test_what_no_walk_reads_is_refused(samples: Any, name: str, message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        compile_plan(samples.descriptors, f"vectors.v1.{name}")


def test_any_that_is_not_the_one_of_protobuf_is_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="any.proto", package="google.protobuf", syntax="proto3")
    message = file.message_type.add(name="Any")
    message.field.add(name="type_url", number=1, type=BYTES, label=OPTIONAL)
    message.field.add(name="value", number=2, type=BYTES, label=OPTIONAL)
    with pytest.raises(CatalogError, match="not the one of protobuf"):
        compile_plan(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), "google.protobuf.Any")
    message.field[0].type = STRING
    assert compile_plan(
        descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), "google.protobuf.Any"
    )


def test_other_protobuf_runtime_is_refused(samples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk is proven against upb; the pure Python runtime keeps unknown fields in other ways."""
    monkeypatch.setattr(api_implementation, "Type", lambda: "python")
    with pytest.raises(CatalogError, match="not upb"):
        compile_plan(samples.descriptors, "vectors.v1.Refund")


def test_name_of_an_aliased_enum_number_is_the_first_in_the_file(samples: Any, wire: Any) -> None:
    arguments = walk(samples.refund, wire.number(8, 1))
    assert not hasattr(arguments, "reason")
    assert arguments.to_plain() == {"channel": "CHANNEL_CARD"}


def test_plans_of_types_that_contain_themselves_can_be_compared_and_shown(samples: Any) -> None:
    again = compile_plan(samples.descriptors, "vectors.v1.Refund")
    assert again == again  # noqa: PLR0124 - that it ends is what is tested
    assert again != compile_plan(samples.descriptors, "vectors.v1.Refund")
    assert "vectors.v1.Refund" in repr(again)
