"""Check of this process's certificate, by a handshake with itself in memory: the way peers will judge it."""

import ssl
from pathlib import Path
from typing import Any, Final

from licet.clock import wall_ms
from licet.doctor.finding import Finding, ok, problem, skipped
from licet.doctor.settings import DoctorSettings
from licet.identity import parse_spiffe_id

SOON_S: Final = 3_600
"""One hour: issuers of short certificates renew earlier than that."""

FILES: Final = ("tls_certificate_file", "tls_key_file", "tls_ca_file")


def check_certificates(settings: DoctorSettings, *, now_s: float | None = None) -> Finding:
    """Key and chain fit, the authority vouches for them today, and there is exactly one SPIFFE id."""
    certificate, key, authority = (getattr(settings, name) for name in FILES)
    if certificate is None or key is None or authority is None:
        return skipped("certificates", *FILES)
    do = "issue it again: one SPIFFE URI SAN, by the authority that peers trust"
    try:
        seen = _handshake(certificate, key, authority)
    except (OSError, ssl.SSLError) as error:
        return problem("certificates", f"`{certificate}`: {error}", do)
    uris = [name for kind, name in seen.get("subjectAltName", ()) if kind == "URI"]
    if len(uris) != 1 or parse_spiffe_id(uris[0]) is None:
        return problem("certificates", f"`{certificate}` has {len(uris)} URI names, not one SPIFFE id", do)
    left_s = ssl.cert_time_to_seconds(seen["notAfter"]) - (wall_ms() / 1_000 if now_s is None else now_s)
    if left_s < SOON_S:
        return problem("certificates", f"`{certificate}` ends in {left_s / 60:.0f} min", "is the issuer up?")
    return ok("certificates", f"{uris[0]}, {left_s / 3_600:.0f} h left")


def _handshake(certificate: Path, key: Path, authority: Path) -> dict[str, Any]:
    """Let a server and a client with these files meet; return what the server saw of the client."""
    contexts = []
    for purpose in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(purpose)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
        contexts.append(context)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = contexts[0].wrap_bio(up, down, server_side=True)
    client = contexts[1].wrap_bio(down, up)
    for _ in range(4):  # TLS 1.3 is done in two turns
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    seen: dict[str, Any] = server.getpeercert() or {}
    return seen
