import pytest
from hypothesis import given
from hypothesis import strategies as st

from licet.identity import (
    LOOPBACK,
    MAX_SPIFFE_ID_BYTES,
    TRUST_DOMAIN_DEV,
    SpiffeId,
    agent_id,
    audience_of,
    audit_writer_id,
    certificate_id,
    check_credentials,
    check_server_credentials,
    decider_id,
    parse_spiffe_id,
    reconciler_id,
    sidecar_id,
    subject_token,
)


@pytest.mark.parametrize(
    "text",
    [
        "spiffe://licet.local/prod/agent/support",
        "spiffe://a/b",
        "spiffe://a_b-c.d/x.y_z-9/Q",
        "spiffe://1.2.3.4/a",
    ],
)
def test_spiffe_id_round_trips(text: str) -> None:
    parsed = parse_spiffe_id(text)
    assert isinstance(parsed, SpiffeId)
    assert str(parsed) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spiffe://",
        "spiffe:/a/b",
        "SPIFFE://a/b",
        "Spiffe://a/b",
        "https://a/b",
        "spiffe://a",
        "spiffe://a/",
        "spiffe:///b",
        "spiffe://a/b/",
        "spiffe://a//b",
        "spiffe://a/./b",
        "spiffe://a/../b",
        "spiffe://a/b/..",
        "spiffe://A/b",
        "spiffe://u@a/b",
        "spiffe://a:80/b",
        "spiffe://a/b?c",
        "spiffe://a/b#c",
        "spiffe://a/%62",
        "spiffe://a/b c",
        "spiffe://a/b\n",
        "spiffe://a\n/b",
        "spiffe://a/é",
        "spiffe://é/a",
        " spiffe://a/b",
        "spiffe://" + "a" * 256 + "/b",
        "spiffe://a/" + "b" * (MAX_SPIFFE_ID_BYTES - len("spiffe://a/") + 1),
    ],
)
def test_what_is_no_spiffe_id_is_refused(text: str) -> None:
    assert parse_spiffe_id(text) is None


def test_longest_spiffe_id_is_taken() -> None:
    longest = "spiffe://a/" + "b" * (MAX_SPIFFE_ID_BYTES - len("spiffe://a/"))
    assert parse_spiffe_id(longest) is not None
    assert parse_spiffe_id("spiffe://" + "a" * 255 + "/b") is not None


@given(st.text(alphabet="spife:/ab.A%?#@\n", max_size=30))
def test_parsing_never_raises_and_never_normalises(text: str) -> None:
    parsed = parse_spiffe_id(text)
    assert parsed is None or str(parsed) == text


def test_our_parts_have_ids_of_one_form() -> None:
    domain = TRUST_DOMAIN_DEV
    assert audience_of(domain, "prod", "finance") == "spiffe://licet.local/prod/tool/finance"
    assert sidecar_id(domain, "prod", "finance") == "spiffe://licet.local/prod/sidecar/finance"
    assert agent_id(domain, "prod", "support") == "spiffe://licet.local/prod/agent/support"
    assert decider_id(domain, "prod") == "spiffe://licet.local/prod/decider"
    assert reconciler_id(domain, "prod") == "spiffe://licet.local/prod/reconciler"
    assert audit_writer_id(domain, "prod") == "spiffe://licet.local/prod/audit-writer"
    assert all(parse_spiffe_id(one(domain, "prod")) for one in (decider_id, reconciler_id, audit_writer_id))


@pytest.mark.parametrize("token", ["a", "a-b_9", "x" * 64])
def test_token_is_taken(token: str) -> None:
    assert subject_token(token) == token


@pytest.mark.parametrize("token", ["", "a.b", "*", ">", "a b", "A", "é", "a\n", "x" * 65, "a/b"])
def test_token_that_reaches_other_subjects_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        subject_token(token)
    with pytest.raises(ValueError, match="is no name"):
        audience_of(TRUST_DOMAIN_DEV, "prod", token)


def test_id_of_no_trust_domain_is_refused() -> None:
    with pytest.raises(ValueError, match="is no trust domain"):
        decider_id("A/b", "prod")


FILES = ("certificate.pem", "key.pem", "ca.pem")


@pytest.mark.parametrize(
    "files", [("", *FILES[1:]), (*FILES[:2], None), ("", "key.pem", ""), (None, None, "ca.pem")]
)
def test_half_a_set_of_tls_files_is_refused_and_all_or_none_is_taken(files: tuple[str | None, ...]) -> None:
    for development in (True, False):
        with pytest.raises(ValueError, match="mTLS needs all of"):
            check_credentials(files, development=development)
    check_credentials(FILES, development=False)
    for development in (True, False):
        check_credentials((None, None, None), development=development)


def test_certificates_and_claimed_identities_exclude_one_another() -> None:
    with pytest.raises(ValueError, match="exclude one another"):
        check_credentials(FILES, development=True)
    with pytest.raises(ValueError, match="exclude one another"):
        check_server_credentials(FILES, development=True, listen="127.0.0.1:1")


def test_server_that_could_prove_no_caller_does_not_start() -> None:
    with pytest.raises(ValueError, match="callers would have no identity"):
        check_server_credentials(("", "", ""), development=False, listen="127.0.0.1:1")
    check_server_credentials(FILES, development=False, listen="0.0.0.0:1")


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.0.0.1.evil.test:1", ":1", "1"])
def test_claimed_identities_are_believed_on_loopback_alone(listen: str) -> None:
    with pytest.raises(ValueError, match="holds on loopback only"):
        check_server_credentials((), development=True, listen=listen)
    for host in LOOPBACK:
        check_server_credentials((), development=True, listen=f"{host}:1")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((("URI", "spiffe://a/b"),), "spiffe://a/b"),
        ((("DNS", "a"), ("URI", "spiffe://a/b")), "spiffe://a/b"),
        ((("URI", "spiffe://a/b"), ("URI", "spiffe://a/c")), ""),
        ((("DNS", "spiffe://a/b"),), ""),
        ((("URI", "https://a/b"),), ""),
        ((), ""),
    ],
)
def test_certificate_says_who_by_exactly_one_uri(names: tuple[tuple[str, str], ...], expected: str) -> None:
    assert certificate_id({"subjectAltName": names}) == expected
    assert certificate_id({}) == certificate_id(None) == ""
