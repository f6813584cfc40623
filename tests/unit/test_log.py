"""Log lines are JSON with a constant event name; what an exception quotes is in none of them."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from licet.log import LIBRARY, MAX_FRAMES, frames, log, of_trace
from tests.worlds.log_lines import log_lines

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


A, B = "a" * 32, "b" * 32


@pytest.fixture
def kept() -> Iterator[list[dict[str, Any]]]:
    with log_lines() as lines:
        yield lines


LOGGER = logging.getLogger("test_log")


def test_line_inside_a_call_has_its_trace_and_one_outside_has_none(kept: list[dict[str, Any]]) -> None:
    with of_trace(A):
        log(LOGGER, logging.INFO, "inner.one")
        with of_trace(B):
            log(LOGGER, logging.INFO, "inner.two")
        with of_trace(""):
            LOGGER.debug("inner.three")
    log(LOGGER, logging.INFO, "outer.one")
    assert [(one["event"], one.get("trace_id")) for one in kept] == [
        ("inner.one", A), ("inner.two", B), ("inner.three", A), ("outer.one", None),
    ]  # fmt: skip


def test_calls_at_once_keep_their_own_traces_in_tasks_and_threads(kept: list[dict[str, Any]]) -> None:
    async def call(trace_id: str, other: asyncio.Event, mine: asyncio.Event) -> None:
        with of_trace(trace_id):
            mine.set()
            await other.wait()
            await asyncio.create_task(
                asyncio.to_thread(log, LOGGER, logging.INFO, "call.works", call=trace_id)
            )

    async def both() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        await asyncio.gather(call(A, first, second), call(B, second, first))

    asyncio.run(both())
    assert sorted((one["call"], one["trace_id"]) for one in kept if "call" in one) == [(A, A), (B, B)]


def test_what_a_library_says_is_no_event_and_says_no_value(kept: list[dict[str, Any]]) -> None:
    """asyncio and grpcio put the message of an exception into their lines: it may quote arguments."""
    logging.getLogger("grpc").error("Exception calling application: %s", ValueError(SECRET))
    logging.getLogger("asyncio").error("\n".join(("Task exception was never retrieved", f"future: {SECRET}")))
    first, second = (one for one in kept if one.get("logger") in {"grpc", "asyncio"})
    assert (first["event"], first["logger"]) == (LIBRARY, "grpc")
    assert first["text"] == "Exception calling application: %s"
    assert "text" not in second
    assert second["at"].startswith("test_log.py:")
    assert SECRET not in json.dumps(kept)


def test_frames_of_an_endless_chain_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert len(frames(first)) == MAX_FRAMES
