"""Destroys a tenant's payload keys: what was sealed under them is unreadable from then on, wherever it is.

The order is the guarantee: first `key.revoked` is on record, acknowledged by JetStream, for every key; only
then are the files overwritten and removed. Where the record fails, nothing is destroyed; where destroying
fails, it says so and can be run again. Not destroyed: copies of the key files that somebody else has, and
blocks that a file system or a disk keeps of what was overwritten. Keys are best held on a medium that can be
destroyed as a whole.

Nothing in the store changes: events keep their bytes and their chain, and the payloads' bytes stay until
their retention, closed for good.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from licet.event import EventKind
from licet.journal import Journal
from licet.keyfile import SUFFIX
from licet.keys import KeyRole, KeySet
from licet.statement import SigningKey
from licet.streams import Publisher, subject_audit
from licet.streams.connection import Connection

WITHIN_S = 10.0
"""How long the record may take."""


class ShredError(Exception):
    """Nothing could be destroyed, or not all; the message says what is left."""


@dataclass(frozen=True, slots=True)
class Doomed:
    """The keys of a tenant: ids from the key set, and the files of those that are in the directory."""

    tenant: str
    key_ids: tuple[str, ...]
    files: tuple[Path, ...]


def doomed(keys: KeySet, directory: Path, tenant: str) -> Doomed:
    """Return what would be destroyed. Raises ShredError where the tenant has no key, or none is here."""
    key_ids = tuple(
        sorted(
            key.key_id for key in keys.keys.values() if key.role is KeyRole.PAYLOAD and key.owner == tenant
        )
    )
    if not key_ids:
        raise ShredError(f"the key set has no payload key of tenant `{tenant}`")
    files = tuple(
        path
        for key_id in key_ids
        if (path := directory / f"{key_id}{SUFFIX}").is_file() and key_id == path.stem
    )
    if not files:
        raise ShredError(
            f"`{directory}` has no private key of tenant `{tenant}`: name the directory that has"
        )
    return Doomed(tenant, key_ids, files)


async def record(
    nc: Connection, environment: str, source: str, checkpoint_key: SigningKey, found: Doomed
) -> None:
    """Put on record, in a run of its own, that the keys are destroyed; raises where JetStream has not."""
    publisher = await Publisher.open(nc)
    with tempfile.TemporaryDirectory(prefix="licet-shred-") as directory:
        journal = await Journal.open(
            Path(directory),
            source=source,
            environment=environment,
            subject=subject_audit(environment, "audit", "shred"),
            checkpoint_key=checkpoint_key,
            publisher=publisher,
        )
        try:
            for path in found.files:
                await journal.append_acked(
                    EventKind.KEY_REVOKED,
                    within_s=WITHIN_S,
                    tenant=found.tenant,
                    key_id=path.stem,
                    detail="payload key destroyed: what was sealed under it opens for nobody",
                )
        finally:
            await journal.close()
            await publisher.close()


def destroy(files: Sequence[Path]) -> None:
    """Overwrite and remove the files, synced to disk. Raises ShredError with those that are left."""
    left = []
    for path in files:
        try:
            with path.open("r+b") as file:
                size = os.fstat(file.fileno()).st_size
                file.write(bytes(size))
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
            directory = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            left.append(f"`{path}`: {error.strerror}")
    if left:
        raise ShredError(f"recorded, but not destroyed: {'; '.join(left)}; run it again")
