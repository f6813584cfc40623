"""The vectors of sealed payloads, read as another language would: by the files alone."""

import json
import runpy
from pathlib import Path

import pytest

from licet.sealed import Place, Unopened, open_sealed, payload_ref, read_sealed
from licet.v1.payload_pb2 import Sealed

HERE = Path(__file__).parent
VECTORS = sorted((HERE / "sealed").glob("*.json"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vector(path: Path) -> None:
    vector = json.loads(path.read_text())
    expected, raw = vector["expected"], bytes.fromhex(vector["sealed"])
    place = Place(vector["environment"], vector["tenant"], vector["event_id"])
    opened = open_sealed(raw, place, bytes.fromhex(vector["seed"]))
    if isinstance(opened, Unopened):
        assert {"fault": str(opened.fault)} == expected
        return
    frame = read_sealed(raw)
    assert isinstance(frame, Sealed)
    assert {
        "payload": opened.hex(),
        "key_id": frame.key_id,
        "payload_ref": payload_ref(raw),
    } == expected


def test_every_case_of_the_generator_has_its_file_and_none_changed() -> None:
    made = runpy.run_path(str(HERE / "generate_sealed.py"))
    cases = {name: {**given, "expected": expected} for name, given, expected in made["cases"]()}
    assert {path.stem[4:]: json.loads(path.read_text()) for path in VECTORS} == cases
    assert [int(path.stem[:3]) for path in VECTORS] == list(range(1, len(VECTORS) + 1))
