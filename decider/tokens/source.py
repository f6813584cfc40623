"""Where an issuer's key set comes from: a file, or a URL of its own."""

import asyncio
import http
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from decider.https import Endpoint, HttpsError, Question, ask
from decider.tokens.keys import MAX_JWKS_BYTES, KeysError

TIMEOUT_S: Final = 5.0


class KeySource(Protocol):
    """Gives the bytes of a key set."""

    async def read(self) -> bytes:
        """Return the key set now. Raises `KeysError`."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A key set in a file, read anew each time."""

    path: Path

    async def read(self) -> bytes:
        """Return the file's bytes. Raises `KeysError`."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                return file.read(MAX_JWKS_BYTES + 1)
        except OSError as error:
            raise KeysError(f"`{self.path}` cannot be read: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class UrlSource:
    """A key set behind an https URL; `ca_file`: whom its certificate comes from, None: the system's."""

    url: str
    ca_file: Path | None = None
    timeout_s: float = TIMEOUT_S
    private: bool = False
    """Whether its name may lead to an address that is not of the public network."""

    async def read(self) -> bytes:
        """Return the body of a 200 answer. Raises `KeysError`."""
        endpoint = Endpoint(self.url, self.ca_file, self.timeout_s, MAX_JWKS_BYTES, self.private)
        question = Question(headers={"Accept": "application/json"})
        try:
            status, body = await asyncio.to_thread(ask, endpoint, question)
        except HttpsError as error:
            raise KeysError(str(error)) from None
        if status != http.HTTPStatus.OK:
            raise KeysError(f"`{self.url}` answers {status}; redirects are not followed")
        return body
