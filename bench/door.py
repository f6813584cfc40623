"""What the checks cost beside one Ed25519 verification of the same permit: in one process, by turns.

Read the ratios: `lawful` is all checks over one verification; `bad_signature` over `lawful` must stay below
1, else refusing would be dearer than letting through. Run: `python bench/door.py [--rounds N] [--json]`.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns

sys.path.insert(0, str(Path(__file__).parents[1]))

from licet.dsse import PayloadType, signature_fits
from licet.permit import examine
from licet.v1.statement_pb2 import Signed
from tests.worlds import permit as world
from tests.worlds.permit import DOOR, NOW

CALLS = 100
LAWFUL = world.presented()
PRIVILEGED = world.approved_wipe()
BAD = replace(LAWFUL, permits=(world.sign(world.decision(), slot=PayloadType.DECISION),))
NO_PERMIT = replace(LAWFUL, permits=())
SIGNED = Signed.FromString(LAWFUL.permits[0])
KEY = world.signing_key("decider").public_key

CASES: dict[str, Callable[[], object]] = {
    "verification": lambda: signature_fits(PayloadType.PERMIT, SIGNED, KEY),
    "lawful": lambda: examine(LAWFUL, DOOR, now_ms=NOW, monotonic_ms=NOW),
    "privileged_two_approvals": lambda: examine(PRIVILEGED, DOOR, now_ms=NOW, monotonic_ms=NOW),
    "bad_signature": lambda: examine(BAD, DOOR, now_ms=NOW, monotonic_ms=NOW),
    "no_permit": lambda: examine(NO_PERMIT, DOOR, now_ms=NOW, monotonic_ms=NOW),
}


def timed(call: Callable[[], object]) -> float:
    """Return µs a call."""
    start = perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (perf_counter_ns() - start) / CALLS / 1000


def measure(rounds: int) -> dict[str, float]:
    """Return the median µs of each case; the cases take turns, so a busy machine slows all."""
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(rounds):
        for name, call in CASES.items():
            times[name].append(timed(call))
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="rounds of 100 calls a case (default 30)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    medians = measure(chosen.rounds)
    base = medians["verification"]
    result = {name: {"us": round(us, 2), "ratio": round(us / base, 3)} for name, us in medians.items()}
    if chosen.json:
        print(json.dumps(result))
        return
    for name, row in result.items():
        print(f"{name:26} {row['us']:9.2f} µs  {row['ratio']:7.3f} × one verification")


if __name__ == "__main__":
    main()
