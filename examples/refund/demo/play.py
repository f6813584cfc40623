"""Runs cases in a house: counts before and after each attempt, keeps every step with its trace."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from examples.refund.demo.attempt import Attempt, Case, Expected
from examples.refund.demo.house import TASK, House
from examples.refund.demo.wire import GET_ORDER, REFUND, Asked, Reply, Step
from examples.refund.fin.v1.finance_pb2 import Amount, GetOrderRequest, IssueRefundRequest

FIFTY: Final = 5000
"""50.00 USD in minor units: what every order of the example cost."""


def refund(order: str, minor: int = FIFTY) -> bytes:
    """Return the bytes of a refund request, in USD."""
    return refund_message(order, minor).SerializeToString()


def refund_message(order: str, minor: int = FIFTY) -> IssueRefundRequest:
    """Return a refund request, in USD."""
    return IssueRefundRequest(order_id=order, amount=Amount(minor=minor, currency="USD"), reason="damaged")


def get_order(order: str) -> bytes:
    """Return the bytes of a request for an order."""
    return GetOrderRequest(order_id=order).SerializeToString()


class Play:
    """A case being played."""

    def __init__(self, house: House, case: Case) -> None:
        self.house = house
        self.case = case
        self._attempt: Attempt | None = None

    @contextmanager
    def attack(self, label: str, expected: Expected) -> Iterator[Attempt]:
        """Try what must not work."""
        with self._measured(Attempt(label, lawful=False, expected=expected)) as attempt:
            yield attempt

    @contextmanager
    def lawful(self, label: str, expected: Expected) -> Iterator[Attempt]:
        """Try the nearest thing that must work."""
        with self._measured(Attempt(label, lawful=True, expected=expected)) as attempt:
            yield attempt

    @contextmanager
    def _measured(self, attempt: Attempt) -> Iterator[Attempt]:
        self._attempt = attempt
        self.case.attempts.append(attempt)
        calls, balance = self.house.refund_calls(), self.house.balance_minor()
        started = time.monotonic()
        try:
            yield attempt
        finally:
            self._attempt = None
            for step in attempt.steps:
                step.recording.close()
        attempt.seconds = time.monotonic() - started
        seen = attempt.seen
        seen.refund_calls = self.house.refund_calls() - calls
        seen.ledger_minor = self.house.balance_minor() - balance
        seen.replies = tuple(reply.reason for step in attempt.steps for reply in step.replies) or tuple(
            asked.reason for step in attempt.steps for asked in step.asked
        )

    # --- what a caller can do ---

    def step(self, task_id: str = TASK, *, span: str = "execute_tool refund") -> Step:
        """Begin a step that nobody took yet, as part of the attempt that runs."""
        assert self._attempt is not None
        step = self.house.wire.step(self.house.call_id(), task_id, span)
        self._attempt.steps.append(step)
        return step

    def forget(self, step: Step) -> None:
        """Take a step out of the attempt: it came too late for what was to be tried."""
        assert self._attempt is not None
        self._attempt.steps.remove(step)
        step.recording.close()

    def decide(self, step: Step, body: bytes, method: str = REFUND) -> Asked:
        """Ask for a decision."""
        return self.house.wire.decide(step, method, body)

    def present(
        self, step: Step, body: bytes, *permits: bytes, method: str = REFUND, replica: int = 0
    ) -> Reply:
        """Send a call with what stands in the permit's place."""
        return self.house.wire.present(step, method, body, permits, replica)

    def executed(self, body: bytes, *, replica: int = 0) -> Step:
        """Take a step as a lawful caller does: ask, then send exactly that."""
        step = self.step()
        asked = self.decide(step, body)
        self.present(step, body, asked.sent, replica=replica)
        return step

    def read(self, order: str) -> tuple[Step, Asked]:
        """Ask to read an order."""
        step = self.step()
        return step, self.decide(step, get_order(order), GET_ORDER)


def together(actions: Sequence[Callable[[], object]]) -> None:
    """Run actions at once, as near as threads come; return when all have ended."""
    gate = threading.Barrier(len(actions))

    def wait_and(action: Callable[[], object]) -> None:
        gate.wait()
        action()

    threads = [threading.Thread(target=wait_and, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
