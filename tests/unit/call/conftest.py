"""A request type with every kind of field, and a way to write bytes that no serialiser would."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from licet.call import Plan, compile_plan

VECTORS = Path(__file__).parents[2] / "vectors"
ITEM = "type.googleapis.com/vectors.v1.Item"


class Wire:
    """Protobuf's wire format by hand."""

    @staticmethod
    def varint(value: int) -> bytes:
        value &= (1 << 64) - 1
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    @classmethod
    def number(cls, field: int, value: int) -> bytes:
        return cls.varint(field << 3) + cls.varint(value)

    @classmethod
    def data(cls, field: int, data: bytes | str) -> bytes:
        data = data.encode() if isinstance(data, str) else data
        return cls.varint(field << 3 | 2) + cls.varint(len(data)) + data

    @classmethod
    def double(cls, field: int, value: float) -> bytes:
        return cls.varint(field << 3 | 1) + struct.pack("<d", value)

    @classmethod
    def single(cls, field: int, value: float) -> bytes:
        return cls.varint(field << 3 | 5) + struct.pack("<f", value)

    @classmethod
    def group(cls, field: int, inside: bytes = b"") -> bytes:
        return cls.varint(field << 3 | 3) + inside + cls.varint(field << 3 | 4)

    @classmethod
    def nest(cls, field: int, levels: int, inside: bytes = b"") -> bytes:
        for _ in range(levels):
            inside = cls.data(field, inside)
        return inside


@dataclass(frozen=True)
class Samples:
    """The test types: their descriptors, plans and message classes."""

    descriptors: bytes
    refund: Plan
    legacy: Plan
    message: Callable[[str], Any]


@pytest.fixture(scope="session")
def wire() -> type[Wire]:
    return Wire


@pytest.fixture(scope="session")
def samples() -> Samples:
    descriptors = (VECTORS / "protos" / "requests.binpb").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.AddSerializedFile(file.SerializeToString())
    return Samples(
        descriptors,
        compile_plan(descriptors, "vectors.v1.Refund", ["vectors.v1.Item", "vectors.v1.Refund"]),
        compile_plan(descriptors, "vectors.v1.Legacy"),
        lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"vectors.v1.{name}")),
    )
