"""Explains a call file, decided dry: what `licet explain CALLFILE` asks of the decider's part."""

from pathlib import Path

from decider.policy.bundle import BundleError
from decider.policy.dry import DryError, decide_dry, read_call, read_ground
from decider.source import SourceError
from licet.clock import wall_ms
from licet.explain import Explanation, explain
from licet.explain_cli import ExplainError


def explain_file(file: Path, policy: Path, environment: str, trust_domain: str) -> Explanation:
    """Return the answers about a call file. Raises `ExplainError`."""
    now_ms = wall_ms()
    try:
        ground = read_ground(policy, environment=environment, trust_domain=trust_domain, now_ms=now_ms)
        record = decide_dry(read_call(file), ground, now_ms=now_ms)
    except (SourceError, BundleError, DryError) as error:
        raise ExplainError(str(error)) from None
    return explain(record, stored=False)
