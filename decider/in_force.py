"""What is in force: one configuration, verified as a whole, as a value that one decision is made under.

Guarantees: bundle, key set and revocations belong to the configuration record of `config_seq` and to each
other; nothing of an older record is mixed in. How it is read and kept fresh is `decider.configuration`.
"""

from dataclasses import dataclass

from decider.bundle import LoadedBundle
from licet.keys import KeySet
from licet.revocation import Revocations
from licet.v1.beacon_pb2 import ActiveConfig


@dataclass(frozen=True, slots=True)
class InForce:
    """One configuration, its record and its sequence in JetStream."""

    config: ActiveConfig
    config_seq: int
    bundle: LoadedBundle
    keys: KeySet
    revocations: Revocations

    @property
    def generation(self) -> int:
        """Generation of the stores."""
        return self.config.generation
