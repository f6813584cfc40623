"""Puts a signed bundle beside the one in force as a candidate, and takes it away again.

Guarantees: what is enforced does not change, whatever the candidate is; the candidate is signed by the bundle
key, loads, is newer than what is in force, and stands in the same record, so every decider has the same.
"""

from dataclasses import dataclass
from typing import Final

from decider.in_force.activate import ActivationError
from decider.in_force.change import Change, Now, Place, changed, record_after
from decider.policy.bundle import BundleError, load_bundle
from licet.refusal import Refusal
from licet.statement import PayloadType, artifact_sha256, verify
from licet.v1.statement_pb2 import Signed

NONE: Final = "there is no candidate"


@dataclass(frozen=True, slots=True)
class _Proposal:
    bundle: Signed

    async def make(self, now: Now) -> Change:
        payload = verify(PayloadType.BUNDLE, self.bundle, now.in_force.keys, now_ms=now.now_ms)
        if isinstance(payload, Refusal):
            raise ActivationError(f"the candidate: {payload.reason}: {payload.detail}")
        try:
            candidate = load_bundle(payload)
        except BundleError as error:
            raise ActivationError(f"the candidate: {error}") from error
        active = now.in_force.bundle
        if candidate.environment != active.environment or candidate.version <= active.version:
            raise ActivationError(
                f"the candidate is {candidate.version} of `{candidate.environment}`: it must be newer than "
                f"{active.version}, which is in force in `{active.environment}`"
            )
        record = record_after(now.in_force.config, now.now_ms)
        record.candidate_version = candidate.version
        record.candidate_sha256 = artifact_sha256(self.bundle)
        said = f"bundle {candidate.version} is evaluated beside {active.version}, which stays in force"
        return Change(record, (self.bundle,), said)


async def propose(place: Place, bundle: Signed) -> str:
    """Put a candidate beside and say so. Raises `ActivationError`, `StreamsError`."""
    return await changed(place, _Proposal(bundle).make)


async def withdraw(place: Place) -> str:
    """Take the candidate away and say so. Raises `ActivationError`, `StreamsError`."""
    return await changed(place, _without)


async def _without(now: Now) -> Change | str:
    record = record_after(now.in_force.config, now.now_ms)
    if not record.candidate_version:
        return NONE
    said = f"bundle {record.candidate_version} is no longer evaluated beside"
    record.ClearField("candidate_version")
    record.ClearField("candidate_sha256")
    return Change(record, (), said)
