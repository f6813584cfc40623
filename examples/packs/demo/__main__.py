"""`licet demo --pack NAME`: a pack's story, with its evidence. Exit status 1 when anything differs."""

import licet.embedded  # noqa: F401, I001 - before grpc: it settles how gRPC goes with starting children

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Final

from examples.packs.demo.story import HELD, Line, Story, read_story
from examples.refund.demo import evidence, report
from examples.refund.demo.attempt import Attempt, Case
from examples.refund.demo.stand import Stand
from examples.refund.demo.wire import Reply, Step
from licet.embedded.process import StartError
from licet.embedded.project import read_project
from licet.embedded.stack import Stack, Progress

PACKS: Final = Path(__file__).resolve().parents[1]


class Showing:
    """Plays a story: each line is one step, counted in the tool and its ledger before and after."""

    def __init__(self, stand: Stand, story: Story) -> None:
        self._stand, self._story = stand, story
        self._layout, self._tool = stand.stack.layout, stand.stack.project.tools[0].name

    def case(self, name: str, title: str, lines: tuple[Line, ...], *, lawful: bool) -> Case:
        """Play some lines; one that breaks is shown as wrong."""
        case = Case(name, title)
        for line in lines:
            attempt = Attempt(line.label, lawful=lawful, expected=line.expected)
            case.attempts.append(attempt)
            try:
                self._play(line, attempt)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is shown and ends in status 1
                case.broke = f"{line.label}: {type(error).__name__}: {error}"
        return case

    def _play(self, line: Line, attempt: Attempt) -> None:
        calls, minor, started = self._calls(line.method), self._minor(), time.monotonic()
        tool = line.method.rpartition("/")[2]
        step = self._stand.wire.step(
            self._stand.call_id(), self._story.task, f"execute_tool {tool}", tool=tool
        )
        attempt.steps.append(step)
        try:
            self._ask(line, step)
        finally:
            step.recording.close()
        attempt.seconds = time.monotonic() - started
        attempt.seen.replies = tuple(reply.reason for reply in step.replies)
        attempt.seen.refund_calls = self._calls(line.method) - calls
        attempt.seen.ledger_minor = self._minor() - minor

    def _ask(self, line: Line, step: Step) -> None:
        """Ask, have a person approve what is held, ask again, and call with the permit there is."""
        wire = self._stand.wire
        asked = wire.decide(step, line.method, line.body)
        if asked.hold_id and line.approver:
            step.replies.append(Reply(HELD, ""))
            counted, said = self._stand.approve(asked.hold_id, line.approver)
            if not counted:
                raise RuntimeError(f"the approval did not count: {said}")
            asked = wire.decide(step, line.method, line.body)
        if asked.reason:
            step.replies.append(Reply(asked.reason, ""))
        else:
            wire.present(step, line.method, line.body, (asked.sent,))

    def _calls(self, method: str) -> int:
        path = self._layout.tool_calls(self._tool)
        name = method.rpartition("/")[2]
        return path.read_text().count(f'"method": "{name}"') if path.exists() else 0

    def _minor(self) -> int:
        """Return what the ledger adds up to, minor units."""
        path = self._layout.tool(self._tool) / "ledger.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as book:
            return int(book.execute("SELECT coalesce(sum(amount_minor), 0) FROM ledger").fetchone()[0])


def show(pack: Path, directory: Path, progress: Progress) -> tuple[Story, list[Case], tuple[bool, str]]:
    """Play a pack's story in a new directory; return it with what was seen, and what the verifier said."""
    story = read_story(pack)
    stack = Stack(directory / "data", read_project(pack), progress=progress)
    with Stand(stack, story.agent) as stand:
        showing = Showing(stand, story)
        progress("playing the story")
        cases = [
            showing.case("lawful", "Lawful: executed", story.lawful, lawful=True),
            showing.case("stopped", "Not allowed: stopped", story.stopped, lawful=False),
            showing.case("held", "Held: executed once a person has approved", story.held, lawful=True),
        ]
        progress("reading evidence from ClickHouse")
        evidence.read_all(stand, cases)
        progress("verifying the audit")
        verified = stand.verify()
        progress("stopping")
    return story, cases, verified


def main() -> int:
    """Play; returns the exit status."""
    parser = argparse.ArgumentParser(prog="licet demo --pack", description=__doc__)
    parser.add_argument("pack", choices=sorted(one.parent.name for one in PACKS.glob("*/story.yaml")))
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--keep", type=Path, help="keep the data in this new directory")
    arguments = parser.parse_args()
    started = time.monotonic()

    def progress(text: str) -> None:
        print(f"[{time.monotonic() - started:5.1f} s] {text}", file=sys.stderr, flush=True)

    try:
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True)
        with (
            nullcontext(arguments.keep)
            if arguments.keep
            else tempfile.TemporaryDirectory(prefix="licet-pack-", ignore_cleanup_errors=True) as directory
        ):
            story, cases, verified = show(PACKS / arguments.pack, Path(directory), progress)
    except (StartError, FileExistsError) as error:
        print(error, file=sys.stderr)
        return 1
    right = verified[0] and all(case.right for case in cases)
    if arguments.json:
        print(json.dumps(_as_json(arguments.pack, cases, verified, right=right), indent=2))
    else:
        _print(story, cases, verified)
    print("\nall as expected" if right else "\nNOT as expected, see !!", file=sys.stderr)
    return 0 if right else 1


def _as_json(pack: str, cases: list[Case], verified: tuple[bool, str], *, right: bool) -> dict[str, object]:
    audit = {"sound": verified[0], "said": verified[1]}
    return {"pack": pack, "cases": [report.case_json(case) for case in cases], "audit": audit, "right": right}


def _print(story: Story, cases: list[Case], verified: tuple[bool, str]) -> None:
    print(report.heading(story.title))
    print(report.table_head())
    for number, case in enumerate(cases, 1):
        for line in report.case_lines(number, case):
            print(line)
    print(f"\nlicet audit verify: {verified[1]}")


if __name__ == "__main__":
    sys.exit(main())
