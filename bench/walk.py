"""What the strict walk costs beside parsing alone: `python bench/walk.py [--json FILE]`.

Ratios of one run, so the machine matters little; each time is the best of several.
"""

import argparse
import json
import timeit
from collections.abc import Callable
from pathlib import Path

from licet.call import call_digest, compile_plan, compile_schema, read_json, walk

ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "tests" / "vectors"
REPEATS, CALLS = 9, 2_000
KEY = bytes(32)


def best(function: Callable[[], object]) -> float:
    """Microseconds of one call, the best of several rounds."""
    return min(timeit.repeat(function, number=CALLS, repeat=REPEATS)) / CALLS * 1e6


def measure() -> dict[str, float]:
    descriptors = (VECTORS / "protos" / "requests.binpb").read_bytes()
    plan = compile_plan(descriptors, "vectors.v1.Refund", ["vectors.v1.Item"])
    parse = plan.root.message_class.FromString
    message = plan.root.message_class(order_id="O1", note="arrived broken", lines=[1, 2])
    message.amount.amount_minor, message.amount.currency = 50_00, "USD"
    body = message.SerializeToString()
    schema = compile_schema(
        json.dumps(json.loads(next(VECTORS.glob("json/002_*.json")).read_text())["schema"])
    )
    text = b'{"order_id":"O1","amount_minor":5000,"note":"arrived broken","lines":[1,2]}'
    encoded = walk(plan, body).encoded
    return {
        "parse alone": best(lambda: parse(body)),
        "parse and serialise": best(lambda: parse(body).SerializeToString(deterministic=True)),
        "walk": best(lambda: walk(plan, body)),
        "walk and digest": best(
            lambda: call_digest(KEY, 1, "/fin.v1.Finance/IssueRefund", KEY, walk(plan, body).encoded)
        ),
        "digest alone": best(lambda: call_digest(KEY, 1, "/fin.v1.Finance/IssueRefund", KEY, encoded)),
        "json.loads alone": best(lambda: json.loads(text)),
        "read_json": best(lambda: read_json(schema, text)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the microseconds to this file")
    chosen = parser.parse_args()
    found = measure()
    yardstick = found["parse and serialise"]
    for name, microseconds in found.items():
        print(f"{name:20} {microseconds / yardstick:7.2f} ×  ({microseconds:.2f} µs)")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
