"""`licet demo`: the failure without and with a gate, then every case. Exit status 1 when anything differs."""

import licet.embedded  # noqa: F401, I001 - before grpc: it settles how gRPC goes with starting children

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from examples.refund.demo import evidence, report
from examples.refund.demo.attempt import Case
from examples.refund.demo.cases import CASES, CaseFunction, title_of
from examples.refund.demo.house import House
from examples.refund.demo.play import Play
from examples.refund.demo.story import Told, Ungated, tell_gated, tell_ungated
from licet.embedded.process import StartError
from licet.embedded.trace_tree import render

LOST_MINOR = -5000
"""What leaves without a gate: 50.00 USD."""


class Demo:
    """One showing.

    Args:
        house: the running house.
        say: gets what is shown, line by line.
        progress: gets what is done meanwhile.
    """

    def __init__(self, house: House, say: Callable[[str], None], progress: Callable[[str], None]) -> None:
        self._house = house
        self._say = say
        self._progress = progress
        self.right = True

    def opening(self, tool: Ungated) -> dict[str, Any]:
        """Tell the failure, ungated and gated; return both as plain values."""
        ungated = tell_ungated(self._house, tool)
        gated, case = tell_gated(self._house)
        evidence.read_all(self._house, [case])
        self._say(report.heading("Ungated: the agent reads refund_allowed=false, and refunds all the same"))
        self._tell(ungated, expected_minor=LOST_MINOR, expected_calls=1)
        self._say(report.heading("Gated: the same agent, the same order"))
        self._tell(gated, expected_minor=0, expected_calls=0)
        self._show_cases([case], first=0)
        return {"ungated": report.told_json(ungated), "gated": report.told_json(gated)}

    def cases(self) -> list[Case]:
        """Play every case, then read every evidence; return them."""
        played = []
        for number, function in enumerate(CASES, 1):
            self._progress(f"case {number} of {len(CASES)}: {title_of(function)}")
            played.append(self._play(function, Case(function.__name__, title_of(function))))
        self._progress("reading evidence from ClickHouse")
        self._say(report.heading("Cases: each attack and its lawful twin, with the evidence in ClickHouse"))
        self._say(report.table_head())
        evidence.read_all(self._house, played, lambda case: self._show_cases([case], played.index(case) + 1))
        return played

    def _play(self, function: CaseFunction, case: Case) -> Case:
        """Play a case; one that breaks is shown as wrong, and the others are played all the same."""
        try:
            function(Play(self._house, case))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is shown and ends in status 1
            case.broke = f"{type(error).__name__}: {error}"
        return case

    def verify(self) -> dict[str, Any]:
        """Have the whole audit verified: chains, checkpoints, columns, spends against decisions."""
        self._progress("verifying the audit")
        sound, said = self._house.verify()
        self.right &= sound
        self._say(f"\nlicet audit verify: {said}")
        return {"sound": sound, "said": said}

    def _tell(self, told: Told, *, expected_minor: int, expected_calls: int) -> None:
        self.right &= (told.ledger_minor, told.refund_calls) == (expected_minor, expected_calls)
        for line in report.story_lines(told, self._tree(told.trace_id)):
            self._say(line)

    def _tree(self, trace_id: str) -> str:
        traces = self._house.stack.traces
        assert traces is not None
        evidence.wait_for_spans(self._house, trace_id)
        return render(traces.trace(trace_id), traces.linked_to(trace_id), width=report.WIDTH - 2)

    def _show_cases(self, cases: list[Case], first: int) -> None:
        for number, case in enumerate(cases, first):
            self.right &= case.right
            for line in report.case_lines(number, case):
                self._say(line)


def main() -> int:
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(prog="licet demo", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.add_argument("--keep", type=Path, help="keep the data in this new directory")
    arguments = parser.parse_args()
    started = time.monotonic()
    say: Callable[[str], None] = (
        (lambda _: None) if arguments.json else (lambda line: print(line, flush=True))
    )
    try:
        with _directory(arguments.keep) as directory:
            result, right = _show(directory, say, started)
    except (StartError, FileExistsError) as error:
        print(error, file=sys.stderr)
        return 1
    seconds = time.monotonic() - started
    if arguments.json:
        print(json.dumps({**result, "right": right, "seconds": round(seconds, 1)}, indent=2))
    attempts = sum(len(case["attempts"]) for case in result["cases"])
    verdict = "all as expected" if right else "NOT as expected, see !!"
    print(f"\n{len(result['cases'])} cases, {attempts} attempts: {verdict}", file=sys.stderr)
    print(f"run time {seconds:.1f} s", file=sys.stderr)
    return 0 if right else 1


def _show(directory: Path, say: Callable[[str], None], started: float) -> tuple[dict[str, Any], bool]:
    def progress(text: str) -> None:
        print(f"[{time.monotonic() - started:5.1f} s] {text}", file=sys.stderr, flush=True)

    house = House(directory / "house", progress=progress)
    with Ungated(directory / "ungated", house.stack.otlp_endpoint) as tool, house:
        demo = Demo(house, say, progress)
        result = demo.opening(tool)
        cases = demo.cases()
        result["audit"] = demo.verify()
        progress("stopping")
    return {**result, "cases": [report.case_json(case) for case in cases]}, demo.right


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="licet-demo-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


if __name__ == "__main__":
    sys.exit(main())
