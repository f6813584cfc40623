"""RFC 8785: objects and ten thousand numbers, byte by byte."""

import base64
import json
import math
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from licet.call.json_text import MAX_INTEGER, parse_json
from licet.call.stop import Stop

HUGE = re.compile(rb"[0-9]{17}|[eE]\+?[1-9][0-9]")
ROWS = "05-crypto-format/jcs_objects.jsonl"


def test_object_has_exactly_its_canonical_bytes(row: dict[str, Any]) -> None:
    text, expected = base64.b64decode(row["input_b64"]), bytes.fromhex(row["output_hex"])
    assert rfc8785.dumps(json.loads(text)) == expected
    if HUGE.search(text):  # numbers that arguments may not hold
        with pytest.raises(Stop, match="2\\^53"):
            parse_json(text)
    else:
        assert rfc8785.dumps(parse_json(text)) == expected


def test_numbers_have_exactly_their_canonical_form(data: Path) -> None:
    checked = 0
    for path in sorted(data.glob("jcs_es6_numbers*.csv")):
        for line in path.read_text().splitlines():
            bits, _, expected = line.partition(",")
            (value,) = struct.unpack(">d", int(bits, 16).to_bytes(8, "big"))
            if math.isfinite(value):
                assert rfc8785.dumps(value) == expected.encode(), bits
                checked += 1
    assert checked > 0


def test_number_that_arguments_may_hold_is_read_back_from_its_canonical_form(data: Path) -> None:
    """And one that they may not hold is refused, not rounded."""
    for path in sorted(data.glob("jcs_es6_numbers*.csv")):
        for line in path.read_text().splitlines():
            bits, _, expected = line.partition(",")
            (value,) = struct.unpack(">d", int(bits, 16).to_bytes(8, "big"))
            try:
                parsed = parse_json(expected.encode())
            except Stop:
                assert not math.isfinite(value) or abs(value) > MAX_INTEGER
            else:
                assert parsed == value
                assert rfc8785.dumps(parsed) == expected.encode()
