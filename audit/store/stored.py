"""A message as JetStream has it, and whose house it belongs to. Pure values."""

from dataclasses import dataclass
from functools import lru_cache

from licet.identity import audit_writer_id, decider_id, reconciler_id, sidecar_id
from licet.keys import KeySet


@dataclass(frozen=True, slots=True)
class Stored:
    """One message as JetStream has it. `origin_seq`: for the spend log, its sequence in the spend stream."""

    stream: str
    subject: str
    seq: int
    time_us: int
    data: bytes
    origin_seq: int = 0


@dataclass(frozen=True, slots=True)
class House:
    """Whose messages these are: the environment, the trust domain, and the keys that may sign."""

    environment: str
    trust_domain: str
    keys: KeySet | None

    def sources(self, process: str, name: str) -> tuple[str, ...]:
        """Return the ids that may speak under the subject of `process` and `name`."""
        return _sources(self.trust_domain, self.environment, process, name)


@lru_cache(maxsize=4096)
def _sources(trust_domain: str, environment: str, process: str, name: str) -> tuple[str, ...]:
    match process:
        case "decider":
            return (decider_id(trust_domain, environment),)
        case "sidecar":
            return (sidecar_id(trust_domain, environment, name),)
        case "audit":
            return (reconciler_id(trust_domain, environment), audit_writer_id(trust_domain, environment))
        case _:
            return (f"spiffe://{trust_domain}/{environment}/{process}/{name}",)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a message cannot be a row."""

    reason: str
    detail: str
