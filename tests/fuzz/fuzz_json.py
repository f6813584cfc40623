"""No text makes the reader raise; every parser reads alike what it reads, also in canonical form."""

import json

import rfc8785
from seeds import requests_of, schema_of

from licet.call import MAX_REQUEST_BYTES, Arguments, compile_schema, read_json
from licet.call.json_text import parse_json
from licet.call.stop import Stop
from licet.refusal import Refusal

INSTRUMENT = ["licet.call"]


SCHEMA = compile_schema(schema_of("json"))


def seeds() -> list[bytes]:
    return requests_of("json")


def check(data: bytes) -> None:
    check_text(data)
    result = read_json(SCHEMA, data)
    if isinstance(result, Refusal):
        assert result.step in {1, 10}
        return
    assert isinstance(result, Arguments)
    assert len(result.canonical) <= MAX_REQUEST_BYTES
    assert read_json(SCHEMA, result.canonical) == result
    assert json.loads(result.canonical) == json.loads(data) == result.to_plain()


def check_text(data: bytes) -> None:
    """Any text at all, whatever the schema says."""
    try:
        value = parse_json(data)
    except Stop:
        return
    canonical = rfc8785.dumps(value)
    assert parse_json(canonical) == value == json.loads(data)
    assert rfc8785.dumps(parse_json(canonical)) == canonical
