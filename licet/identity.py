"""SPIFFE ids: who a workload is, and how the names of our own parts are built.

`parse_spiffe_id` accepts exactly the ids of the SPIFFE-ID specification (sections 2.1 to 2.3) that name a
workload; two different texts are two different ids, nothing is normalised. It proves nothing about who
holds an id: that is the transport's word.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

TRUST_DOMAIN_DEV = "licet.local"
"""Trust domain of the identities that are made for development."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Where identities that callers only claim are believed, in development."""

MAX_SPIFFE_ID_BYTES = 2048
"""SPIFFE-ID 2.3: implementations must support, and must not make, more."""

MAX_TRUST_DOMAIN_BYTES = 255
"""SPIFFE-ID 2.3."""

_TRUST_DOMAIN = re.compile(r"[a-z0-9._-]{1,255}", re.ASCII)
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_TOKEN = re.compile(r"[a-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SpiffeId:
    """A workload's identity: `spiffe://<trust_domain><path>`; `path` begins with a slash."""

    trust_domain: str
    path: str

    def __str__(self) -> str:
        return f"spiffe://{self.trust_domain}{self.path}"


def parse_spiffe_id(text: str) -> SpiffeId | None:
    """Return the id that `text` spells, or None.

    Refuses another scheme or another case of it, user info, port, query, fragment, percent-encoding, an
    empty path, empty, `.` and `..` segments, a trailing slash, and more than 2,048 bytes. Never raises.
    """
    return _parsed(text) if len(text) <= MAX_SPIFFE_ID_BYTES else None


@lru_cache(maxsize=1_024)  # the same few callers come again and again
def _parsed(text: str) -> SpiffeId | None:
    scheme, separator, rest = text.partition("://")
    if scheme != "spiffe" or not separator:
        return None
    trust_domain, _, path = rest.partition("/")
    if not _TRUST_DOMAIN.fullmatch(trust_domain):
        return None
    for segment in path.split("/"):
        if segment in {".", ".."} or not _SEGMENT.fullmatch(segment):
            return None
    return SpiffeId(trust_domain, f"/{path}")


def certificate_id(certificate: Mapping[str, Any] | None) -> str:
    """Return the one SPIFFE id of a certificate as `ssl.SSLSocket.getpeercert` gives it.

    X.509-SVID 2: exactly one URI SAN; a certificate with two names nobody, and the answer is empty.
    """
    names = (certificate or {}).get("subjectAltName", ())
    uris = [name for kind, name in names if kind == "URI"]
    return uris[0] if len(uris) == 1 and parse_spiffe_id(uris[0]) is not None else ""


@lru_cache(maxsize=1_024)
def subject_token(text: str) -> str:
    """Return `text` if it may stand as one token of a NATS subject or one segment of an id.

    Lower-case letters, digits, `_` and `-`, 1 to 64 of them: a `.`, `*` or `>` in a name would reach other
    subjects. Raises ValueError on anything else.
    """
    if not _TOKEN.fullmatch(text):
        raise ValueError(f"`{text}` is no name: use 1 to 64 of a-z, 0-9, `_` and `-`")
    return text


def audience_of(trust_domain: str, environment: str, tool: str) -> str:
    """Return the audience of a tool; raises ValueError on a name that is none."""
    return _build(trust_domain, environment, "tool", tool)


def sidecar_id(trust_domain: str, environment: str, tool: str) -> str:
    """Return the id of a tool's sidecar; raises ValueError on a name that is none."""
    return _build(trust_domain, environment, "sidecar", tool)


def agent_id(trust_domain: str, environment: str, name: str) -> str:
    """Return the id of an agent; raises ValueError on a name that is none."""
    return _build(trust_domain, environment, "agent", name)


def decider_id(trust_domain: str, environment: str) -> str:
    """Return the id of an environment's deciders; raises ValueError on a name that is none."""
    return _build(trust_domain, environment, "decider")


def reconciler_id(trust_domain: str, environment: str) -> str:
    """Return the id of an environment's reconciler; raises ValueError on a name that is none."""
    return _build(trust_domain, environment, "reconciler")


def audit_writer_id(trust_domain: str, environment: str) -> str:
    """Return the id of an environment's audit writer; raises ValueError on a name that is none."""
    return _build(trust_domain, environment, "audit-writer")


def check_credentials(files: Sequence[object], *, development: bool) -> None:
    """Refuse settings that leave open as whom a process speaks; `files` are certificate, key and authority.

    Raises:
        ValueError: only some of the files are named, or development identities beside them.
    """
    if any(files) and not all(files):
        raise ValueError(
            "mTLS needs all of LICET_TLS_CERTIFICATE_FILE, LICET_TLS_KEY_FILE and LICET_TLS_CA_FILE"
        )
    if any(files) and development:
        raise ValueError("LICET_DEV_IDENTITY and TLS exclude one another")


def check_server_credentials(files: Sequence[object], *, development: bool, listen: str) -> None:
    """Refuse settings under which callers would have no identity that anything proves.

    Raises:
        ValueError: as `check_credentials`, or neither way is set, or development identities beyond loopback.
    """
    check_credentials(files, development=development)
    if not any(files) and not development:
        raise ValueError(
            "callers would have no identity: set the three LICET_TLS_*_FILE, "
            "or LICET_DEV_IDENTITY=true on loopback"
        )
    if development and listen.rpartition(":")[0] not in LOOPBACK:
        raise ValueError(f"LICET_DEV_IDENTITY holds on loopback only, not on `{listen}`")


def _build(trust_domain: str, *segments: str) -> str:
    if not _TRUST_DOMAIN.fullmatch(trust_domain):
        raise ValueError(f"`{trust_domain}` is no trust domain")
    return str(SpiffeId(trust_domain, "".join(f"/{subject_token(segment)}" for segment in segments)))
