"""A pytest plugin that takes one check of the door away: `-p tests.removal.without_check --without-check
NAME`.

Checks 2 to 11 are functions in a list, and leave it. The steps before and after them are lines of the door,
and are taken out of its source.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import sidecar.core
from licet.permit import checks
from licet.permit.case import Case
from licet.permit.checks import Check
from licet.v1.decision_pb2 import Decision
from licet.v1.statement_pb2 import Signed
from sidecar.admission import Admission
from sidecar.core import Door


def hollow_03(case: Case) -> None:
    """Takes the first permit, however many there are."""
    case.signed = Signed.FromString(case.presented.permits[0])


def hollow_05(case: Case) -> None:
    """Parses as protobuf usually does: unknown fields are ignored."""
    case.decision = Decision.FromString(case.signed.payload)


def hollow_06(case: Case) -> None:
    """Takes the method of the path, whatever the permit says."""
    case.method = case.versions.listed(case.decision.method_digest) or case.versions.current


HOLLOW: dict[str, Check] = {
    "check_03_single": hollow_03,
    "check_05_decision": hollow_05,
    "check_06_scope": hollow_06,
}
"""Checks that establish what later ones need, without their judgement."""


@contextmanager
def without(name: str) -> Iterator[None]:
    """Run the door without the check of that name; raises ValueError if there is none."""
    whole = checks.CHECKS
    if name not in {check.__name__ for check in whole}:
        raise ValueError(f"there is no check `{name}`")
    hollow = HOLLOW.get(name)
    if hollow is None:
        reduced = tuple(check for check in whole if check.__name__ != name)
    else:
        hollow.__name__ = name
        reduced = tuple(hollow if check.__name__ == name else check for check in whole)
    checks.CHECKS = reduced
    try:
        yield
    finally:
        checks.CHECKS = whole


@dataclass(frozen=True)
class Line:
    """What one step of the door comes down to, and what stands there without it."""

    owner: Any
    function: str
    there: str
    instead: str

    def rewritten(self) -> Callable[..., Any]:
        """Return the function without its step; raises ValueError where the line is not there just once."""
        function = getattr(self.owner, self.function)
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.there) != 1:
            raise ValueError(f"`{self.there}` is not the one line of {self.function}")
        made: dict[str, Callable[..., Any]] = {}
        exec(source.replace(self.there, self.instead), function.__globals__, made)
        return made[self.function]


STEPS: dict[str, Line] = {
    "step_01_quota": Line(Admission, "enter", "if refusal is not None:", "if False:"),
    "step_01_size": Line(sidecar.core, "sized", "or len(body) <= MAX_REQUEST_BYTES", "or True"),
    "step_12_spend": Line(Door, "_execute", "if permit.spends:", "if False:"),
    "step_12_still_holds": Line(
        Door, "_execute", "reserved if isinstance(reserved, Refusal) else self._late(call, permit)", "None"
    ),
    "step_13_forward": Line(Door, "handle", "asyncio.shield(task)", "task"),
    "step_14_unknown": Line(Door, "_settle", "if outcome is not Outcome.UNKNOWN:", "if True:"),
    "step_14_proof": Line(Door, "_settle", "if answer.code == 0 and permit.spends and", "if False and"),
}
"""The steps that no function of `CHECKS` makes."""


@contextmanager
def without_step(name: str) -> Iterator[None]:
    """Run the door without the step of that name."""
    line = STEPS[name]
    whole = getattr(line.owner, line.function)
    setattr(line.owner, line.function, line.rewritten())
    try:
        yield
    finally:
        setattr(line.owner, line.function, whole)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-check", help="take this check of the door away")


@pytest.fixture(autouse=True)
def _without_check(request: pytest.FixtureRequest) -> Iterator[None]:
    name = request.config.getoption("--without-check", None)
    if name is None:
        yield
        return
    with without_step(name) if name in STEPS else without(name):
        yield
