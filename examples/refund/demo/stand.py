"""A running stack with one agent connected to it: what every showing stands on."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final, Self

from audit.store.client import StoreAddress
from examples.refund.demo.wire import Wire
from licet import tracing
from licet.embedded.stack import Stack
from licet.identity import agent_id

WAIT_S: Final = 60.0
POLL_S: Final = 0.05
LICET: Final = (sys.executable, "-m", "licet")


class Stand:
    """A stack, an agent's connections to it, and the audit store.

    Args:
        stack: not started; runs while this is entered.
        agent: who asks; its tool is the project's first.
    """

    def __init__(self, stack: Stack, agent: str) -> None:
        self.stack = stack
        self._agent = agent
        self._calls = itertools.count(1)

    def __enter__(self) -> Self:
        self.stack.start()
        try:
            self._connect()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()
        self.tracing.shutdown()
        self.store.close()
        self.stack.close()

    def _connect(self) -> None:
        project = self.stack.project
        self.tracing = tracing.configure("agent", self.stack.otlp_endpoint)
        tool = project.tools[0].name
        sidecars = [self.stack.sidecar(tool, replica) for replica in range(self.stack.replicas)]
        self.identity = agent_id("licet.local", project.environment, self._agent)
        self.wire = Wire(self.stack.decider, sidecars, self.identity, self.tracing)
        address = StoreAddress(self.stack.clickhouse_url, password_file=self.stack.layout.clickhouse_password)
        self.store: Any = address.client()

    def call_id(self) -> str:
        """Return the id of a step that nobody took yet."""
        return f"call_{next(self._calls)}"

    def verify(self) -> tuple[bool, str]:
        """Run `licet audit verify` on the store; return whether it is sound, and its last line."""
        return self.licet("audit", "verify")

    def approve(self, hold_id: str, approver: str) -> tuple[bool, str]:
        """Run `licet approvals approve` with an approver's development key; return whether it counted."""
        key = str(self.stack.layout.keys / f"approver-{approver}.key")
        return self.licet("approvals", "approve", hold_id, "--key", key, "--yes")

    def licet(self, *words: str) -> tuple[bool, str]:
        """Run a `licet` command against the stack; return whether it ended with 0, and its last line."""
        environment = {
            **os.environ,
            **self.stack.audit_environment(),
            "LICET_DECIDER": self.stack.decider,
            "LICET_IDENTITY": f"spiffe://licet.local/{self.stack.project.environment}/desk",
        }
        done = subprocess.run((*LICET, *words), env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        said = (done.stdout.strip() or done.stderr.strip() or "it said nothing").splitlines()
        return done.returncode == 0, said[-1]

    def until(self, true: Callable[[], bool], what: str, within_s: float = WAIT_S) -> None:
        """Wait until `true` returns True. Raises TimeoutError that names `what`."""
        end = time.monotonic() + within_s
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: not within {within_s:.0f} s")
            time.sleep(POLL_S)
