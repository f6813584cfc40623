"""What is in force: one configuration, verified as a whole, as a value that one decision is made under.

Guarantees: bundle, key set and revocations belong to the configuration record of `config_seq` and to each
other; nothing of an older record is mixed in. `decider.in_force.configuration` reads it and keeps it fresh.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from decider.policy.bundle import LoadedBundle
from licet.keys import KeySet
from licet.revocation import RevocationKind, Revocations
from licet.v1.beacon_pb2 import ActiveConfig

MAX_NAMED: Final = 20
"""So many revocations are named in one record; the list has them all."""


@dataclass(frozen=True, slots=True)
class InForce:
    """One configuration, its record and its sequence in JetStream."""

    config: ActiveConfig
    config_seq: int
    bundle: LoadedBundle
    keys: KeySet
    revocations: Revocations
    candidate: LoadedBundle | None = None
    """The bundle that is evaluated beside, without any influence."""

    @property
    def generation(self) -> int:
        """Generation of the stores."""
        return self.config.generation

    @property
    def shadow(self) -> str:
        """What shadow lets through, for people; empty in stage enforce."""
        if not self.bundle.shadow:
            return ""
        if self.bundle.waiver is None:
            return "stage shadow for reads"
        until = _moment(self.bundle.waiver.not_after_ms)
        return f"stage shadow, for writes until {until}: {self.bundle.waiver.reason}"

    @property
    def revoked_keys(self) -> frozenset[str]:
        """Ids of the keys that are revoked."""
        return frozenset(name for kind, name in self.revocations.entries if kind is RevocationKind.KEY)

    def differs_from(self, before: "InForce | None") -> str:
        """Say what came into force with this configuration, for the record."""
        parts = [
            f"bundle {self.bundle.version}",
            f"key set {self.keys.version}",
            f"generation {self.generation}",
            *filter(None, (self.shadow,)),
            *((f"candidate {self.candidate.version}",) if self.candidate is not None else ()),
        ]
        known = before.revocations.entries if before is not None else frozenset()
        new, lifted = self.revocations.entries - known, known - self.revocations.entries
        parts += [f"revoked {kind} `{name}`" for kind, name in sorted(new)[:MAX_NAMED]]
        parts += [f"no longer revoked {kind} `{name}`" for kind, name in sorted(lifted)[:MAX_NAMED]]
        more = max(0, len(new) - MAX_NAMED) + max(0, len(lifted) - MAX_NAMED)
        return "; ".join(parts) + (f"; and {more} more" if more else "")


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
