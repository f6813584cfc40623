import datetime as dt
import ssl
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from licet.certificate import ends_at_ms
from licet.identity import certificate_id
from licet.peer import certified_peer, development_peer, is_loopback
from tests.worlds.certificates import Authority

AGENT = "spiffe://licet.local/dev/agent/refund-bot"
END = dt.datetime(2049, 12, 31, 23, 59, 58, tzinfo=dt.UTC)
END_MS = int(END.timestamp()) * 1_000


def pem_of(directory: Path, end: dt.datetime = END) -> bytes:
    life = {"not_before": dt.datetime(1999, 1, 1, tzinfo=dt.UTC), "not_after": end}
    chain, _ = Authority(directory).issue("agent", AGENT, **life)
    return chain.read_bytes()


@cache
def pem() -> bytes:
    with TemporaryDirectory() as directory:
        return pem_of(Path(directory))


def context(names: list[bytes], version: bytes = b"TLSv1.3") -> dict[str, list[bytes]]:
    return {"peer_uri": names, "ssl_tls_version": [version], "x509_pem_cert": [pem()]}


def peer(auth_context: dict[str, list[bytes]], now_ms: int = END_MS) -> str:
    return certified_peer(auth_context, now_ms=now_ms)


def test_the_one_uri_san_is_the_peer() -> None:
    assert peer(context([AGENT.encode()])) == AGENT


def test_dns_names_beside_the_one_uri_do_not_matter() -> None:
    names = context([AGENT.encode()]) | {"x509_subject_alternative_name": [b"localhost", AGENT.encode()]}
    assert peer(names) == AGENT


@pytest.mark.parametrize("kind", ["peer_dns", "peer_email"])
def test_a_spiffe_id_that_is_no_uri_of_the_certificate_names_nobody(kind: str) -> None:
    """Authorities that watch over URIs may sign any text as a host name or a mailbox."""
    names = {kind: [AGENT.encode()], "x509_subject_alternative_name": [AGENT.encode()]}
    assert peer(context([]) | names) == ""


@pytest.mark.parametrize(
    "names",
    [
        [],
        [b"localhost"],
        [AGENT.encode(), b"spiffe://licet.local/dev/agent/other"],
        [AGENT.encode(), b"https://example.com/"],
        [AGENT.encode(), b"urn:x"],
        [b"spiffe://licet.local/dev/agent/refund-bot/"],
        [b"SPIFFE://licet.local/dev/agent/refund-bot"],
        [b"\xff://x/y"],
    ],
)
def test_a_certificate_that_names_nobody_or_two_names_nobody(names: list[bytes]) -> None:
    assert peer(context(names)) == ""


@pytest.mark.parametrize("version", [b"TLSv1.2", b"", b"TLSv1.30"])
def test_a_peer_below_tls_13_is_nobody(version: bytes) -> None:
    assert peer(context([AGENT.encode()], version)) == ""


def test_no_certificate_names_nobody() -> None:
    assert peer({}) == ""


def test_a_certificate_that_has_ended_names_nobody() -> None:
    """BoringSSL resumes a handshake for days without looking at the certificate again."""
    names = context([AGENT.encode()])
    assert [peer(names, END_MS + ms) for ms in (-1, 0, 1)] == [AGENT, AGENT, ""]


@pytest.mark.parametrize("certificates", [[], [b""], [b"no certificate"], "cut", "two"])
def test_a_certificate_whose_end_is_unknown_names_nobody(certificates: list[bytes] | str) -> None:
    pems = {"cut": [pem()[:200] + b"-----END CERTIFICATE-----"], "two": [pem(), pem()]}
    found = pems[certificates] if isinstance(certificates, str) else certificates
    assert peer(context([AGENT.encode()]) | {"x509_pem_cert": found}) == ""


@pytest.mark.parametrize(
    "end", [dt.datetime(year, 2, 28, 23, 59, 59, tzinfo=dt.UTC) for year in (2000, 2026, 2049, 2050, 9999)]
)
def test_the_end_is_read_in_both_spellings_of_a_time(tmp_path: Path, end: dt.datetime) -> None:
    """RFC 5280: two digits of the year before 2050, four from then on."""
    assert ends_at_ms(pem_of(tmp_path, end)) == int(end.timestamp()) * 1_000


def test_what_is_no_certificate_has_no_end_and_raises_nothing() -> None:
    der = ssl.PEM_cert_to_DER_cert(pem().decode())
    for cut in range(160):
        assert ends_at_ms(ssl.DER_cert_to_PEM_cert(der[:cut]).encode()) is None
        ends_at_ms(ssl.DER_cert_to_PEM_cert(der[:cut] + b"\xff" + der[cut + 1 :]).encode())


@pytest.mark.parametrize(
    "origin", ["ipv4:127.0.0.1:1", "ipv6:[::1]:1", "ipv6:%5B::1%5D:1", "unix:", "unix:/run/x"]
)
def test_a_development_identity_holds_on_this_machine(origin: str) -> None:
    assert development_peer(origin, (("licet-dev-identity", AGENT),)) == AGENT
    assert is_loopback(origin)


@pytest.mark.parametrize(
    "origin", ["ipv4:10.0.0.7:1", "ipv6:[fe80::1]:1", "ipv4:12.7.0.1:1", "", "ipv6:[::ffff:10.0.0.1]:1"]
)
def test_a_development_identity_from_elsewhere_is_nobody(origin: str) -> None:
    assert development_peer(origin, (("licet-dev-identity", AGENT),)) == ""


@pytest.mark.parametrize(
    "pairs",
    [
        (),
        (("licet-dev-identity", AGENT), ("licet-dev-identity", AGENT)),
        (("licet-dev-identity", "refund-bot"),),
        (("licet-dev-identity", AGENT.encode()),),
    ],
)
def test_a_development_identity_is_claimed_once_and_whole(pairs: tuple[tuple[str, str | bytes], ...]) -> None:
    assert development_peer("ipv4:127.0.0.1:1", pairs) == ""


def certificate(*names: tuple[str, str]) -> dict[str, object]:
    return {"subject": (), "subjectAltName": names}


def test_a_server_is_the_one_uri_of_its_certificate() -> None:
    assert certificate_id(certificate(("DNS", "decider"), ("URI", AGENT))) == AGENT


@pytest.mark.parametrize(
    "names",
    [
        [],
        [("DNS", AGENT)],
        [("URI", AGENT), ("URI", AGENT)],
        [("URI", AGENT), ("URI", "https://example.com/")],
        [("URI", AGENT.upper())],
        [("email", AGENT)],
    ],
)
def test_a_server_with_no_id_or_two_is_nobody(names: list[tuple[str, str]]) -> None:
    assert certificate_id(certificate(*names)) == ""


@pytest.mark.parametrize("missing", [None, {}, {"subjectAltName": ()}])
def test_a_server_without_a_certificate_is_nobody(missing: dict[str, object] | None) -> None:
    assert certificate_id(missing) == ""
