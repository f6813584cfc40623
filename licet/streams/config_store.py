"""The active configuration and the artifacts it names, in `LICET_CONFIG_<env>`.

Artifacts (key set, bundle, revocation list) are signed elsewhere and stored under the SHA-256 of their
serialised Signed: whoever reads one compares the digest, so the store can lose one but not swap one. The
active record is not signed; it is replaced by compare-and-set, and what a reader trusts is the signature of
what it names. `config_seq` is the record's JetStream sequence, so several deciders agree without a leader.
"""

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Final

from licet.refusal import Refusal
from licet.statement import canonical, strict_parse
from licet.streams.api import read_from, read_last
from licet.streams.errors import StreamsError
from licet.streams.publisher import Publisher
from licet.streams.replace import replace_last
from licet.streams.subjects import stream_config, subject_artifact, subject_config_active
from licet.v1.beacon_pb2 import ActiveConfig
from licet.v1.statement_pb2 import Signed

MAX_ARTIFACT_BYTES: Final = 480 * 1024


class ActivationLost(StreamsError):  # noqa: N818 - a state, told to callers as such
    """Somebody else activated a configuration in between; read it and decide again."""


class ArtifactDamaged(StreamsError):  # noqa: N818 - as above
    """The stored bytes are not what their name or their format says."""


class ConfigStore:
    """Reads from the stream's leader; writes through `publisher`. One environment."""

    def __init__(self, publisher: Publisher, env: str) -> None:
        self._publisher = publisher
        self._env = env

    async def active(self) -> tuple[ActiveConfig, int] | None:
        """Return the active configuration and its sequence, None where none was ever activated.

        Raises:
            ArtifactDamaged: the record cannot be read.
            StoreUnavailable, StoreRefused: the leader gave no answer, or said no.
        """
        stored = await read_last(
            self._publisher.nc, stream_config(self._env), subject_config_active(self._env)
        )
        if stored is None:
            return None
        config = strict_parse(ActiveConfig, stored.data)
        if isinstance(config, Refusal):
            raise ArtifactDamaged(f"the active configuration at sequence {stored.seq}: {config.detail}")
        if config.environment != self._env:
            raise ArtifactDamaged(f"the active configuration is for environment `{config.environment}`")
        return config, stored.seq

    async def history(self, after_seq: int, before_seq: int) -> AsyncIterator[tuple[ActiveConfig, int]]:
        """Yield each record that was active between two sequences, oldest first; the stream keeps them all.

        What cannot be read was nothing, and is left out. Raises StoreUnavailable, StoreRefused.
        """
        seq = after_seq
        while seq + 1 < before_seq:
            stored = await read_from(
                self._publisher.nc, stream_config(self._env), subject_config_active(self._env), seq + 1
            )
            if stored is None or stored.seq >= before_seq:
                return
            seq = stored.seq
            config = strict_parse(ActiveConfig, stored.data)
            if not isinstance(config, Refusal) and config.environment == self._env:
                yield config, seq

    async def activate(self, config: ActiveConfig, expected_seq: int) -> int:
        """Make `config` the active one if the active one still has sequence `expected_seq` (0: none yet).

        Returns its own sequence.

        Raises:
            ActivationLost: the active one is another by now.
            StoreUnavailable: no ack; read `active` to learn whether it happened.
        """
        if config.environment != self._env:
            raise ValueError(
                f"a configuration of environment `{config.environment}` cannot be active in `{self._env}`"
            )
        subject = subject_config_active(self._env)
        ack = await replace_last(self._publisher, subject, canonical(config), expected_seq)
        if ack is None:
            raise ActivationLost(f"the active configuration is no longer the one at {expected_seq}")
        return ack.seq

    async def artifact(self, sha256_hex: str) -> bytes | None:
        """Return the serialised Signed of that digest, None where there is none.

        Raises:
            ArtifactDamaged: what is stored there has another digest.
        """
        stored = await read_last(
            self._publisher.nc, stream_config(self._env), subject_artifact(self._env, sha256_hex)
        )
        if stored is None:
            return None
        if sha256(stored.data).hexdigest() != sha256_hex:
            raise ArtifactDamaged(f"artifact `{sha256_hex}` has other bytes")
        return stored.data

    async def put_artifact(self, signed: Signed) -> str:
        """Store `signed` and return its digest in lower hex; storing it again changes nothing."""
        body = canonical(signed)
        if len(body) > MAX_ARTIFACT_BYTES:
            raise ValueError(f"an artifact of {len(body)} bytes is larger than {MAX_ARTIFACT_BYTES}")
        digest = sha256(body).hexdigest()
        await replace_last(self._publisher, subject_artifact(self._env, digest), body, 0)
        return digest
