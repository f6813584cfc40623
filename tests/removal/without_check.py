"""A pytest plugin that takes one check of the door away: `-p tests.removal.without_check --without-check
NAME`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from licet.permit import checks
from licet.permit.case import Case
from licet.permit.checks import Check
from licet.v1.decision_pb2 import Decision
from licet.v1.statement_pb2 import Signed


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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-check", help="take this check of the door away")


@pytest.fixture(autouse=True)
def _without_check(request: pytest.FixtureRequest) -> Iterator[None]:
    name = request.config.getoption("--without-check", None)
    if name is None:
        yield
        return
    with without(name):
        yield
