"""Log lines are JSON with a constant event name; what an exception quotes is in none of them."""

import json
import subprocess
import sys
from typing import Any

from licet.log import MAX_FRAMES, frames

SECRET = "canary-in-an-error"
PROGRAM = f"""
import logging
from licet.log import configure_logging, log

def fail():
    try:
        int("{SECRET}")
    except ValueError as error:
        raise RuntimeError("cannot read {SECRET}") from error

configure_logging("test")
logger = logging.getLogger("test_log")
log(logger, logging.WARNING, "door.fault", trace_id="{"ab" * 16}")
try:
    fail()
except RuntimeError:
    logger.exception("decide.fault")
"""


def lines() -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_line_has_event_process_fields_and_of_an_exception_type_and_frames_alone() -> None:
    plain, failed = lines()
    assert plain.items() >= {"event": "door.fault", "process": "test", "level": "warning"}.items()
    assert plain["trace_id"] == "ab" * 16
    assert failed["event"] == "decide.fault"
    assert failed["error"] == "RuntimeError"
    assert any(one.endswith(" fail") for one in failed["frames"])
    assert "caused by ValueError" in failed["frames"]
    assert SECRET not in json.dumps(failed)


def test_frames_of_an_endless_chain_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert len(frames(first)) == MAX_FRAMES
