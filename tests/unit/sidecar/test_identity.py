import pytest

from licet.identity import certificate_id
from sidecar.identity import certified_peer, development_peer, is_loopback

AGENT = "spiffe://licet.local/dev/agent/refund-bot"


def context(names: list[bytes], version: bytes = b"TLSv1.3") -> dict[str, list[bytes]]:
    return {"peer_uri": names, "x509_subject_alternative_name": names, "ssl_tls_version": [version]}


def test_the_one_uri_san_is_the_peer() -> None:
    assert certified_peer(context([AGENT.encode()])) == AGENT


def test_dns_names_beside_the_one_uri_do_not_matter() -> None:
    names = context([AGENT.encode()]) | {"x509_subject_alternative_name": [b"localhost", AGENT.encode()]}
    assert certified_peer(names) == AGENT


@pytest.mark.parametrize("kind", ["peer_dns", "peer_email"])
def test_a_spiffe_id_that_is_no_uri_of_the_certificate_names_nobody(kind: str) -> None:
    """Authorities that watch over URIs may sign any text as a host name or a mailbox."""
    names = {kind: [AGENT.encode()], "x509_subject_alternative_name": [AGENT.encode()]}
    assert certified_peer({**names, "ssl_tls_version": [b"TLSv1.3"]}) == ""


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
    assert certified_peer(context(names)) == ""


@pytest.mark.parametrize("version", [b"TLSv1.2", b"", b"TLSv1.30"])
def test_a_peer_below_tls_13_is_nobody(version: bytes) -> None:
    assert certified_peer(context([AGENT.encode()], version)) == ""


def test_no_certificate_names_nobody() -> None:
    assert certified_peer({}) == ""


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
