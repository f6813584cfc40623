"""The risk flags of a call: what the egress check found in its arguments, less what the bundle expects."""

from dataclasses import replace
from typing import Final

from decider.decision.envelope import Envelope
from decider.decision.parts import Parts
from decider.egress import Allowed, Report, inspect
from decider.egress.beside import Beside
from decider.in_force.in_force import InForce
from decider.quota import cost_of_reading

_BESIDE: Final = Beside()


async def flagged(envelope: Envelope, in_force: InForce, parts: Parts, payer: str) -> Envelope:
    """Return the envelope with the risk flags of its arguments; what takes long is read beside the loop.

    What it took is owed by `payer`.
    """
    report = await _BESIDE.inspect(envelope.arguments, allowed=_expected(envelope, in_force))
    parts.quota.owe(payer, cost_of_reading(report.read_bytes))
    return _with(envelope, report)


def flag(envelope: Envelope, in_force: InForce) -> Envelope:
    """Return the envelope with what the egress check found in its arguments, less what the bundle expects."""
    return _with(envelope, inspect(envelope.arguments, allowed=_expected(envelope, in_force)))


def _expected(envelope: Envelope, in_force: InForce) -> Allowed | None:
    return in_force.bundle.egress.get(envelope.method.path)


def _with(envelope: Envelope, report: Report) -> Envelope:
    if not report.findings and (report.flags, frozenset()) == (envelope.risk_flags, envelope.flagged):
        return envelope
    paths = frozenset(finding.path for finding in report.findings)
    return replace(envelope, risk_flags=report.flags, flagged=paths)
