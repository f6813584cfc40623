"""No bytes make the walk raise; what is read is read alike from its own canonical bytes."""

from seeds import PROTOS, requests_of

from licet.call import MAX_REQUEST_BYTES, Arguments, compile_plan, walk
from licet.refusal import Refusal

INSTRUMENT = ["licet.call"]


DESCRIPTORS = (PROTOS / "requests.binpb").read_bytes()
PLANS = [
    compile_plan(DESCRIPTORS, "vectors.v1.Refund", ["vectors.v1.Item", "vectors.v1.Refund"]),
    compile_plan(DESCRIPTORS, "vectors.v1.Legacy"),
]


def seeds() -> list[bytes]:
    return [bytes([plan]) + request for request in requests_of("digest") for plan in (0, 1)]


def check(data: bytes) -> None:
    plan, body = PLANS[data[0] % 2 if data else 0], data[1:]
    result = walk(plan, body)
    if isinstance(result, Refusal):
        assert result.step in {1, 10}
        return
    assert isinstance(result, Arguments)
    assert len(result.canonical) <= MAX_REQUEST_BYTES
    again = walk(plan, result.canonical)
    assert isinstance(again, Arguments), again
    assert again == result
    assert dict(again.values) == dict(result.values)
    for path, value in result.leaves():
        assert path
        assert value is not None
    result.to_plain()
