"""Which domain an address is of: what a tool may be pointed at must not depend on who reads it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from licet.catalog.domain import domain_of, named_domain, within

ALLOWED = frozenset({"example.com", "*.corp.example.org", "xn--bcher-kva.example"})


def passes(address: str) -> bool:
    domain = domain_of(address)
    return domain is not None and within(domain, ALLOWED)


@pytest.mark.parametrize(
    "address",
    [
        "https://example.com",
        "https://example.com/",
        "HTTPS://EXAMPLE.com/a/b?c=d#e",
        "https://example.com:443/x",
        "https://example.com/@evil.test/",
        "https://example.com/?to=https://evil.test",
        "https://a.corp.example.org/x",
        "https://a.b.corp.example.org/x",
        "https://xn--bcher-kva.example/",
        "ada@example.com",
        "Ada.Lovelace+tag@EXAMPLE.com",
        "ada@mail.corp.example.org",
    ],
)
def test_address_of_an_allowed_domain_passes(address: str) -> None:
    assert passes(address)


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.test/",
        "https://example.com.evil.test/",  # a longer name
        "https://evilexample.com/",
        "https://corp.example.org/",  # `*.` is for what lies below
        "https://example.com@evil.test/",  # user information
        "https://example.com:443@evil.test/",
        "https://evil.test\\@example.com/",  # a backslash is a slash to a browser
        "https://evil.test/\\example.com",
        "https://example.com\\.evil.test/",
        "https://evil.test#@example.com/",
        "https://evil.test?@example.com/",
        "https://example.com#@evil.test/",  # readers differed on where the host ends
        "https://example.com?@evil.test/",
        "https://example.com./",  # a trailing dot: another name to a certificate, the same to DNS
        "https://.example.com/",
        "https://example.com%2eevil.test/",
        "https://example.com%00.evil.test/",
        "https://ex%61mple.com/",
        "https:/example.com/",
        "https:///example.com/",
        "//example.com/",
        "example.com/x",
        "http://example.com/",
        "javascript://example.com/%0aalert(1)",
        "file://example.com/etc/passwd",
        "https://example.com:22/",
        "https://example.com:0443/",
        "https://example.com:/",
        " https://example.com/",
        "https://example.com/ https://evil.test/",
        "https://example.com\n.evil.test/",
        "https://exam\tple.com/",
        "https://example.com/\x00",
        "https://ex\u00e4mple.com/",
        "https://ex\u0430mple.com/",  # a Cyrillic letter
        "https://b\u00fccher.example/",  # write its xn-- form
        "https://example\u3002com/",  # a full stop to IDNA
        "https://\uff45xample.com/",
        "https://example.com\u2024evil.test/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://[::1]/",
        "https://localhost/",
        "https://example.com\u200b/",
        "ada@evil.test",
        "ada@example.com@evil.test",
        "ada@evil.test@example.com",
        "ada%evil.test@example.com",  # routed on by old relays
        "evil.test!ada@example.com",
        "Ada <ada@example.com>",
        "ada@example.com, eve@evil.test",
        "ada@example.com;eve@evil.test",
        "ada@example.com\nBcc: eve@evil.test",
        '"ada@evil.test"@example.com',
        "ada@[127.0.0.1]",
        "ada(comment)@example.com",
        "ada@example.com.",
        "@example.com",
        "ada@example.com?bcc=eve@evil.test",
        "mailto:ada@example.com",
        "",
    ],
)
def test_address_that_could_be_of_another_domain_is_of_none(address: str) -> None:
    assert not passes(address)


def test_schemes_are_those_that_the_rule_names() -> None:
    assert domain_of("http://example.com:80/", {"http"}) == "example.com"
    assert domain_of("http://example.com:443/", {"http"}) is None
    assert domain_of("https://example.com/", {"http"}) is None


@pytest.mark.parametrize("name", ["example.com", "*.example.com", "xn--bcher-kva.example"])
def test_catalog_may_name_a_domain(name: str) -> None:
    assert named_domain(name)


@pytest.mark.parametrize(
    "name",
    [
        *("Example.com", "example.com.", "*", "*.*.com", "a*.example.com", "example", "127.0.0.1", "[::1]"),
        *(
            "b\u00fccher.example",
            "https://example.com",
            "example.com:8443",
            "ada@example.com",
            "-a.example",
            "",
        ),
        "a." * 130 + "example",
    ],
)
def test_catalog_may_not_name_what_no_address_is_of(name: str) -> None:
    assert not named_domain(name)


@settings(deadline=None)
@given(st.text(alphabet="abz.@:/\\?#%[]0- \t\u0430\u3002*", max_size=40))
def test_a_domain_is_always_one_that_a_catalog_could_name(address: str) -> None:
    """And stands in the address as it is: nothing was decoded, converted or cut out of it."""
    domain = domain_of(address)
    assert domain is None or (named_domain(domain) and domain in address.lower())


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_whatever_stands_before_a_host_does_not_make_it_allowed(text: str) -> None:
    address = f"https://{text}evil.test/"
    assert not passes(address) or "/" in text
