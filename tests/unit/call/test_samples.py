"""The descriptors that the tests and vectors pin are those of their .proto files."""

import runpy
from pathlib import Path

from google.protobuf import descriptor_pb2

PROTOS = Path(__file__).parents[2] / "vectors" / "protos"


def test_descriptor_set_of_the_samples_is_fresh(tmp_path: Path) -> None:
    runpy.run_path(str(PROTOS / "generate.py"))["generate"](tmp_path / "requests.binpb")
    fresh, kept = (
        descriptor_pb2.FileDescriptorSet.FromString((folder / "requests.binpb").read_bytes())
        for folder in (tmp_path, PROTOS)
    )
    assert fresh == kept, "run tests/vectors/protos/generate.py"
