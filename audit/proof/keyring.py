"""The key set on disk, read again when its file changes; the last good one is kept while a new one is bad."""

import logging
from pathlib import Path
from typing import Final

from licet.keyfile import KeyFileError, read_public, read_signed
from licet.keys import KeySet, read_keyset
from licet.log import log
from licet.refusal import Refusal

LOG: Final = logging.getLogger(__name__)


class Keyring:
    """Reads `path`, verified against the root key in `root`, for one environment."""

    def __init__(self, path: Path, root: Path, environment: str) -> None:
        self._path = path
        self._root = root
        self._environment = environment
        self._stamp = (0, 0)
        self._keys: KeySet | None = None

    def current(self) -> KeySet | None:
        """Return the newest good key set; None until there was one."""
        try:
            status = self._path.stat()
        except OSError:
            return self._keys
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            self._stamp = stamp
            self._read()
        return self._keys

    def _read(self) -> None:
        try:
            keys = read_keyset(
                read_signed(self._path), read_public(self._root), environment=self._environment
            )
        except KeyFileError as error:
            log(LOG, logging.ERROR, "keyset.unreadable", error=str(error))
            return
        if isinstance(keys, Refusal):
            log(LOG, logging.ERROR, "keyset.refused", reason=str(keys.reason), detail=keys.detail)
            return
        self._keys = keys
