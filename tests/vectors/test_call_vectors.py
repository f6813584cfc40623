"""The vectors of digest, json and ceilings, read as another language would: by the file alone."""

import hashlib
import json
import re
import runpy
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from licet.call import Arguments, call_digest, compile_plan, compile_schema, read_json, tool_key, walk
from licet.ceilings import check_ceilings
from licet.refusal import Refusal
from licet.v1.catalog_pb2 import Money
from licet.v1.decision_pb2 import Constraint

HERE = Path(__file__).parent
VECTORS = sorted(path for folder in ("digest", "json") for path in (HERE / folder).glob("*.json"))


def read(vector: dict[str, Any], request: bytes) -> Arguments | Refusal:
    if vector["codec"] == 1:
        plan = compile_plan(b64decode(vector["descriptors"]), vector["input_type"], vector["any_types"])
        return walk(plan, request)
    return read_json(compile_schema(json.dumps(vector["schema"])), request)


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_vector(path: Path) -> None:
    vector = json.loads(path.read_text())
    request = b"".join(bytes.fromhex(part["hex"]) * part["times"] for part in vector["request"])
    expected = vector["expected"]
    result = read(vector, request)
    if isinstance(result, Refusal):
        assert expected == {"reason": result.reason.value}
        return
    k_tool = tool_key(bytes.fromhex(vector["master"]), vector["audience"], vector["generation"])
    assert k_tool.hex() == vector["k_tool"]
    digest = bytes.fromhex(vector["method_digest"])
    assert (
        call_digest(k_tool, vector["codec"], vector["method"], digest, result.encoded).hex()
        == (expected["call_digest"])
    )
    assert hashlib.sha256(result.encoded).hexdigest() == expected["tree_sha256"]
    if "tree" in expected:
        assert (result.encoded.hex(), result.canonical.hex()) == (expected["tree"], expected["canonical"])
    assert read(vector, result.canonical) == result


@pytest.mark.parametrize("path", sorted((HERE / "ceilings").glob("*.json")), ids=lambda path: path.stem)
def test_ceilings_vector(path: Path) -> None:
    vector = json.loads(path.read_text())
    plan = compile_plan(b64decode(vector["descriptors"]), vector["input_type"], vector["any_types"])
    arguments = walk(plan, bytes.fromhex(vector["request"]))
    assert isinstance(arguments, Arguments), arguments
    constraints = [Constraint.FromString(bytes.fromhex(one)) for one in vector["constraints"]]
    money = None if vector["money"] is None else Money(**vector["money"])
    refusal = check_ceilings(constraints, arguments, money)
    assert vector["expected"] == ({"passes": True} if refusal is None else {"reason": refusal.reason.value})


@pytest.mark.parametrize("folder", ["digest", "json", "ceilings"])
def test_vectors_are_numbered_without_a_gap(folder: str) -> None:
    """Append-only: a vector that is gone, renamed or renumbered is a promise broken."""
    names = sorted(path.name for path in (HERE / folder).glob("*.json"))
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1))
    assert all(re.fullmatch(r"\d{3}_[a-z0-9_]+\.json", name) for name in names)


@pytest.mark.parametrize(
    ("folder", "cases"), [("digest", "DIGEST"), ("json", "JSON"), ("ceilings", "CEILINGS")]
)
def test_every_case_of_the_script_has_its_file(folder: str, cases: str) -> None:
    script = runpy.run_path(str(HERE / "generate_call.py"))
    expected = [f"{index:03}_{case.flaw}.json" for index, case in enumerate(script[cases], start=1)]
    assert sorted(path.name for path in (HERE / folder).glob("*.json")) == expected


def test_same_and_other_calls_among_the_vectors() -> None:
    """What the names of the vectors say of one another."""
    found = {
        path.stem[4:]: json.loads(path.read_text())["expected"]
        for path in VECTORS
        if path.parent.name == "digest"
    }
    base = found["refund_of_50_usd"]
    for same in (
        "appended_amount_is_the_same",
        "default_without_presence",
        "overlong_tag",
        "overlong_length",
    ):
        assert found[same] == base
    assert found["fields_in_another_order"] == base
    assert found["map_in_order"] == found["map_out_of_order"]
    assert found["list_packed"] == found["list_unpacked"] == found["list_half_packed"]
    assert found["any_listed"] == found["any_content_in_another_form"]
    others = [
        "one_minor_unit_more",
        "appended_amount_merges",
        "optional_explicitly_empty",
        "message_explicitly_empty",
    ]
    assert len({found[name]["call_digest"] for name in ["refund_of_50_usd", *others]}) == 5
    assert found["list_in_another_order"] != found["list_packed"]
    assert found["text_composed"] != found["text_decomposed"]
    assert found["proto2_default_present"] != found["proto2_default_absent"]
