"""One child process of the embedded house: started, waited for, stopped or killed by its own pid.

Guarantees: a child that does not get ready is an error that shows the end of its log; a child never outlives
the process that started it, also when that one is killed (Linux `PR_SET_PDEATHSIG`); nothing is ever killed
by name.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

_LEASH: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15);"  # PR_SET_PDEATHSIG, SIGTERM
    " os.getppid() == int(sys.argv[1]) or sys.exit(1);"  # the parent died before the leash was on
    " os.execvp(sys.argv[2], sys.argv[2:])"
)
_POLL_S: Final = 0.02
_LOG_TAIL_LINES: Final = 20

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0


class StartError(RuntimeError):
    """A child ended or stayed silent before it was ready; the message ends with the end of its log."""


class Process:
    """A child process with its log file and its environment."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
    ) -> None:
        self.name = name
        self._command = tuple(command)
        self._environment = dict(environment or {})
        self._log = log
        self._ready = ready
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The pid of the running child; 0 when there is none."""
        return self._child.pid if self._child is not None and self.alive else 0

    @property
    def alive(self) -> bool:
        """Whether the child runs."""
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        """Start the child without waiting for it; does nothing when it runs."""
        if self.alive:
            return
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - the command is the stack's own
                on_a_leash(self._command),
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt at the terminal goes to the supervisor alone
            )

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the child says it is ready.

        Raises:
            StartError: it ended, or was not ready in time.
        """
        end = time.monotonic() + timeout_s
        while self._ready is not None and not self._ready():
            if not self.alive:
                raise StartError(f"`{self.name}` ended with status {self._status}\n{self.log_tail()}")
            if time.monotonic() > end:
                raise StartError(f"`{self.name}` was not ready in {timeout_s:.0f} s\n{self.log_tail()}")
            time.sleep(_POLL_S)

    def run(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Run the child to its end.

        Raises:
            StartError: it ended with another status than 0, or not in time.
        """
        self.start()
        self.finish(timeout_s)

    def finish(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait for the end of a child that was started.

        Raises:
            StartError: it ended with another status than 0, or not in time.
        """
        if self._child is None:
            raise StartError(f"`{self.name}` did not start")
        try:
            status = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise StartError(f"`{self.name}` did not end in {timeout_s:.0f} s\n{self.log_tail()}") from None
        if status:
            raise StartError(f"`{self.name}` ended with status {status}\n{self.log_tail()}")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask the child to end, and kill it when it has not after `timeout_s`."""
        self.ask_to_end()
        self.ended(timeout_s)

    def ask_to_end(self) -> None:
        """Ask the child to end (SIGTERM) without waiting."""
        if self._child is not None and self.alive:
            self._child.terminate()

    def ended(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Wait until the child has ended; kill it when it has not after `timeout_s`."""
        if self._child is None:
            return
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the child at once (SIGKILL) and reap it."""
        if self._child is not None and self.alive:
            self._child.kill()
            self._child.wait()

    def log_tail(self) -> str:
        """Give the last lines of its log."""
        if not self._log.exists():
            return ""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])

    @property
    def _status(self) -> int | None:
        return self._child.returncode if self._child is not None else None


def run_together(steps: Sequence[Process]) -> None:
    """Run children at once, each to its end.

    Raises:
        StartError: one did not end well; the others are killed.
    """
    for step in steps:
        step.start()
    try:
        for step in steps:
            step.finish()
    finally:
        for step in steps:
            step.kill()


def stop_together(processes: Sequence[Process]) -> None:
    """Stop children at once; each has its own time to end."""
    for process in processes:
        process.ask_to_end()
    for process in processes:
        process.ended()


def answers_http(port: int, path: str) -> bool:
    """Whether `path` on loopback answers 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def accepts_tcp(port: int) -> bool:
    """Whether something on loopback accepts connections at `port`."""
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def on_a_leash(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that runs `command` in the same process, to be ended when its parent dies.

    Set from inside the child, after its exec: `preexec_fn` would run the fork handlers of grpc and
    OpenTelemetry in the forked child of a process with threads, which at times aborts it.
    """
    return (sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), *command)
