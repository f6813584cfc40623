"""A child is waited for, its failure explains itself, and it never outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from licet.embedded.process import Process, StartError


def _python(tmp_path: Path, code: str, **more: object) -> Process:
    return Process("child", [sys.executable, "-c", code], log=tmp_path / "child.log", **more)  # type: ignore[arg-type]


def test_child_that_gets_ready_runs_until_it_is_stopped(tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    code = f"import time, pathlib; pathlib.Path({str(flag)!r}).touch(); time.sleep(60)"
    child = _python(tmp_path, code, ready=flag.exists)
    child.start()
    child.wait_ready()
    assert child.alive
    child.stop()
    assert not child.alive
    assert child.pid == 0


def test_child_that_ends_before_it_is_ready_shows_its_log(tmp_path: Path) -> None:
    child = _python(tmp_path, "raise SystemExit('no such key file')", ready=lambda: False)
    child.start()
    with pytest.raises(StartError, match="no such key file"):
        child.wait_ready()


def test_child_that_stays_silent_is_an_error_not_a_hang(tmp_path: Path) -> None:
    child = _python(tmp_path, "import time; time.sleep(60)", ready=lambda: False)
    child.start()
    with pytest.raises(StartError, match="was not ready"):
        child.wait_ready(timeout_s=0.2)
    child.kill()


def test_child_that_ignores_terminate_is_killed(tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    code = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f" pathlib.Path({str(flag)!r}).touch(); time.sleep(60)"
    )
    child = _python(tmp_path, code, ready=flag.exists)
    child.start()
    child.wait_ready()
    child.stop(timeout_s=0.2)
    assert not child.alive


def test_child_that_only_runs_reports_its_status(tmp_path: Path) -> None:
    _python(tmp_path, "pass").run()
    with pytest.raises(StartError, match="status 3"):
        _python(tmp_path, "raise SystemExit(3)").run()


def test_killed_parent_leaves_no_child(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"""
import pathlib, sys, time
from licet.embedded.process import Process
sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
child = Process("child", sleep, log=pathlib.Path({str(tmp_path)!r}) / "log")
child.start()
pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    end = time.monotonic() + 60
    while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    child_pid = int(pid_file.read_text())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    while _runs(child_pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _runs(child_pid)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"
