"""docs/protocol-call.md says what the code does: its examples, limits, letters and operators."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from licet.call import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_REQUEST_BYTES,
    Arguments,
    call_digest,
    compile_schema,
    read_json,
    tool_key,
    tree,
    walk,
)
from licet.v1.decision_pb2 import ConstraintOp

PAGE = (Path(__file__).parents[3] / "docs" / "protocol-call.md").read_text()


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def hex_of(name: str, text: str) -> list[str]:
    """The hex after `name` in each block, with the indented lines below it; comments left out."""
    found = []
    for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
        for entry in re.split(r"\n(?! )", block):
            if entry.startswith(name):
                lines = [
                    re.split(r" {3,}", line.strip())[0] for line in entry.removeprefix(name).splitlines()
                ]
                found.append("".join(lines).replace(" ", ""))
    return found


def test_examples_of_the_page_are_what_the_code_computes(samples: Any) -> None:
    text = section("Two worked examples")
    key = tool_key(bytes(range(32)), "spiffe://licet.local/dev/tool/vectors", 1)
    assert hex_of("K_tool", text) == [key.hex()]
    names = {"order_id": {"type": "string"}, "amount_minor": {"type": "integer"}}
    closed = {"type": "object", "properties": names, "additionalProperties": False}
    schema = compile_schema(json.dumps(closed))
    requests = [bytes.fromhex(request) for request in hex_of("request", text)]
    results = [walk(samples.refund, requests[0]), read_json(schema, requests[1])]
    digests = []
    for codec, result in enumerate(results, start=1):
        assert isinstance(result, Arguments)
        method = hashlib.sha256(b"any method entry").digest()
        digests.append(call_digest(key, codec, "/vectors.v1.Refunds/Refund", method, result.encoded).hex())
    assert hex_of("call_digest", text) == digests
    assert hex_of("tree", text) == [
        result.encoded.hex() for result in results if isinstance(result, Arguments)
    ]


def test_limits_of_the_page_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (request|depth|values) \| ([\d,]+)", section("Tree"), re.MULTILINE)
    assert {name: int(value.replace(",", "")) for name, value in rows} == {
        "request": MAX_REQUEST_BYTES,
        "depth": MAX_DEPTH,
        "values": MAX_NODES,
    }


def test_letters_of_the_page_are_those_of_the_code() -> None:
    letters = re.findall(r"^\| `(.)` \|", section("Tree"), re.MULTILINE)
    assert letters == re.findall(r"^\| `(.)` \|", tree.__doc__ or "", re.MULTILINE)


def test_operators_of_the_page_are_those_of_the_wire_format() -> None:
    rows = re.findall(
        r"^\| ((?:`[A-Z_]+`(?:, )?)+) \|", section("Ceilings").partition("| reason |")[0], re.MULTILINE
    )
    listed = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}
    known = {name.removeprefix("CONSTRAINT_OP_") for name in ConstraintOp.keys()}  # noqa: SIM118 - no mapping
    assert listed == known - {"UNSPECIFIED"}
