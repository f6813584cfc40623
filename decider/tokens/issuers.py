"""Who is believed about users: the issuers of a file, their keys kept fresh, and a token's way through both.

`issuers.yaml` names each issuer with audience, principal claim, algorithms, and `jwks_file` or `jwks_url`.
Guarantees: a key set is used for at most `STALE_S` after it was read, so a key that its issuer withdrew ends
with it; a token that names an unknown key has the set read again, at most every `AGAIN_S`, so new keys work
at once and invented ones cause no flood. Keys that cannot be had are no decision, never a pass.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from decider.https import HttpsError, check_url
from decider.source import Section, read
from decider.tokens.keys import ALGORITHMS, Keys, KeysError, read_jwks
from decider.tokens.source import FileSource, KeySource, UrlSource
from decider.tokens.token import Issuer, User, read_token, verify_token
from licet.log import log
from licet.refusal import Reason, Refusal

logger = logging.getLogger(__name__)

FRESH_S: Final = 300.0
"""How long a key set is used before it is read again, in s."""

STALE_S: Final = 3_600.0
"""How long a key set is used while it cannot be read again, in s."""

AGAIN_S: Final = 10.0
"""Between two readings of one key set, in s."""


class IssuerKeys:
    """The keys of one issuer; `monotonic_ms` is the clock that ages them."""

    def __init__(self, source: KeySource, monotonic_ms: Callable[[], int]) -> None:
        self._source, self._monotonic_ms = source, monotonic_ms
        self._lock = asyncio.Lock()
        self._keys: Keys | None = None
        self._read_ms = self._tried_ms = 0

    def _age_s(self, since_ms: int) -> float:
        return (self._monotonic_ms() - since_ms) / 1000

    async def with_key(self, key_id: str) -> Keys | Refusal:
        """Return keys that are fresh enough, read again where `key_id` is not among them."""
        if not self._serves(key_id):
            async with self._lock:
                if not self._serves(key_id) and (
                    not self._tried_ms or self._age_s(self._tried_ms) >= AGAIN_S
                ):
                    await self._refresh()
        if self._keys is None or self._age_s(self._read_ms) >= STALE_S:
            return Refusal(Reason.TOKEN_KEYS_UNAVAILABLE, "no fresh keys of the issuer")
        return self._keys

    def _serves(self, key_id: str) -> bool:
        return self._keys is not None and key_id in self._keys and self._age_s(self._read_ms) < FRESH_S

    async def _refresh(self) -> None:
        started = self._tried_ms = self._monotonic_ms()
        try:
            self._keys = read_jwks(await self._source.read())
            self._read_ms = started
        except KeysError as error:
            log(logger, logging.ERROR, "issuer.keys_unavailable", detail=str(error)[:300])


@dataclass(frozen=True, slots=True)
class Believed:
    """One issuer and where its keys come from."""

    issuer: Issuer
    keys: IssuerKeys


class Users:
    """Verifies user tokens. `required`: a call without one is denied."""

    def __init__(self, issuers: Mapping[str, Believed], *, required: bool = False) -> None:
        self._issuers = issuers
        self.required = required

    async def verify(self, token: str, *, now_ms: int) -> User | Refusal | None:
        """Return whom a token is for; None where none came and none is needed."""
        if not token:
            return Refusal(Reason.TOKEN_MISSING, "no user token came") if self.required else None
        if not self._issuers:
            return Refusal(Reason.PRINCIPAL_INVALID, "no issuer of user tokens is known")
        claimed = read_token(token)
        if isinstance(claimed, Refusal):
            return claimed
        believed = self._issuers.get(claimed.issuer)
        if believed is None:
            return Refusal(Reason.TOKEN_ISSUER, "no issuer of this name is known")
        keys = await believed.keys.with_key(claimed.key_id)
        if isinstance(keys, Refusal):
            return keys
        return verify_token(claimed, believed.issuer, keys, now_ms=now_ms)


def read_issuers(path: Path | None, monotonic_ms: Callable[[], int]) -> Users:
    """Return the issuers of a file; without one nobody is believed. Raises `SourceError` with every fault."""
    if path is None:
        return Users({})
    top, faults = read(path)
    required = top.flag("required", default=False)
    listed = top.section("issuers", required=True)
    issuers: dict[str, Believed] = {}
    for name in listed.names() if listed is not None else ():
        section = listed.section(name) if listed is not None else None
        if section is None:
            continue
        source = _source(section, path.parent)
        issuers[name] = Believed(_issuer(name, section), IssuerKeys(source, monotonic_ms))
        section.close()
    if listed is not None and not listed.names():
        top.refuse("issuers", "names nobody: leave the file out instead")
    top.close()
    faults.raise_any()
    return Users(issuers, required=required)


def _issuer(name: str, section: Section) -> Issuer:
    algorithms = frozenset(section.texts("algorithms")) or ALGORITHMS
    if not algorithms <= ALGORITHMS:
        section.refuse("algorithms", f"must be of {', '.join(sorted(ALGORITHMS))}")
    audience = section.text("audience")
    if not audience:
        section.refuse("audience", "must not be empty: a token for anybody is for nobody")
    return Issuer(name, audience, section.text("principal", "sub"), algorithms)


def _source(section: Section, directory: Path) -> KeySource:
    file, url = section.text("jwks_file", ""), section.text("jwks_url", "")
    ca_file, private = section.text("ca_file", ""), section.flag("private", default=False)
    if bool(file) is bool(url):
        section.refuse("jwks_file", "give exactly one of `jwks_file` and `jwks_url`")
    if file:
        return FileSource(directory / file)
    if url:
        try:
            check_url(url)
        except HttpsError as error:
            section.refuse("jwks_url", str(error))
    return UrlSource(url, directory / ca_file if ca_file else None, private=private)
